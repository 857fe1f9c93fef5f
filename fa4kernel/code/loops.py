"""The loops of a function, from its control flow alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fa4kernel.emulator.machine.dataflow import Block, blocks_of, dominators
from fa4kernel.emulator.ptx.module import Function


@dataclass(frozen=True)
class Loop:
    """A natural loop: a block that all of it is entered through, and what leads back there.

    Attributes:
        head: index of its first instruction.
        body: indices of its instructions.
    """

    head: int
    body: frozenset[int]


def loops_of(function: Function) -> list[Loop]:
    """The natural loops of a function, the smallest first; those with one head are one loop."""
    blocks = blocks_of(function)
    above = dominators(blocks)
    bodies: dict[int, set[int]] = {}
    for tail, block in enumerate(blocks):
        for head in block.successors:
            if above[tail] >> head & 1:
                bodies.setdefault(head, set()).update(_body(blocks, head, tail))
    found = [
        Loop(
            blocks[head].start,
            frozenset(i for n in body for i in range(blocks[n].start, blocks[n].end)),
        )
        for head, body in bodies.items()
    ]
    return sorted(found, key=lambda loop: (len(loop.body), loop.head))


def around(loops: Iterable[Loop], instructions: Iterable[int]) -> Loop | None:
    """The smallest loop that holds all these instructions, or None."""
    wanted = frozenset(instructions)
    if not wanted:
        return None
    return next((loop for loop in loops if wanted <= loop.body), None)


def _body(blocks: Sequence[Block], head: int, tail: int) -> set[int]:
    """The blocks from which ``tail`` is reached without passing ``head``, and both."""
    found, todo = {head, tail}, [tail]
    while todo:
        n = todo.pop()
        if n == head:
            continue
        for before in blocks[n].predecessors:
            if before not in found:
                found.add(before)
                todo.append(before)
    return found
