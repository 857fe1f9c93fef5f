"""One process of the emulator: few CTAs and many, and how long reading a kernel takes."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from benchmarks.emulator import reasons
from benchmarks.emulator.problem import NEEDS, Work, absent
from benchmarks.emulator.runs import emulated
from benchmarks.speed.measurement import Figure, Measurement, Table
from benchmarks.speed.words import shown

TITLE = "One process of the emulator"
ONE = Work("full", 256, 8192, 1)
OTHERS = (
    Work("causal", 256, 8192, 1),
    Work("CTA pair", 512, 8192, 1),
    Work("full", 1024, 2048, 4),
    Work("full", 2048, 2048, 4),
    Work("full", 2048, 2048, 16),
)


def measure(one: Work = ONE, others: Sequence[Work] = OTHERS, repeats: int = 3) -> Measurement:
    """One CTA `repeats` times in turn without and with checks; other grids once each."""
    if reason := absent():
        return Measurement(TITLE, f"Not measured. {NEEDS}: {reason}.")
    off, default = [], []
    for _ in range(repeats):
        off.append(emulated(one, "off", repeats=3))
        default.append(emulated(one, "default", repeats=3))
    decoding = tuple(run["decode_s"] for run in (*off, *default))
    cost = tuple(d["cpu_s"] / o["cpu_s"] for d, o in zip(default, off, strict=True))
    rates = tuple(run["instructions"] / run["cpu_s"] / 1e6 for run in off)
    figures = (
        Figure("warp instructions, 1 CTA", "M/s", rates, 1.0, True, reason=reasons.ONE_CTA),
        Figure("default checks against none, 1 CTA", "x", cost, 2.0, reason=reasons.CHECKS),
        Figure("reading and decoding the PTX of official FA4", "s", decoding, 0.5),
    )
    lines = [_line(one, off, default)]
    lines += [_line(w, [emulated(w, repeats=2)], [emulated(w, "default", repeats=2)])
              for w in others]  # fmt: skip
    head = ("problem", "CTAs", "warp instructions", "checks off", "M/s", "default checks", "M/s")
    how = (
        "The same kernel in one process, in lock step, with one thread for linear algebra. Each "
        f"fresh interpreter runs it three times and the quickest counts; {repeats} interpreters "
        f"for one CTA ({one.words()}), without checks and with them in turn, one of two runs for "
        "the other grids. Rates are of CPU time without decoding; copies that cost nothing are not "
        "counted. At most 32 CTAs run at a time."
    )
    return Measurement(TITLE, how, figures, (Table("CPU time, medians.", head, tuple(lines)),))


def _line(
    work: Work, off: Sequence[dict[str, float]], default: Sequence[dict[str, float]]
) -> tuple[str, ...]:
    count = off[0]["instructions"]
    cells = []
    for runs in (off, default):
        seconds = median(run["cpu_s"] for run in runs)
        cells += [shown(seconds, "s"), shown(count / seconds / 1e6)]
    return (work.words(), f"{work.ctas}", f"{count:,}", *cells)
