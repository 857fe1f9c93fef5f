"""What a warp does, told from what it executes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fa4kernel.code.units import unit_of
from fa4kernel.emulator.ptx.module import Function, Instruction

#: A warp that computes so many special functions for a block computes exponentials of scores; the
#: correction needs a handful for a tile.
EXPONENTIALS = 8


def name_of(function: Function, step: NDArray[np.float64], tile: NDArray[np.float64]) -> str:
    """The role of a warp, or "" if it does nothing for blocks or tiles.

    Args:
        function: the kernel.
        step: (instructions,), how often the warp executes each for one block of keys.
        tile: the same for one tile, beside that of its blocks.
    """
    in_step = _executed(function, step)
    in_both = in_step + _executed(function, tile)
    units = {unit_of(each) for each in in_both}
    copies = [each for each in in_both if each.opcode == "cp"]
    specials = sum(
        count
        for each, count in zip(function.instructions, step.tolist(), strict=True)
        if unit_of(each) == "MUFU"
    )
    if "MMA" in units:
        return "mma"
    if any(_into_shared(each) for each in copies):
        return "load"
    if specials >= EXPONENTIALS:
        return "softmax"
    if "TMEM load" in units:
        return "correction"
    if copies:
        return "epilogue"
    return "other" if in_step else ""


def _executed(function: Function, counts: NDArray[np.float64]) -> list[Instruction]:
    return [function.instructions[i] for i in np.flatnonzero(counts).tolist()]


def _into_shared(instruction: Instruction) -> bool:
    """Whether it copies from global to shared memory."""
    spaces = [q for q in instruction.qualifiers if q.startswith(("global", "shared"))]
    return len(spaces) > 1 and spaces[0].startswith("shared")
