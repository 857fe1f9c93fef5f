"""Our kernel beside the official one, and what is wanted of it."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fa4kernel.code import machine_code, ptxas
from fa4kernel.code.kernels import Kernel
from fa4kernel.code.machine_code import MachineLoop, disassemble, loop_with
from fa4kernel.code.measure import Measurement, busiest, measure, pipes, slots
from fa4kernel.code.ptxas import Assembly, assemble
from fa4kernel.code.shapes import Shape

#: Work of the units that both kernels must have alike, and what it is called.
WORK = {
    "mmas": "MMA instructions", "flops": "FLOPs of them", "loads": "TMA loads",
    "loaded": "bytes of them", "stores": "TMA stores", "stored": "bytes of them",
    "copied": "bytes copied by threads",
}  # fmt: skip

#: What a role's loop in the machine code is known by: a unit, and the opcodes that it has there.
MARKS = {
    "softmax": ("MUFU", ("MUFU.EX2",)), "mma": ("MMA", ("UTCHMMA", "UTCQMMA")),
    "load": ("TMA", ("UTMALDG",)),
}  # fmt: skip


@dataclass(frozen=True)
class Tools:
    """NVIDIA's programs, by path; None for one that is absent."""

    ptxas: str | None
    nvdisasm: str | None

    @classmethod
    def found(cls) -> Tools:
        """Those of this machine."""
        return cls(ptxas.find(), machine_code.find())


@dataclass(frozen=True)
class Code:
    """All that is known of a kernel on a shape.

    Attributes:
        measured: what it executes.
        assembly: what ptxas says, or None.
        loops: those of a step in the machine code, by role, as far as they are known.
        refusal: what a program said that refused the kernel, or "".
    """

    measured: Measurement
    assembly: Assembly | None
    loops: Mapping[str, MachineLoop]
    refusal: str = ""


@dataclass(frozen=True)
class Wish:
    """Something that is wanted of our kernel; ``met`` is None where it cannot be told."""

    what: str
    met: bool | None
    words: str


def look(kernel: Kernel, shape: Shape, tools: Tools) -> Code:
    """Measure a kernel, and assemble it where there is an assembler.

    Raises:
        EmulationError: the kernel does not run.
    """
    measured = measure(kernel, shape)
    if tools.ptxas is None:
        return Code(measured, None, {})
    assembly = None
    with tempfile.TemporaryDirectory(prefix="fa4sim-") as folder:
        cubin = Path(folder, "kernel.cubin")
        try:
            assembly = assemble(kernel.ptx, tools.ptxas, cubin)
            text = "" if tools.nvdisasm is None else disassemble(cubin, tools.nvdisasm)
        except ptxas.ToolError as error:
            return Code(measured, assembly, {}, str(error))
    return Code(measured, assembly, _loops(measured, text))


def _loops(measured: Measurement, text: str) -> dict[str, MachineLoop]:
    """The loops of a step by role."""
    found = {}
    for role in measured.roles:
        unit, opcodes = MARKS.get(role.name, ("", ()))
        loop = loop_with(text, opcodes, round(role.step[unit])) if role.step.get(unit) else None
        if loop is not None:
            found[role.name] = loop
    return found


def wishes(ours: Code, official: Code) -> list[Wish]:
    """What is wanted of our kernel, and whether it is so."""
    return [_fewer_slots(ours, official), _same_work(ours, official), _no_spills(ours)]


def _fewer_slots(ours: Code, official: Code) -> Wish:
    what = "no more issue slots per softmax step than the official kernel"
    pair = [code.measured.role("softmax") for code in (ours, official)]
    if pair[0] is None or pair[1] is None:
        return Wish(what, None, "no softmax role was found")
    mine, theirs = slots(pair[0].step), slots(pair[1].step)
    return Wish(what, mine <= theirs, f"{mine:g} and {theirs:g}")


def _same_work(ours: Code, official: Code) -> Wish:
    what = "the same tensor and TMA counts"
    differing = []
    for name, words in WORK.items():
        for when in ("step", "tile"):
            mine, theirs = (getattr(c.measured, when)[name] for c in (ours, official))
            if mine != theirs:
                differing.append(f"{words} per {when}: {mine:,g} and {theirs:,g}")
    return Wish(what, not differing, "; ".join(differing) or "all equal")


def _no_spills(ours: Code) -> Wish:
    what = "no spills"
    if ours.assembly is None:
        return Wish(what, None, "ptxas did not say")
    a = ours.assembly
    return Wish(what, not a.spills, f"{a.spill_stores} bytes stored, {a.spill_loads} loaded")


def facts(code: Code) -> dict[str, Any]:
    """What is known of a kernel as plain data."""
    measured = code.measured
    return {
        "title": measured.kernel.title,
        "instructions": measured.instructions,
        "shared_bytes": measured.shared_bytes,
        "assembly": None if code.assembly is None else asdict(code.assembly),
        "machine_loops": {role: asdict(loop) for role, loop in code.loops.items()},
        "step_work": measured.step,
        "tile_work": measured.tile,
        "persistent": measured.persistent,
        "sub_partition_slots": busiest(measured),
        "roles": {
            role.name: {
                "warps": role.warps, "registers": role.registers, "even": role.even,
                "exact": role.exact,
                "step": role.step, "step_slots": slots(role.step), "step_pipes": pipes(role.step),
                "rescaled_slots": slots(role.rescaled),
                "tile": role.tile, "tile_slots": slots(role.tile),
            }
            for role in measured.roles
        },
    }  # fmt: skip
