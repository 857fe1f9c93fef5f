"""Named barriers of a CTA: ``bar`` and ``barrier`` (PTX ISA 9.7.13.1).

One without a count waits for all threads of the CTA that have not ended, one with a count for so
many that come (CUDA C++ Programming Guide, Independent Thread Scheduling; an H200 does both).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fa4kernel.emulator.errors import EmulationError
from fa4kernel.emulator.machine.arrivals import Arrival
from fa4kernel.emulator.machine.convoy import Convoy, Mask
from fa4kernel.emulator.machine.program import (
    Condition,
    Context,
    Handler,
    Outcome,
    Wait,
    allow,
    decodes,
    unsupported,
)
from fa4kernel.emulator.machine.registers import Shape
from fa4kernel.emulator.ptx.module import Instruction, Operand

if TYPE_CHECKING:
    from fa4kernel.emulator.machine.machine import Machine

#: Barriers of a CTA.
COUNT = 16
#: Stands for the number of warps of a CTA that have not ended.
ALL = -1


class NamedBarriers:
    """Sixteen barriers for each CTA.

    Attributes:
        arrived: warps that have come, by CTA and number.
        generation: how often each has completed.
        wanted: warps that the first arrival asked for; 0 before it.
        whole: whether it is for all warps that have not ended.
        gone: by CTA the warps (as slots) that have ended.
        completions: how often any of them has completed.
        came: warps (as slots) that arrived in the generation under way, by CTA and number.
        parties: warps (as slots) that ever made it complete, by CTA and number.
        last: the last arrival, by CTA and number.
        votes: for ``bar.red``, by CTA, number and generation: true predicates, and all.
    """

    def __init__(self, shape: Shape, threads: int, now: Callable[[], int] = lambda: 0) -> None:
        self.now = now
        self.arrived = np.zeros((shape.ctas, COUNT), np.int64)
        self.generation = np.zeros((shape.ctas, COUNT), np.int64)
        self.wanted = np.zeros((shape.ctas, COUNT), np.int64)
        self.all_warps = -(-threads // 32)
        self.ctas = shape.ctas
        self.whole = np.zeros((shape.ctas, COUNT), np.bool_)
        self.gone: dict[int, set[int]] = defaultdict(set)
        self.completions = 0
        self.came: dict[tuple[int, int], list[int]] = defaultdict(list)
        self.parties: dict[tuple[int, int], set[int]] = defaultdict(set)
        self.last: dict[tuple[int, int], Arrival] = {}
        self.votes: dict[tuple[int, int, int], list[int]] = {}

    def arrive(
        self,
        slots: NDArray[np.intp],
        numbers: NDArray[np.int64],
        warps: NDArray[np.int64],
        instruction: Instruction,
    ) -> NDArray[np.int64]:
        """One warp for each entry arrives; returns the generation it arrived in.

        Args:
            slots: the warps.
            numbers: which barrier.
            warps: how many warps make it complete; ALL for those of the CTA that have not ended.
        """
        found = np.empty(len(slots), np.int64)
        ctas = slots % self.ctas
        for i, (cta, number, count) in enumerate(zip(ctas, numbers, warps, strict=True)):
            if not 0 <= number < COUNT:
                raise EmulationError(
                    f"named barrier {number}: a CTA has 0 to {COUNT - 1}", instruction, "barrier-id"
                )
            if count == ALL:
                self.whole[cta, number], count = True, self.all_warps
            wanted = self.wanted[cta, number]
            if wanted == 0:
                self.wanted[cta, number] = wanted = count
            if wanted != count:
                raise EmulationError(
                    f"CTA {cta}: a warp arrives at named barrier {number} for {32 * count} threads,"
                    f" others came for {32 * wanted}", instruction, "barrier-count",
                )  # fmt: skip
            found[i] = self.generation[cta, number]
            self.arrived[cta, number] += 1
            key, slot = (int(cta), int(number)), int(slots[i])
            self.came[key].append(slot)
            self.last[key] = Arrival(32 * slot, instruction, self.now())
            self._complete(key)
        return found

    def ended(self, slots: Iterable[int]) -> None:
        """Warps have ended: who waits for all that have not need not wait for them."""
        for slot in slots:
            cta = slot % self.ctas
            self.gone[cta].add(slot)
            for number in np.flatnonzero(self.whole[cta]).tolist():
                self._complete((cta, number))

    def needed(self, key: tuple[int, int]) -> int:
        """How many warps make it complete as things are; 0 before the first arrival."""
        absent = self.gone[key[0]].difference(self.came.get(key, ())) if self.whole[key] else ()
        return int(self.wanted[key]) - len(absent)

    def _complete(self, key: tuple[int, int]) -> None:
        if not self.arrived[key] or self.arrived[key] != self.needed(key):
            return
        self.parties[key].update(self.came.pop(key))
        self.arrived[key] = self.wanted[key] = 0
        self.whole[key] = False
        self.generation[key] += 1
        self.completions += 1


class Passed(Condition):
    """Warps wait until a barrier completes the generation they arrived in."""

    def __init__(self, slots: NDArray[np.intp], numbers: NDArray[np.int64],
                 generations: NDArray[np.int64]) -> None:  # fmt: skip
        self.slots = slots
        self.numbers = numbers
        self.generations = generations

    def _of(self, convoy: Convoy) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        slots, _ = convoy.warps()
        return slots, np.searchsorted(self.slots, slots)

    def version(self, machine: Machine) -> int:
        """Completions of any named barrier."""
        return machine.named.completions

    def ready(self, machine: Machine, convoy: Convoy) -> Mask:
        """Those whose barrier has completed."""
        slots, at = self._of(convoy)
        now = machine.named.generation[machine.ctas_of(slots), self.numbers[at]]
        return convoy.with_warps(now > self.generations[at])

    def woken(self, machine: Machine, convoy: Convoy) -> None:
        """Tell the checks who has passed."""
        if machine.monitor is not None:
            slots, at = self._of(convoy)
            machine.monitor.named_passed(slots, self.numbers[at], self.generations[at])

    def describe(self, machine: Machine, convoy: Convoy) -> list[str]:
        """Barrier, and how many have come."""
        slots, at = self._of(convoy)
        named = machine.named
        return [
            f"named barrier {n}: {named.arrived[c, n]} of {named.needed((c, n))} warps have come"
            for c, n in zip(machine.ctas_of(slots), self.numbers[at], strict=True)
        ]


class Parties:
    """Which barrier each warp means, and how many warps make it complete."""

    def __init__(
        self, instruction: Instruction, context: Context, operands: Sequence[Operand]
    ) -> None:
        self.instruction = instruction
        self.number = context.value(operands[0])
        self.count = context.value(operands[1]) if len(operands) > 1 else None

    def __call__(
        self, machine: Machine, convoy: Convoy
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Numbers of barriers, and warps; ALL if no count is given."""
        _, leaders = convoy.warps()
        numbers = self.number(machine.registers, leaders)
        if self.count is None:
            return numbers, np.full(len(leaders), ALL, np.int64)
        threads = self.count(machine.registers, leaders)
        if (threads % 32).any() or (threads <= 0).any():
            raise EmulationError(
                f"named barrier for {threads[0]} threads: the count is a positive multiple of 32",
                self.instruction, "barrier-count",
            )  # fmt: skip
        return numbers, threads // 32


