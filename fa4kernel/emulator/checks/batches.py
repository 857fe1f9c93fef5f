"""Runs of MMAs that are looked at together, and commits under way."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fa4kernel.emulator.checks.clocks import Index, Ints
from fa4kernel.emulator.checks.footprints import (
    accumulator,
    operand,
    packed_a,
)
from fa4kernel.emulator.checks.records import Event
from fa4kernel.emulator.machine.products import Operation
from fa4kernel.emulator.machine.tensor_core import Mma

if TYPE_CHECKING:
    pass


@dataclass(slots=True)
class Pending:
    """A commit under way.

    Attributes:
        event, row: its issue, and which of the event's warps issued it.
        given: the clock that it hands on.
        known: phases of its barriers that its issuer knew to be complete.
    """

    event: Event
    row: int
    given: Ints
    known: Ints


class Batch:
    """MMAs that follow each other into one accumulator, from the same lanes."""

    def __init__(self, tick: int, slots: Index, part: Any, ctas: Index) -> None:
        self.tick = tick
        self.slots = slots
        self.part = part
        self.ctas = ctas
        self.works: list[Sequence[Mma]] = []

    def takes(self, works: Sequence[Mma]) -> bool:
        """Whether these continue the last ones, each from the same lane."""
        last = self.works[-1]
        if len(works) != len(last) or works[0].issuer != last[0].issuer:
            return False
        return all(
            new.issuer == old.issuer and new.accumulate and new.operation.continues(old.operation)
            for new, old in zip(works, last, strict=True)
        )

    def groups(self) -> list[tuple[tuple[Operation, ...], bool, Index]]:
        """Operations, whether the first accumulates, and which of the lanes do these."""
        found: dict[Any, list[int]] = defaultdict(list)
        for i in range(len(self.slots)):
            column = [works[i] for works in self.works]
            found[column[0].accumulate, tuple([id(w.operation) for w in column])].append(i)
        return [
            (tuple([works[at[0]].operation for works in self.works]), key[0], np.array(at))
            for key, at in found.items()
        ]


class Product:
    """What a run of MMAs touches in each CTA."""

    def __init__(self, operations: tuple[Operation, ...]) -> None:
        self.operations = operations  # kept, since they are known by their identity
        first = operations[0]
        self.group = first.group
        self.b = operand(operations, True)
        self.a = None if first.a_in_tmem else operand(operations, False)
        self.packed = packed_a(operations) if first.a_in_tmem else None
        self.d = accumulator(first)
