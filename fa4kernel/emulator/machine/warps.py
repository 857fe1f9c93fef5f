"""Warps and warpgroups of a convoy, for instructions that a whole one executes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fa4kernel.emulator.errors import EmulationError
from fa4kernel.emulator.machine.collectives import Together, incomplete
from fa4kernel.emulator.machine.convoy import Convoy, Mask
from fa4kernel.emulator.machine.program import Handler, Outcome, Wait
from fa4kernel.emulator.ptx.module import Instruction

if TYPE_CHECKING:
    from fa4kernel.emulator.machine.machine import Machine

#: Warps of a warpgroup (PTX ISA 9.7.15.1).
WARPS = 4


def lanes_of_whole_warps(convoy: Convoy, instruction: Instruction) -> NDArray[np.intp]:
    """The convoy's lanes, all 32 of each of its warps.

    Raises:
        EmulationError: lanes of a warp are missing, because it diverged or they have ended.
    """
    if convoy.mask is not None and convoy.count != 32 * len(convoy.warps()[0]):
        raise EmulationError(
            "an instruction of a whole warp is executed by part of one",
            instruction, "divergent-warp",
        )  # fmt: skip
    return convoy.lanes()


def warpgroups(machine: Machine, convoy: Convoy) -> NDArray[np.intp]:
    """Slots of the warps of each warpgroup that is whole, shape (warpgroups, 4)."""
    slots, _ = convoy.warps()
    whole = slots[~_partial(machine, slots)]
    first = whole[machine.warps_of(whole) % WARPS == 0]
    found: NDArray[np.intp] = first[:, None] + np.arange(WARPS) * machine.shape.ctas
    return found


def _partial(machine: Machine, slots: NDArray[np.intp]) -> NDArray[np.bool_]:
    """For each warp whether another of its warpgroup is not among them."""
    ctas, warps = machine.ctas_of(slots), machine.warps_of(slots)
    here = np.zeros((-(-machine.shape.warps // WARPS), machine.shape.ctas), np.intp)
    np.add.at(here, (warps // WARPS, ctas), 1)
    found: NDArray[np.bool_] = here[warps // WARPS, ctas] < WARPS
    return found


class WholeWarpgroup(Together):
    """Warps wait until the other three of their warpgroup stand at the same instruction."""

    def ready(self, machine: Machine, convoy: Convoy) -> Mask:
        """Those whose warpgroup is complete."""
        slots, _ = convoy.warps()
        apart = incomplete(machine, convoy).reshape(-1, 32).any(axis=1)
        split = np.take(apart, slots - convoy.lo // 32)
        whole = np.flatnonzero(~split)
        ready = np.zeros(len(slots), np.bool_)
        ready[whole] = ~_partial(machine, slots[whole])
        return convoy.with_warps(ready)

    def describe(self, machine: Machine, convoy: Convoy) -> list[str]:
        """What is missing."""
        words = "the other warps of its warpgroup, at an instruction of the whole warpgroup"
        return [words] * len(convoy.warps()[0])


def whole_warpgroup(handler: Handler) -> Handler:
    """The handler of an instruction that waits until its warpgroups are whole."""

    def waiting(machine: Machine, convoy: Convoy) -> Outcome:
        slots, _ = convoy.warps()
        lacking = _partial(machine, slots)
        if lacking.any():
            return Wait(convoy.with_warps(lacking), WholeWarpgroup(), again=True, others_again=True)
        return handler(machine, convoy)

    return waiting
