"""The comparison as a page of Markdown."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import fa4sim
from fa4kernel.code.comparison import WORK, Code, Tools
from fa4kernel.code.markdown import large, number, table
from fa4kernel.code.measure import FEW, MORE, Role, pipes, slots
from fa4kernel.code.ptxas import ABSENT, version
from fa4kernel.code.shapes import BLOCK, TILE_ROWS, Shape
from fa4kernel.code.units import UNITS
from fa4kernel.code.verdicts import verdicts
from fa4sim.specs import B200

#: Where the page lies in a copy of the repository.
PAGE = "docs/validation/kernel_code.md"
COMMAND = "fa4kernel code --write"
PIPES = ("MUFU", "FMA", "ALU")
#: How near issue slots and machine code of a softmax step are; the page tells of all others.
NEAR = 0.03


@dataclass(frozen=True)
class Report:
    """Kernels by shape and by name ("ours", "official"), and the programs that looked at them."""

    codes: Mapping[Shape, Mapping[str, Code]]
    tools: Tools


def page(report: Report, written: bool = True) -> str:
    """The whole page; not ``written`` into the repository, it doesn't speak of files."""
    sections = [_head(report, written), verdicts(report.codes), _method(report)]
    sections += [_shape(shape, codes) for shape, codes in report.codes.items()]
    sections.append(_weights())
    return "\n\n".join(section for section in sections if section) + "\n"


def _head(report: Report, written: bool) -> str:
    day = datetime.now(UTC).date().isoformat()
    lines = ["# The compiled kernel beside the official one"]
    if written:
        lines.append(
            f"Written by `{COMMAND}` on {day} (fa4sim {fa4sim.__version__}, Python "
            f"{platform.python_version()}). Don't edit it; run the command."
        )
    titles = {
        name: code.measured.kernel.title
        for codes in report.codes.values()
        for name, code in codes.items()
    }
    lines.append("\n".join(f"- **{name}**: {title}." for name, title in titles.items()))
    if report.tools.ptxas is None:
        lines.append(f"**{ABSENT[0].upper()}{ABSENT[1:]}.**")
    else:
        lines.append(
            f"Registers and spills: ptxas {version(report.tools.ptxas)}, which is not the one that "
            "the DSL has inside; it is given the PTX that the DSL makes."
        )
    return "\n\n".join(lines)


def _method(report: Report) -> str:
    return (
        "## How it is counted\n\n"
        "The emulator executes each kernel and counts how often every warp of the first CTA "
        f"executes every instruction of the PTX. A *step* is the difference between {FEW} and "
        f"{FEW + MORE} blocks of {BLOCK} keys, divided by {MORE} and by the tiles of "
        f"{TILE_ROWS} rows that the CTA works on: what one warp executes for one block, wherever "
        "the compiler has put it. A *tile* is the difference that one more tile makes, beside its "
        "steps. A warp counts as one however its lanes diverge; a guard that is false takes its "
        "slot all the same; polls of a barrier that come too early are not counted. All scores of "
        "a row are equal, so that O is never rescaled; *rescaled* is the step where every block "
        "makes it so. Loops are those of the control flow: the smallest that holds a step.\n\n"
        "*Issue slots* are counts times the [weights](#weights) below. As a check on these, "
        "*machine code* is the length of the shortest loop of what ptxas makes that holds a step's "
        "exponentials, MMAs or TMA loads, every instruction in it taken once. For the softmax the "
        f"two agree within {100 * NEAR:.0f} %{_apart(report)}. For MMA and load they do not: ptxas "
        "folds additions of constants to descriptors, and moves to uniform registers come in that "
        "no PTX stands for."
    )


def _apart(report: Report) -> str:
    """Softmax steps whose issue slots and machine code are further apart than ``NEAR``."""
    found = []
    for shape, codes in report.codes.items():
        for name, code in codes.items():
            role, loop = code.measured.role("softmax"), code.loops.get("softmax")
            if role is None or loop is None:
                continue
            ours, theirs = slots(role.step), loop.instructions - loop.spills
            if abs(ours - theirs) > NEAR * theirs:
                found.append(f"{number(ours)} and {theirs} ({name}, {shape.title})")
    return f", but for {'; '.join(found)}" if found else ""


def _shape(shape: Shape, codes: Mapping[str, Code]) -> str:
    parts = [f"## {shape.title[0].upper()}{shape.title[1:]}", _compiled(codes)]
    remarks = []
    for name, code in codes.items():
        for role in code.measured.roles:
            who = f"{name}, {role.name}"
            if not role.exact:
                remarks.append(f"{who}: blocks differ; figures are the average of {MORE}.")
            if not role.even:
                remarks.append(f"{who}: warps differ; figures are those of warp {role.warps[0]}.")
    remarks += [f"{name}: {code.refusal}" for name, code in codes.items() if code.refusal]
    parts += remarks
    parts.append("### One step of one warp\n\n" + _mixes(codes, lambda role: role.step, True))
    parts.append("### One tile of one warp, beside its steps\n\n" + _tile_words(codes))
    parts.append(_mixes(codes, lambda role: role.tile, False))
    parts.append("### Work of the tensor cores and of TMA\n\n" + _work(codes))
    return "\n\n".join(parts)


