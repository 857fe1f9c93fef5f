"""Which registers an instruction writes and reads, the blocks of a function, and liveness.

Sets are Python ints used as bit sets: a function has thousands of registers and few blocks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from fa4kernel.emulator.ptx.module import (
    Address,
    Function,
    Instruction,
    Label,
    Not,
    Operand,
    Pair,
    Register,
    TensorAddress,
    Vector,
)

#: Opcodes that write no register.
WRITES_NOTHING = frozenset(
    [
        "st",
        "red",
        "bra",
        "brx",
        "ret",
        "exit",
        "bar",
        "barrier",
        "membar",
        "fence",
        "cp",
        "prefetch",
        "prefetchu",
        "setmaxnreg",
        "trap",
        "griddepcontrol",
        "nanosleep",
        "discard",
        "stmatrix",
        "applypriority",
        "pmevent",
        "brkpt",
        "tensormap",
    ]
)
#: Families of which only some members write registers: those whose qualifiers hold one of these.
WRITES_IF = {
    "tcgen05": ("ld",),
    "wgmma": ("mma_async",),
    "mbarrier": ("try_wait", "test_wait", "pending_count"),
    "clusterlaunchcontrol": ("query_cancel",),
    "multimem": ("ld_reduce",),
}
#: Opcodes that end a block.
ENDS = frozenset(("bra", "brx", "ret", "exit", "trap"))


def registers_in(operand: Operand) -> Iterator[Register]:
    """All registers an operand names."""
    if isinstance(operand, Register):
        yield operand
    elif isinstance(operand, Vector):
        for item in operand.items:
            yield from registers_in(item)
    elif isinstance(operand, Pair):
        yield from registers_in(operand.first)
        yield from registers_in(operand.second)
    elif isinstance(operand, Not):
        yield operand.register
    elif isinstance(operand, Address):
        yield from registers_in(operand.base)
    elif isinstance(operand, TensorAddress):
        yield from registers_in(operand.base)
        for item in (*operand.coordinates, *operand.extra):
            yield from registers_in(item)


def writes_first(instruction: Instruction) -> bool:
    """Whether the first operand is a destination."""
    opcode = instruction.opcode
    if opcode in ("bar", "barrier"):
        return "red" in instruction.qualifiers
    if opcode in WRITES_NOTHING or not instruction.operands:
        return False
    if opcode == "mbarrier" and instruction.qualifiers[0].startswith("arrive"):
        return not isinstance(instruction.operands[0], Address)
    if opcode in WRITES_IF:
        return any(q in instruction.qualifiers for q in WRITES_IF[opcode])
    return True


def written(instruction: Instruction) -> list[Register]:
    """The registers an instruction writes."""
    return list(registers_in(instruction.operands[0])) if writes_first(instruction) else []


def read(instruction: Instruction) -> list[Register]:
    """The registers an instruction reads: guard, sources, and destinations it only updates."""
    found = [instruction.guard.register] if instruction.guard else []
    skip = 1 if writes_first(instruction) else 0
    for operand in instruction.operands[skip:]:
        found.extend(registers_in(operand))
    if skip and (instruction.guard or instruction.opcode == "wgmma"):
        found.extend(registers_in(instruction.operands[0]))
    return found


@dataclass(slots=True)
class Block:
    """Instructions ``start`` to ``end`` (exclusive) that run one after the other."""

    start: int
    end: int
    successors: list[int] = field(default_factory=list)
    predecessors: list[int] = field(default_factory=list)


def target(function: Function, instruction: Instruction) -> int:
    """The index a branch goes to."""
    label = instruction.operands[0]
    assert isinstance(label, Label)
    return function.labels[label.name]


def blocks_of(function: Function) -> list[Block]:
    """The basic blocks, in program order; successors and predecessors are indices into the list."""
    code = function.instructions
    starts = {0, *(i for i in function.labels.values() if i < len(code))}
    starts |= {i + 1 for i, each in enumerate(code) if each.opcode in ENDS and i + 1 < len(code)}
    order = sorted(starts)
    number = {start: n for n, start in enumerate(order)}
    found = [Block(a, b) for a, b in zip(order, [*order[1:], len(code)], strict=True)]
    for n, block in enumerate(found):
        last = code[block.end - 1] if block.end > block.start else None
        if last is not None and last.opcode == "bra":
            goal = target(function, last)
            if goal < len(code):
                block.successors.append(number[goal])
        falls = last is None or last.opcode not in ENDS or last.guard is not None
        if falls and n + 1 < len(found):
            block.successors.append(n + 1)
        for successor in block.successors:
            found[successor].predecessors.append(n)
    return found


def dominators(blocks: Sequence[Block]) -> list[int]:
    """For each block the set of blocks on every way to it from block 0 (all, if unreachable)."""
    everything = (1 << len(blocks)) - 1
    found = [everything] * len(blocks)
    found[0] = 1
    changed = True
    while changed:
        changed = False
        for n, block in enumerate(blocks):
            if n == 0:
                continue
            common = everything
            for predecessor in block.predecessors:
                common &= found[predecessor]
            common |= 1 << n
            if common != found[n]:
                found[n], changed = common, True
    return found


def live_sets(
    blocks: Sequence[Block], uses: Sequence[int], kills: Sequence[int]
) -> tuple[list[int], list[int]]:
    """What is live at the start and at the end of each block.

    Args:
        blocks: the basic blocks.
        uses: per block, what it reads before it writes it.
        kills: per block, what it surely writes.
    """
    into, out = list(uses), [0] * len(blocks)
    changed = True
    while changed:
        changed = False
        for n in range(len(blocks) - 1, -1, -1):
            live = 0
            for successor in blocks[n].successors:
                live |= into[successor]
            entering = uses[n] | (live & ~kills[n])
            if live != out[n] or entering != into[n]:
                out[n], into[n], changed = live, entering, True
    return into, out
