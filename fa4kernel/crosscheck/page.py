"""The page of the cross-check, in Markdown."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import numpy as np

import fa4sim
from fa4kernel.crosscheck.cases import CASES, SMS, Case, cases_for
from fa4kernel.crosscheck.check import Crosscheck
from fa4kernel.crosscheck.costs import COST_MODEL, STEP_SLOTS, TOLERANCE
from fa4kernel.crosscheck.mix import AMOUNTS, OWN_RESCALES
from fa4kernel.crosscheck.numerics import SAME_BITS

#: Where the page lies in a copy of the repository.
PAGE = "docs/validation/crosscheck.md"
COMMAND = "fa4kernel crosscheck --write"

#: Verdicts on the cases, by kernel.
Verdicts = Mapping[str, Sequence[tuple[Case, Crosscheck]]]

_METHOD = """\
Each problem runs through the simulator, with values, and through the kernel in the PTX emulator, in
lock step and with its checks on. Scores grow towards the keys that come last: O is rescaled.

1. **Barriers.** Every mbarrier and named barrier that the kernel touches is one of the simulator's,
   and the other way round: arrivals that complete a phase, phases completed, who arrives how often
   and with how many bytes, what is left over at the end, who waits. What is initialised and never
   used is known to be.
2. **Order.** What every warp does is the same, operation by operation: on barriers with the phase
   it waits for, on data with the tile. Then whatever ends a phase in one run must come, in the
   other, before the end of every wait for that phase.
3. **Tile lifetimes.** In every slot of shared memory (with its bytes) and range of TMEM columns the
   same tiles live one after the other, and every tile goes the same way.
4. **Instruction mix.** Equal amounts of work. Whether O is rescaled depends on the scores, so the
   simulator is given the kernel's; what differs with its own is told.
5. **Numerics.** Pipeline, kernel and float64 in pairs.
6. **Cost model.** The instruction counts that the simulator assumes, and those that a compiled
   kernel of these head dims and this mask executes: exponentials, packed arithmetic, maxima,
   conversions and TMEM accesses of a softmax step, of a rescale and of a tile's end.

Which tile an instruction of the kernel touches follows from the data: the coordinates of a TMA
copy, the shared memory that an MMA's descriptors point to, the columns that a warp reads. Only
names come from the simulator."""


def page(verdicts: Verdicts, written: bool = True) -> str:
    """The whole page; not ``written`` into the repository, it doesn't speak of files."""
    lines = ["# Simulator, kernel and reference, cross-checked", ""]
    if written:
        day = datetime.now(UTC).date().isoformat()
        lines += [
            f"Written by `{COMMAND}` on {day} (fa4sim {fa4sim.__version__}, Python "
            f"{platform.python_version()}, NumPy {np.__version__}). Don't edit it; run the "
            "command.",
            "",
        ]
    every = [check for checks in verdicts.values() for _, check in checks]
    agree = sum(check.agrees for check in every)
    lines += [
        f"**{agree} of {len(every)} runs agree in every part**, on an imagined B200 of {SMS} SMs: "
        "so few that CTAs work on several tiles.",
        "", _METHOD, "",
    ]  # fmt: skip
    for kernel, checks in verdicts.items():
        lines += _kernel(kernel, checks)
    return "\n".join(lines).rstrip() + "\n"


def _kernel(kernel: str, checks: Sequence[tuple[Case, Crosscheck]]) -> list[str]:
    name = checks[0][1].kernel
    lines = [f"## {name[0].upper()}{name[1:]}", ""]
    parts = [part.name for part in checks[0][1].parts]
    lines += _table(
        ["problem", *parts, "hazards", "s"],
        [
            [case.name, *_verdicts(parts, check),
             str(len(check.hazards)) if check.hazards else "none", f"{check.wall_s:.0f}"]
            for case, check in checks
        ],
    )  # fmt: skip
    lines += ["", "A number is how many things were compared; all of them agree.", ""]
    different = [
        f"- {case.name}, {part.name}: {part.differences[0]}"
        for case, check in checks
        for part in check.parts
        if part.differences
    ]
    different += [f"- {case.name}: {hazard}" for case, check in checks for hazard in check.hazards]
    if different:
        lines += ["First differences:", "", *different, ""]
    return [*lines, *_notes(kernel, checks), *_numerics(checks), *_costs(checks), *_amounts(checks)]