def _compiled(codes: Mapping[str, Code]) -> str:
    rows = []
    for name, code in codes.items():
        a, measured = code.assembly, code.measured
        spilled = "" if a is None else f"{a.spill_stores} / {a.spill_loads}"
        by_role = (f"{r.name} {r.registers}" for r in measured.roles if r.registers is not None)
        rows.append(
            [
                name,
                "" if a is None else str(a.registers),
                spilled,
                "" if a is None else str(a.stack),
                ", ".join(by_role),
                f"{measured.shared_bytes:,}",
                f"{measured.instructions:,}",
            ]
        )
    return table(
        ["kernel", "registers at launch", "spilled bytes (stores / loads)", "stack bytes",
         "registers by role", "shared memory (bytes)", "PTX instructions"], rows,
    )  # fmt: skip


def _tile_words(codes: Mapping[str, Code]) -> str:
    if all(code.measured.persistent for code in codes.values()):
        return "Each CTA works on several tiles: the difference that one makes."
    return (
        f"A CTA works on one tile only: its whole life with {FEW} blocks, from the first "
        f"instruction on, less {FEW} steps. Masked blocks, which are longer, are in it."
    )


def _mixes(codes: Mapping[str, Code], of: Callable[[Role], Mapping[str, float]], step: bool) -> str:
    """Instructions by unit, a column for each role of each kernel; like roles side by side."""
    names = dict.fromkeys(role.name for c in codes.values() for role in c.measured.roles)
    columns = [
        (f"{role}, {kernel}" if len(codes) > 1 else role, code, found)
        for role in names
        for kernel, code in codes.items()
        if (found := code.measured.role(role)) is not None and any(of(found).values())
    ]
    rows = [
        [unit, *(number(of(role).get(unit, 0)) for _, _, role in columns)]
        for unit in UNITS
        if any(of(role).get(unit) for _, _, role in columns)
    ]
    rows.append(["**issue slots**", *(f"**{number(slots(of(r)))}**" for _, _, r in columns)])
    if step:
        rows += _step_rows([(code, role) for _, code, role in columns])
    return table(["", *(name for name, _, _ in columns)], rows)


def _step_rows(columns: Sequence[tuple[Code, Role]]) -> list[list[str]]:
    """What else there is to say of a step."""
    loops = [code.loops.get(role.name) for code, role in columns]
    rows = [
        ["issue slots, rescaled", *(number(slots(role.rescaled)) for _, role in columns)],
        ["machine code", *(number(loop.instructions) if loop else "" for loop in loops)],
        ["of this, spills", *(str(loop.spills) if loop else "" for loop in loops)],
    ]
    for pipe in PIPES:
        busy = [pipes(role.step).get(pipe, 0) for _, role in columns]
        rows.append([f"cycles of the {pipe} pipe", *(f"{b:.0f}" if b else "" for b in busy)])
    sizes = [len(role.loop.body) if role.loop else 0 for _, role in columns]
    return [*rows, ["PTX of the loop", *map(number, sizes)]]


def _work(codes: Mapping[str, Code]) -> str:
    rows = []
    for when in ("step", "tile"):
        for name, words in WORK.items():
            counts = [getattr(code.measured, when)[name] for code in codes.values()]
            if any(counts):
                rows.append([f"{words} per {when}", *(large(count) for count in counts)])
    return table(["all CTAs that work on a tile", *codes], rows)


def _weights() -> str:
    rows = [
        [
            unit.name,
            unit.what,
            str(unit.slots),
            unit.source,
            f"{getattr(B200, unit.constant):.2f} ({unit.pipe})" if unit.pipe else "",
        ]
        for unit in UNITS.values()
    ]
    sources = dict.fromkeys(unit.constant for unit in UNITS.values() if unit.constant)
    lines = [f"- `{name}`: {B200.origins[name].source} ({B200.origins[name].kind})"
             for name in sources]  # fmt: skip
    return (
        "## Weights\n\n"
        "An issue slot is one of the four that an SM has in a cycle, one in each sub-partition. "
        "Machine code is what ptxas 13.0 makes of the PTX for sm_100a. Cycles are those for which "
        "one instruction of a warp occupies its pipe, from the simulator's constants for B200:\n\n"
        + "\n".join(lines)
        + "\n\n"
        + table(["unit", "PTX", "issue slots", "machine code", "cycles of a pipe"], rows)
    )
