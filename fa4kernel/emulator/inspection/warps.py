"""Which code each warp runs, as far as that follows from the warp's number alone.

A warp-specialised kernel sends its warps different ways by comparing the thread's number, divided
by 32, with constants. Values are followed as ranges, warp by warp; a branch that depends on
anything else may go either way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fa4kernel.emulator.machine.dataflow import Block, blocks_of, target, written
from fa4kernel.emulator.ptx.module import (
    Function,
    Immediate,
    Instruction,
    Not,
    Operand,
    Register,
    Special,
)

WORD = (1 << 32) - 1
#: How long a chain of definitions is followed.
DEEPEST = 60


@dataclass(frozen=True, slots=True)
class Range:
    """Integers from ``low`` to ``high``, both included."""

    low: int
    high: int


Value = Range | bool | None

TRUE_IF = {
    "eq": lambda a, b: a.low == a.high == b.low == b.high,
    "lt": lambda a, b: a.high < b.low,
    "le": lambda a, b: a.high <= b.low,
    "gt": lambda a, b: a.low > b.high,
    "ge": lambda a, b: a.low >= b.high,
    "ne": lambda a, b: a.high < b.low or b.high < a.low,
}
OPPOSITE = {"eq": "ne", "ne": "eq", "lt": "ge", "ge": "lt", "gt": "le", "le": "gt"}
#: Unsigned comparisons; of numbers that are not negative they are the same.
UNSIGNED = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}


class WarpValues:
    """Values of registers in one warp, as ranges over its lanes."""

    def __init__(
        self, definitions: dict[str, Instruction], block: tuple[int, int, int], warp: int
    ) -> None:
        self._definitions = definitions
        self._block = block
        self._warp = warp
        self._known: dict[str, Value] = {}

    def of(self, operand: Operand, depth: int = 0) -> Value:
        """The range of a number, the truth of a predicate, or None if it is not known."""
        if isinstance(operand, Immediate):
            return Range(operand.value, operand.value)
        if isinstance(operand, Special):
            return self._special(operand.name)
        if isinstance(operand, Not):
            value = self.of(operand.register, depth)
            return not value if isinstance(value, bool) else None
        if not isinstance(operand, Register) or depth > DEEPEST:
            return None
        name = operand.name
        if name not in self._known:
            self._known[name] = None  # in case that it comes back to itself
            definition = self._definitions.get(name)
            if definition is not None:
                self._known[name] = self._result(definition, depth + 1)
        return self._known[name]

    def _special(self, name: str) -> Value:
        x, y, z = self._block
        flat = y == z == 1
        if name == "%tid.x":
            low = 32 * self._warp if flat else 0
            return Range(low, min(low + 31, x - 1) if flat else x - 1)
        fixed = {"%ntid.x": x, "%ntid.y": y, "%ntid.z": z, "%warpid": self._warp}
        if name in fixed:
            return Range(fixed[name], fixed[name])
        if name in ("%tid.y", "%tid.z"):
            return Range(0, (y if name[-1] == "y" else z) - 1)
        return Range(0, 31) if name == "%laneid" else None

    def _result(self, instruction: Instruction, depth: int) -> Value:
        opcode, sources = instruction.opcode, instruction.operands[1:]
        if opcode == "setp":
            return self._compare(instruction, depth)
        values = [self.of(source, depth) for source in sources]
        if instruction.type == "pred":
            return logic(opcode, values)
        if opcode in ("mov", "cvt", "shfl") and values:
            return values[0]
        if opcode == "selp" and len(values) == 3:
            return values[0 if values[2] else 1] if isinstance(values[2], bool) else None
        ranges = [value for value in values if isinstance(value, Range)]
        if len(ranges) != len(values):
            return None
        return arithmetic(opcode, instruction.qualifiers, ranges)

    def _compare(self, instruction: Instruction, depth: int) -> Value:
        how = instruction.qualifiers[0]
        how = UNSIGNED.get(how, how)
        values = [self.of(source, depth) for source in instruction.operands[1:]]
        if len(values) < 2 or how not in TRUE_IF:
            return None
        a, b, *rest = values
        if not (isinstance(a, Range) and isinstance(b, Range)):
            found: Value = None
        elif min(a.low, b.low) < 0 and instruction.type[:1] != "s":
            found = None
        elif TRUE_IF[how](a, b):
            found = True
        else:
            found = False if TRUE_IF[OPPOSITE[how]](a, b) else None
        if rest:
            joint = next((q for q in instruction.qualifiers if q in ("and", "or", "xor")), "")
            return logic(joint, [found, *rest])
        return found


def logic(opcode: str, values: Sequence[Value]) -> Value:
    """The truth of a combination of predicates, each true, false or unknown."""
    truths = [value if isinstance(value, bool) else None for value in values]
    if opcode == "not":
        return None if truths[0] is None else not truths[0]
    if opcode == "mov":
        return truths[0]
    if opcode == "and" and False in truths:
        return False
    if opcode == "or" and True in truths:
        return True
    if None in truths or len(truths) != 2:
        return None
    return {"and": truths[0] and truths[1], "or": truths[0] or truths[1]}.get(opcode)


def arithmetic(opcode: str, qualifiers: Sequence[str], values: Sequence[Range]) -> Value:
    """The range of a result; None if it is not known or may be negative.

    >>> arithmetic("shr", ("u32",), [Range(96, 127), Range(5, 5)])
    Range(low=3, high=3)
    """
    if opcode == "and":  # a mask such as -4
        values = [Range(v.low & WORD, v.high & WORD) if v.high < 0 else v for v in values]
    if min(value.low for value in values) < 0:
        return None
    low, high = [value.low for value in values], [value.high for value in values]
    if opcode == "add" and len(values) == 2:
        return Range(sum(low), sum(high))
    if opcode in ("mul", "mad") and "hi" not in qualifiers:
        more_low, more_high = (low[2], high[2]) if opcode == "mad" else (0, 0)
        return Range(low[0] * low[1] + more_low, high[0] * high[1] + more_high)
    if opcode in ("shr", "shl", "div") and low[1] == high[1]:
        by = low[1]
        if opcode == "shl":
            return Range(low[0] << by, high[0] << by)
        if opcode == "div" and not by:
            return None
        return Range(low[0] >> by, high[0] >> by) if opcode == "shr" else Range(
            low[0] // by, high[0] // by
        )  # fmt: skip
    if opcode in ("and", "rem"):
        if all(value.low == value.high for value in values) and (opcode == "and" or low[1]):
            exact = low[0] & low[1] if opcode == "and" else low[0] % low[1]
            return Range(exact, exact)
        return Range(0, min(high) if opcode == "and" else max(0, high[1] - 1))
    if opcode in ("min", "max") and len(values) == 2:
        pick = min if opcode == "min" else max
        return Range(pick(low), pick(high))
    return None


def code_of_warps(function: Function, block: tuple[int, int, int]) -> list[frozenset[int]]:
    """For each warp of a CTA the instructions it may run, by index.

    Args:
        function: the kernel.
        block: threads in x, y, z.
    """
    code, blocks = function.instructions, blocks_of(function)
    number = {each.start: n for n, each in enumerate(blocks)}
    once: dict[str, Instruction] = {}
    several: set[str] = set()
    for instruction in code:
        for register in written(instruction):
            if register.name in once or instruction.guard:
                several.add(register.name)
            once[register.name] = instruction
    once = {name: each for name, each in once.items() if name not in several}
    threads = block[0] * block[1] * block[2]
    found = []
    for warp in range(-(-threads // 32)):
        values = WarpValues(once, block, warp)
        seen, todo = {0}, [0]
        while todo:
            for following in _successors(function, blocks, number, todo.pop(), values):
                if following not in seen:
                    seen.add(following)
                    todo.append(following)
        found.append(frozenset(i for n in seen for i in range(blocks[n].start, blocks[n].end)))
    return found


def _successors(
    function: Function, blocks: Sequence[Block], number: dict[int, int], n: int, values: WarpValues
) -> list[int]:
    """Where a warp may go after a block."""
    block = blocks[n]
    last = function.instructions[block.end - 1] if block.end > block.start else None
    if last is None or last.guard is None or last.opcode not in ("bra", "ret", "exit"):
        return block.successors
    truth = values.of(last.guard.register)
    if not isinstance(truth, bool):
        return block.successors
    if truth == last.guard.negated:  # not taken
        return [n + 1] if n + 1 < len(blocks) else []
    if last.opcode != "bra":
        return []
    goal = target(function, last)
    return [number[goal]] if goal in number else []
