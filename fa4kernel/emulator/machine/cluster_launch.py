"""Cluster launch control: a running cluster takes the work of one that has not started.

The launch's clusters wait in a queue. A request takes the oldest and writes its first CTA's index
into shared memory, as 16 bytes that only ``query_cancel`` understands; ours are three 32-bit
numbers and a mark. Source: PTX ISA 9.7.13.17 and 9.7.13.18.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fa4kernel.emulator.errors import EmulationError
from fa4kernel.emulator.launch import Dim3, Launch
from fa4kernel.emulator.machine.block_copies import SIGNAL, Signal, start_load
from fa4kernel.emulator.machine.bulk import Load
from fa4kernel.emulator.machine.convoy import Convoy
from fa4kernel.emulator.machine.layout import RANK_SHIFT
from fa4kernel.emulator.machine.loads import spread
from fa4kernel.emulator.machine.operands import items_of
from fa4kernel.emulator.machine.places import shared_places
from fa4kernel.emulator.machine.program import (
    Context,
    Handler,
    Outcome,
    allow,
    decodes,
    unsupported,
)
from fa4kernel.emulator.ptx.module import Instruction, Sink

if TYPE_CHECKING:
    from fa4kernel.emulator.machine.machine import Machine

BYTES = 16
OFFSET = (1 << RANK_SHIFT) - 1
#: Last word of a response: a cluster was cancelled, or none was left.
CANCELLED, NONE_LEFT = 0xC1C_0001, 0xC1C_0000
DIMENSIONS = ("x", "y", "z")


class PendingClusters:
    """Clusters of a launch that have not started, by their numbers in the grid, x fastest.

    Args:
        launch: the launch.
        count: how many of its clusters there are to begin with; None for all.

    >>> pending = PendingClusters(Launch(grid=(6, 1, 1), block=(32, 1, 1), cluster=(2, 1, 1)))
    >>> pending.take(1).tolist(), pending.cancel(), len(pending)
    ([0], (2, 0, 0), 1)
    """

    def __init__(self, launch: Launch, count: int | None = None) -> None:
        self.launch = launch
        clusters = launch.ctas // launch.cluster_size
        self._left = deque(range(clusters)[slice(count)])

    def __len__(self) -> int:
        return len(self._left)

    def shared_out(self, parts: int) -> list[PendingClusters]:
        """The same clusters in parts of about the same size, each a queue of its own."""
        left = list(self._left)
        found = []
        for part in range(parts):
            queue = PendingClusters(self.launch, 0)
            queue._left.extend(left[len(left) * part // parts : len(left) * (part + 1) // parts])
            found.append(queue)
        return found

    def take(self, most: int) -> NDArray[np.intp]:
        """Start up to ``most`` clusters: their numbers."""
        return np.array([self._left.popleft() for _ in range(min(most, len(self._left)))], np.intp)

    def cancel(self) -> Dim3 | None:
        """Take one away; the index of its first CTA, or None if none is left."""
        if not self._left:
            return None
        number = self._left.popleft()
        x, y, z = self.launch.cluster
        across, down = self.launch.grid[0] // x, self.launch.grid[1] // y
        at = (number % across, number // across % down, number // (across * down))
        return at[0] * x, at[1] * y, at[2] * z


class Request:
    """One request: its answer is settled when the first CTA gets it, the same for all."""

    def __init__(self, pending: PendingClusters) -> None:
        self.pending = pending
        self.answer: NDArray[np.uint8] | None = None

    def __call__(self) -> NDArray[np.uint8]:
        """The 16 bytes."""
        if self.answer is None:
            first = self.pending.cancel()
            words = (0, 0, 0, NONE_LEFT) if first is None else (*first, CANCELLED)
            self.answer = np.array(words, np.uint32).view(np.uint8)
        return self.answer


@decodes("clusterlaunchcontrol")
def decode_clusterlaunchcontrol(instruction: Instruction, context: Context) -> Handler:
    """``clusterlaunchcontrol.try_cancel`` and ``.query_cancel``."""
    if instruction.qualifiers[0] == "try_cancel":
        return _try_cancel(instruction, context)
    if instruction.qualifiers[0] == "query_cancel":
        return _query(instruction, context)
    raise unsupported(instruction)


def _try_cancel(instruction: Instruction, context: Context) -> Handler:
    everyone = "multicast::cluster::all"
    allow(instruction, "try_cancel", "async", "shared::cta", SIGNAL, everyone, "b128")
    address = context.value(instruction.operands[0])
    signal = Signal(instruction, context, instruction.operands[1])
    multicast = everyone in instruction.qualifiers

    def handler(machine: Machine, convoy: Convoy) -> Outcome:
        lanes = convoy.lanes()
        addresses = address(machine.registers, lanes) & 0xFFFFFFFF
        ctas, offsets = shared_places(machine, lanes, addresses, BYTES, instruction, True)
        for i, lane in enumerate(lanes.tolist()):
            request = Request(machine.pending)
            own = int(machine.rank_of(ctas[i]))
            for rank in range(machine.shape.size) if multicast else [own]:
                load = Load(
                    None, (), int(machine.cta_at(ctas[i], rank)), int(offsets[i]),
                    signal(machine, lane, rank), lane, instruction, request, size=BYTES,
                )  # fmt: skip
                start_load(machine, convoy, load)
        return None

    return handler


def _query(instruction: Instruction, context: Context) -> Handler:
    qualifiers = instruction.qualifiers
    whole = [q for q in qualifiers if q.startswith("get_first_ctaid")]
    allow(instruction, "query_cancel", "is_canceled", "pred", *whole, "v4", "b32", "b128")
    words = [context.quarter(instruction.operands[1], i) for i in range(4)]
    targets = items_of(instruction.operands[0])
    asks = "is_canceled" in qualifiers
    if asks == bool(whole) or (whole and len(targets) != (4 if "v4" in qualifiers else 1)):
        raise unsupported(instruction)
    wanted = [3] if asks else list(range(len(targets)))
    if whole and "v4" not in qualifiers:
        axis = whole[0].partition("::")[2]
        if axis not in DIMENSIONS:
            raise unsupported(instruction)
        wanted = [DIMENSIONS.index(axis)]

    def handler(machine: Machine, convoy: Convoy) -> Outcome:
        lanes = convoy.lanes()
        mark = words[3].words(machine.registers, lanes)
        known = (mark == CANCELLED) | (mark == NONE_LEFT)
        if not known.all():
            raise EmulationError(
                f"query_cancel reads {int(mark[~known][0]):#x}, which is no answer of try_cancel",
                instruction, "launch-control",
            )  # fmt: skip
        if asks:
            spread(machine, convoy, targets[0], "pred", mark == CANCELLED)
            return None
        for target, word in zip(targets, wanted, strict=True):
            if not isinstance(target, Sink):
                values = words[word].words(machine.registers, lanes)
                spread(machine, convoy, target, "u32", values)
        return None

    return handler