def _verdicts(names: Sequence[str], check: Crosscheck) -> list[str]:
    """What each part says; a dash where a problem has none."""
    found = {part.name: _verdict(part) for part in check.parts}
    return [found.get(name, "–") for name in names]


def _notes(kernel: str, checks: Sequence[tuple[Case, Crosscheck]]) -> list[str]:
    """What is known to be otherwise in this kernel, and what it does not run."""
    notes = dict.fromkeys(
        note
        for _, check in checks
        for part in check.parts
        if part.name == "order"
        for note in part.notes
    )
    lines = [f"- {note}" for note in notes]
    runs = cases_for(kernel)
    lines += [f"- left out: {c.name}; {c.ours_only}" for c in CASES if c not in runs]
    return ["Accepted:", "", *lines, ""] if lines else []


def _costs(checks: Sequence[tuple[Case, Crosscheck]]) -> list[str]:
    """Issue slots, which are held to a tolerance; the other counts are equal or told above."""
    rows = []
    for case, check in checks:
        figures = next((p.figures for p in check.parts if p.name == COST_MODEL), {})
        if slots := figures.get(STEP_SLOTS):
            rows.append([case.name, str(slots["simulator"]), f"{slots['kernel']:g}"])
    if not rows:
        return []
    lines = [f"Issue slots of a softmax step, which may differ by {TOLERANCE:.0%}:", ""]
    return [*lines, *_table(["problem", "simulator", "kernel"], rows), ""]


def _verdict(part: object) -> str:
    agrees, compared = getattr(part, "agrees", False), getattr(part, "compared", 0)
    return f"{compared:,}" if agrees else "**differ**"


def _numerics(checks: Sequence[tuple[Case, Crosscheck]]) -> list[str]:
    lines = [
        "Relative errors ‖A − B‖ / ‖B‖, and votes of the correction (a warp and a step each):",
        "",
    ]
    rows = []
    for case, check in checks:
        parts = {part.name: part.figures for part in check.parts}
        numbers, mix = parts["numerics"], parts["instruction mix"]
        pairs = [pair for pair in numbers.values() if isinstance(pair, dict)]
        rows.append([
            case.name, *(f"{pair['rel_err']:.2e}" for pair in pairs),
            f"{numbers[SAME_BITS]:.2%}", f"{mix['rescale votes']['kernel']:,}",
            f"{mix['rescales']['kernel']:,}", f"{mix[OWN_RESCALES]:,}",
        ])  # fmt: skip
    head = [
        "problem", "pipeline and reference", "kernel and reference", "pipeline and kernel",
        "elements equal, same scores", "votes", "rescales: kernel", "simulator, own scores",
    ]  # fmt: skip
    return [*lines, *_table(head, rows), ""]


def _amounts(checks: Sequence[tuple[Case, Crosscheck]]) -> list[str]:
    lines = ["Amounts of work, the same on both sides where the table above says so:", ""]
    for name, what in AMOUNTS.items():
        lines.append(f"- {name}: {what}")
    rows = []
    for case, check in checks:
        (mix,) = (part.figures for part in check.parts if part.name == "instruction mix")
        rows.append([case.name, *(f"{mix[name]['kernel']:,}" for name in AMOUNTS)])
    return [*lines, "", *_table(["problem", *AMOUNTS], rows), ""]


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A table whose first column is text."""
    rule = ["---", *["---:"] * (len(head) - 1)]
    return ["| " + " | ".join(row) + " |" for row in (head, rule, *rows)]
