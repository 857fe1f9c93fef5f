"""Mutants in which an arrival comes before what it should come after.

The arrival moves up over the nearest fence, wait, load or store before it, one for ``cp.async``
copies over the copies. Where one lane arrives
(``elect``, a branch around it), what stands before moves down behind the branch instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from fa4kernel.emulator.machine.dataflow import read, target, written
from fa4kernel.emulator.mutation.mutant import Edit
from fa4kernel.emulator.mutation.sites import Sites
from fa4kernel.emulator.ptx.module import Instruction
from fa4kernel.emulator.ptx.printer import instruction_text

#: How far an arrival looks back.
REACH = 200


def is_arrival(instruction: Instruction) -> bool:
    """Whether the instruction tells others, and tells them nothing but that it was reached."""
    if instruction.opcode == "mbarrier":
        return instruction.qualifiers[0] == "arrive" and not instruction.has("expect_tx")
    if instruction.opcode in ("bar", "barrier"):
        return instruction.has("arrive") and not instruction.has("cluster")
    return is_for_copies(instruction)


def is_for_copies(instruction: Instruction) -> bool:
    """Whether it arrives when the ``cp.async`` copies before it are complete."""
    return instruction.opcode == "cp" and instruction.has("async", "mbarrier")


def copies(instruction: Instruction) -> str | None:
    """What an arrival for copies stands behind for a reason: a copy by a thread."""
    by_thread = instruction.opcode == "cp" and instruction.has("async", "global")
    return "copy" if by_thread and not instruction.has("bulk") else None


def guarded(instruction: Instruction) -> str | None:
    """What the instruction is that an arrival may stand behind for a reason, in a word."""
    opcode, has = instruction.opcode, instruction.has
    if opcode in ("fence", "membar"):
        return "fence"
    if opcode == "tcgen05":
        first = instruction.qualifiers[0]
        if first.startswith(("wait::", "fence::")):
            return "fence"
        return {"ld": "load", "st": "store"}.get(first)
    if opcode == "mbarrier" and instruction.qualifiers[0] in ("try_wait", "test_wait"):
        return "wait"
    if opcode in ("bar", "barrier") and not has("arrive"):
        return "wait"
    if opcode in ("cp", "wgmma") and (has("wait_group") or has("wait_all")):
        return "wait"
    if opcode in ("ld", "st") and any(q.startswith("shared") for q in instruction.qualifiers):
        return "load" if opcode == "ld" else "store"
    return None


@dataclass
class _Walk:
    """The way back from an arrival.

    Attributes:
        arrival: its index.
        names: registers it reads.
        fixed: whether it can't move up any more, since a register it reads is written here.
        behind: index behind the branch around it, once there was one.
    """

    arrival: int
    names: set[str]
    fixed: bool = False
    behind: int | None = None


def moved_arrivals(sites: Sites, index: int) -> Iterator[tuple[str, str, tuple[Edit, ...]]]:
    """Kind, change and edits of the mutants that move the arrival there."""
    instruction = sites.code[index]
    if not is_arrival(instruction):
        return
    walk = _Walk(index, {r.name for r in read(instruction)})
    word_of = copies if is_for_copies(instruction) else guarded
    at = index - 1
    while at >= max(0, index - REACH):
        head = _loop_that_ends(sites, at)
        word = "wait" if head is not None else word_of(sites.code[at])
        if word is not None:
            if word in ("load", "store", "copy"):
                edits = _over_all(sites, walk, at, word_of)
            else:
                edits = _swap(sites, walk, head if head is not None else at, at)
            if edits is not None:
                yield "moved arrival", f"over a {word}", edits
            return
        if not _step_over(sites, walk, at):
            return
        at -= 1


def _loop_that_ends(sites: Sites, at: int) -> int | None:
    """The head of the wait loop of which this is the last instruction."""
    for head in (at - 1, at - 2):
        if head >= 0 and guarded(sites.code[head]) == "wait":
            loop = sites.wait_loop(head)
            if loop is not None and loop[-1] == at:
                return head
    return None


def _step_over(sites: Sites, walk: _Walk, at: int) -> bool:
    """Take one more instruction into the way; False if the way ends here."""
    inside = range(at, walk.arrival + 1)
    loop = _loop_that_ends(sites, at)
    instruction = sites.code[at]
    if loop is None and instruction.opcode == "bra":
        end = target(sites.function, instruction)
        around = instruction.guard is not None and walk.behind is None and end > walk.arrival
        if not around or not sites.entered_only_from(end, inside):
            return False
        walk.behind, walk.fixed = end, True
    if not sites.falls_through(at) or not sites.entered_only_from(at + 1, inside):
        return False
    walk.fixed |= any(r.name in walk.names for r in written(instruction))
    return True


def _over_all(
    sites: Sites, walk: _Walk, at: int, word_of: Callable[[Instruction], str | None]
) -> tuple[Edit, ...] | None:
    """The arrival moved up over all the accesses that stand together, as far as it can."""
    word, found = word_of(sites.code[at]), None
    while True:
        if word_of(sites.code[at]) == word:
            edits = None if walk.fixed else _swap(sites, walk, at, at)
            if edits is None:
                return found
            found = edits
        elif word_of(sites.code[at]) is not None or is_arrival(sites.code[at]):
            return found
        if at == 0 or not _step_over(sites, walk, at):
            return found
        at -= 1


def _swap(sites: Sites, walk: _Walk, first: int, last: int) -> tuple[Edit, ...] | None:
    """The arrival before instructions ``first`` to ``last``, or these behind it."""
    code = sites.code
    inside = range(first, walk.arrival + 1)
    if not sites.entered_only_from(last + 1, inside):
        return None
    arrival = instruction_text(code[walk.arrival])
    here = {r.name for r in written(code[first])} & walk.names
    if not walk.fixed and not here:
        if first == last and not sites.jumps[first]:
            old = instruction_text(code[first])
            return Edit(first, f"{arrival} {old}"), Edit.drop(walk.arrival)
        before = first - 1
        fine = before >= 0 and code[before].opcode != "bra"
        if not fine or not sites.entered_only_from(first, inside):
            return None
        old = instruction_text(code[before])
        return Edit(before, f"{old} {arrival}"), Edit.drop(walk.arrival)
    if first != last or written(code[first]):
        return None
    behind = walk.arrival + 1 if walk.behind is None else walk.behind
    names = {r.name for r in read(code[first])}
    between = range(first + 1, behind)
    if behind >= len(code) or any(r.name in names for i in between for r in written(code[i])):
        return None
    sunk = f"{instruction_text(code[first])} {instruction_text(code[behind])}"
    return Edit.drop(first), Edit(behind, sunk)
