"""Counts instructions while the emulator runs a kernel, by role."""

from __future__ import annotations

from collections import Counter
from typing import Any

from fa4kernel.crosscheck.kernel import Kernel
from fa4kernel.emulator.machine.machine import Machine
from fa4kernel.emulator.machine.program import Run
from fa4kernel.emulator.ptx.module import Instruction

#: What one instruction counts as; an exponential on the FMA units is told by its rounding: the
#: integer part is split off by the only additions that round towards minus infinity.
MUFU, POLYNOMIAL = "ex2", "add.rm"


class Counts:
    """A watcher that counts, for each role, how many lanes execute which kind of instruction."""

    def __init__(self, kernel: Kernel, machine: Machine) -> None:
        self.kernel = kernel
        self.machine = machine
        self.lanes: Counter[tuple[int, str]] = Counter()
        self._kinds: dict[int, Counter[str]] = {}

    def begin(self, pc: int, convoy: Any) -> None:
        """A convoy comes to an item of the program."""
        warp = int(convoy.warps()[0][0]) // self.machine.shape.ctas
        self.lanes[pc, self.kernel.role(warp)] += convoy.count

    def kinds(self, pc: int) -> Counter[str]:
        """Kinds of the scalar instructions of an item."""
        found = self._kinds.get(pc)
        if found is None:
            item = self.machine.program.item_at[pc]
            code = self.machine.program.context.function.instructions
            run = code[item.start : item.end] if isinstance(item, Run) else ()
            found = self._kinds[pc] = Counter(kind for i in run if (kind := kind_of(i)))
        return found

    def total(self, kind: str, roles: str) -> int:
        """Lanes of the roles whose names begin with ``roles`` that executed a kind."""
        return sum(
            lanes * self.kinds(pc)[kind]
            for (pc, role), lanes in self.lanes.items()
            if role.startswith(roles)
        )

    def amounts(self) -> dict[str, int]:
        """Work that the two sides count alike."""
        return {
            "exponentials on MUFU": self.total(MUFU, "softmax"),
            "exponentials on FMA": 2 * self.total(POLYNOMIAL, "softmax"),
        }


def kind_of(instruction: Instruction) -> str:
    """What an instruction counts as, "" for nothing of interest."""
    name = instruction.opcode
    if name == "ex2":
        return MUFU
    if name == "add" and "rm" in instruction.qualifiers and "f32x2" in instruction.qualifiers:
        return POLYNOMIAL
    return ""
