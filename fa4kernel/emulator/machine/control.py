"""Instructions that change no value here: fences, hints, the register pool, dependent launches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fa4kernel.emulator.errors import EmulationError
from fa4kernel.emulator.machine.convoy import Convoy, Mask
from fa4kernel.emulator.machine.loads import spread
from fa4kernel.emulator.machine.patience import Pause
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
from fa4kernel.emulator.ptx.module import Instruction

if TYPE_CHECKING:
    from fa4kernel.emulator.machine.machine import Machine

#: Where a hint points, and what it wishes (PTX ISA 9.7.9.15 to 9.7.9.17).
HINTS = ("global", "local", "const", "param", "generic", "tensormap", "L1", "L2", "mask",
         "L2::evict_last", "L2::evict_normal")  # fmt: skip
#: What a fence may order, for whom, and between which proxies (PTX ISA 9.7.13.4).
FENCES = (
    "sc", "acq_rel", "acquire", "release", "cta", "cluster", "gpu", "sys", "gl", "mbarrier_init",
    "proxy", "alias", "async", "global", "shared::cta", "shared::cluster", "tensormap::generic",
    "async::generic", "sync_restrict::shared::cta", "sync_restrict::shared::cluster",
)  # fmt: skip
#: Registers of an SM (CUDA C++ Programming Guide, table of compute capabilities).
REGISTERS = 65_536


def nothing(machine: Machine, convoy: Convoy) -> Outcome:
    """An instruction without effect here."""
    return None


@decodes("prefetch", "prefetchu", "discard", "applypriority", "pmevent")
def decode_hint(instruction: Instruction, context: Context) -> Handler:
    """Hints (``discard`` leaves values undefined; here they stay)."""
    allow(instruction, *HINTS)
    return nothing


@decodes("nanosleep")
def decode_nanosleep(instruction: Instruction, context: Context) -> Handler:
    """``nanosleep``: the clocks move on, and others go first."""
    allow(instruction, "u32")
    duration = context.value(instruction.operands[0])

    def handler(machine: Machine, convoy: Convoy) -> Outcome:
        machine.slept += int((duration(machine.registers, convoy.lanes()) & 0xFFFFFFFF).max())
        return Wait(convoy.full_mask(), Pause("nothing: it sleeps"))

    return handler


@decodes("createpolicy")
def decode_createpolicy(instruction: Instruction, context: Context) -> Handler:
    """``createpolicy``: how to cache, which changes no value; ours is a number without meaning."""
    evictions = [q for q in instruction.qualifiers if q.startswith("L2::evict_")]
    allow(instruction, "fractional", "range", "cvt", "L2", "global", "b64", *evictions)
    target = instruction.operands[0]

    def handler(machine: Machine, convoy: Convoy) -> Outcome:
        spread(machine, convoy, target, "u64", np.full(convoy.count, 1, np.uint64))
        return None

    return handler


@decodes("fence", "membar")
def decode_fence(instruction: Instruction, context: Context) -> Handler:
    """Fences order; values are ordered anyway here, so only the checks look at them."""
    allow(instruction, *FENCES)

    def handler(machine: Machine, convoy: Convoy) -> Outcome:
        if machine.monitor is not None:
            machine.monitor.fence(convoy, instruction)
        return None

    return handler


@decodes("griddepcontrol")
def decode_griddepcontrol(instruction: Instruction, context: Context) -> Handler:
    """Programmatic dependent launch: grids run one after the other here."""
    allow(instruction, "launch_dependents", "wait")
    if instruction.has("launch_dependents"):
        return nothing

    def handler(machine: Machine, convoy: Convoy) -> Outcome:
        if machine.monitor is not None:
            machine.monitor.grid_waited(convoy)
        return None

    return handler


@decodes("trap", "brkpt")
def decode_trap(instruction: Instruction, context: Context) -> Handler:
    """``trap``: the kernel itself says that something is wrong."""

    def handler(machine: Machine, convoy: Convoy) -> Outcome:
        slots, _ = convoy.warps()
        raise EmulationError(
            f"the kernel traps, in warp {machine.warps_of(slots)[0]} of CTA"
            f" {machine.ctas_of(slots)[0]}", instruction, "trap",
        )  # fmt: skip

    return handler


class RegisterPool:
    """Registers that each warp holds, out of 65,536 of its CTA's SM."""

    def __init__(self, shape_warps: int, ctas: int, threads: int, start: int | None) -> None:
        warps = -(-threads // 32)
        if start is None:
            start = min(255, REGISTERS // (warps * 32)) // 8 * 8
        self.held = np.full((shape_warps, ctas), start, np.int64)

    def free(self, cta: int) -> int:
        """Registers of the SM that no warp holds."""
        return REGISTERS - 32 * int(self.held[:, cta].sum())


class RegistersFree(Condition):
    """Warps wait until their SM has enough free registers."""

    def __init__(self, wanted: int) -> None:
        self.wanted = wanted

    def fits(self, machine: Machine, slots: NDArray[np.intp]) -> list[bool]:
        """For each warp whether its registers would fit now."""
        found, taken = [], dict[int, int]()
        pool = machine.register_pool
        for slot in slots:
            cta, warp = int(slot) % machine.shape.ctas, int(slot) // machine.shape.ctas
            need = 32 * (self.wanted - int(pool.held[warp, cta]))
            fits = need <= pool.free(cta) - taken.get(cta, 0)
            if fits:
                taken[cta] = taken.get(cta, 0) + need
            found.append(fits)
        return found

    def ready(self, machine: Machine, convoy: Convoy) -> Mask:
        """Those whose registers fit."""
        return convoy.with_warps(self.fits(machine, convoy.warps()[0]))

    def describe(self, machine: Machine, convoy: Convoy) -> list[str]:
        """Registers wanted and free."""
        return [
            f"setmaxnreg: {self.wanted} registers a thread; "
            f"{machine.register_pool.free(int(slot) % machine.shape.ctas):,} of the SM's are free"
            for slot in convoy.warps()[0]
        ]


@decodes("setmaxnreg")
def decode_setmaxnreg(instruction: Instruction, context: Context) -> Handler:
    """``setmaxnreg``: registers are given back to the SM, or taken when enough are free."""
    allow(instruction, "inc", "dec", "sync", "aligned", "u32")
    wanted = context.value(instruction.operands[0]).constant
    if wanted is None or not 24 <= wanted <= 256 or wanted % 8:
        raise unsupported(instruction, "the count must be a multiple of 8 from 24 to 256")

    def handler(machine: Machine, convoy: Convoy) -> Outcome:
        slots, _ = convoy.warps()
        pool = machine.register_pool
        condition = RegistersFree(wanted)
        fits = np.array(condition.fits(machine, slots))
        going = slots[fits]
        pool.held[machine.warps_of(going), machine.ctas_of(going)] = wanted
        if not fits.all():
            return Wait(convoy.with_warps(~fits), condition, again=True)
        return None

    return handler