@decodes("bar", "barrier")
def decode_bar(instruction: Instruction, context: Context) -> Handler:
    """``bar.sync``, ``bar.arrive`` (and as ``barrier``), ``bar.warp.sync``."""
    if "cluster" in instruction.qualifiers:
        from fa4kernel.emulator.machine.cluster import decode_cluster_barrier

        return decode_cluster_barrier(instruction, context)
    if "warp" in instruction.qualifiers:
        return decode_warp_sync(instruction, context)
    if "red" in instruction.qualifiers:
        from fa4kernel.emulator.machine.barrier_reductions import decode_bar_red

        return decode_bar_red(instruction, context)
    allow(instruction, "cta", "sync", "arrive", "aligned")
    kind = next((q for q in instruction.qualifiers if q in ("sync", "arrive")), None)
    if kind is None:
        raise unsupported(instruction)
    parties = Parties(instruction, context, instruction.operands[:2])

    def handler(machine: Machine, convoy: Convoy) -> Outcome:
        slots, _ = convoy.warps()
        numbers, warps = parties(machine, convoy)
        generations = machine.named.arrive(slots, numbers, warps, instruction)
        if machine.monitor is not None:
            machine.monitor.named_arrive(slots, numbers, generations, instruction)
        if kind == "arrive":
            return None
        condition = Passed(slots, numbers, generations)
        ready = condition.ready(machine, convoy)
        going = convoy.part(ready)
        if going is not None:
            condition.woken(machine, going)
        waiting = ~ready & convoy.full_mask()
        return Wait(waiting, condition) if waiting.any() else None

    return handler


def decode_warp_sync(instruction: Instruction, context: Context) -> Handler:
    """``bar.warp.sync``: the lanes of a warp wait for each other."""
    from fa4kernel.emulator.machine.collectives import Together, incomplete

    members = context.value(instruction.operands[0])
    if members.constant is None or members.constant & 0xFFFFFFFF != 0xFFFFFFFF:
        return lambda machine, convoy: None

    def handler(machine: Machine, convoy: Convoy) -> Outcome:
        lacking = incomplete(machine, convoy)
        if machine.monitor is not None:
            whole = convoy.part(~lacking)
            if whole is not None:
                machine.monitor.warp_sync(whole)
        return Wait(lacking, Together(), again=True) if lacking.any() else None

    return handler
