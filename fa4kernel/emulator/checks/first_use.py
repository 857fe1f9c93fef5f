"""Where the registers of each ``tcgen05.ld`` are first used.

Hardware holds an instruction back until the registers it reads are there, so a load is complete
when one of its registers is used (or written anew), if no ``tcgen05.wait::ld`` came before.
"""

from __future__ import annotations

from collections import defaultdict
from weakref import WeakKeyDictionary

from fa4kernel.emulator.machine.cells import Slot
from fa4kernel.emulator.machine.dataflow import read, written
from fa4kernel.emulator.machine.program import Program
from fa4kernel.emulator.ptx.module import Instruction, Register


class FirstUse:
    """For each item of a program the loads whose registers it needs.

    Attributes:
        at: index of an item's first instruction to the numbers of loads.
    """

    def __init__(self, program: Program) -> None:
        context = program.context
        code, cells = context.function.instructions, context.cells
        self._number: dict[int, int] = {}
        loads: dict[int, set[int]] = defaultdict(set)

        def slots(registers: list[Register]) -> set[int]:
            return {c.number for r in registers for c in cells.of[r.name] if isinstance(c, Slot)}

        for index, instruction in enumerate(code):
            if instruction.opcode == "tcgen05" and instruction.qualifiers[0] == "ld":
                self._number[id(instruction)] = index
                for slot in slots(written(instruction)):
                    loads[slot].add(index)
        self.at: dict[int, tuple[int, ...]] = {}
        for start, item in enumerate(program.item_at):
            if item is None or not loads:
                continue
            needed: set[int] = set()
            for index in range(item.start, item.end):
                if index in cells.vanished:
                    continue
                touched = slots([*read(code[index]), *written(code[index])])
                for slot in touched & loads.keys():
                    needed |= loads[slot]
                needed.discard(self._number.get(id(code[index]), -1))
            if needed:
                self.at[start] = tuple(sorted(needed))

    def number_of(self, instruction: Instruction) -> int:
        """The number of a load."""
        return self._number[id(instruction)]


_KNOWN: WeakKeyDictionary[Program, FirstUse] = WeakKeyDictionary()


def first_use(program: Program) -> FirstUse:
    """The first uses in a program, worked out once."""
    found = _KNOWN.get(program)
    if found is None:
        found = _KNOWN[program] = FirstUse(program)
    return found
