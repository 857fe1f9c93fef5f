"""How much memory the emulator takes: for many CTAs, and for long ones."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.emulator import reasons
from benchmarks.emulator.problem import NEEDS, Work, absent
from benchmarks.emulator.runs import emulated
from benchmarks.speed.measurement import Figure, Measurement, Table
from benchmarks.speed.words import shown

TITLE = "Memory of the emulator"
#: One wave, two waves, sixteen; and one wave whose CTAs go through more keys.
WAVE, TWO, MANY = (Work("full", 2048, 2048, heads) for heads in (4, 8, 64))
LONG = Work("full", 2048, 16384, 4)


def measure(works: Sequence[Work] = (WAVE, TWO, MANY, LONG)) -> Measurement:
    """Each with default checks in a fresh interpreter, the first also without."""
    if reason := absent():
        return Measurement(TITLE, f"Not measured. {NEEDS}: {reason}.")
    wave, two, many, long = works
    found = {work: emulated(work, "default") for work in works}
    lines = [_line(wave, "off", emulated(wave))]
    lines += [_line(work, "default", run) for work, run in found.items()]
    grown = _own(found[many]) / _own(found[two])
    more = found[long]["instructions"] - found[wave]["instructions"]
    bytes_each = (_own(found[long]) - _own(found[wave])) * 1e6 / more
    figures = (
        Figure(f"peak memory of {wave.ctas} CTAs, default checks", "MB",
               (found[wave]["peak_mb"],), 1000, reason=reasons.MEMORY),
        Figure(f"memory of {many.ctas} CTAs against {two.ctas}, arrays not counted", "x",
               (grown,), 1.1, reason=reasons.MEMORY),
    )  # fmt: skip
    how = (
        "The same kernel in one process of a fresh interpreter, with default checks. The peak is "
        "the most that it had resident, interpreter and libraries included, in MB of 10⁶ bytes. At "
        "most 32 CTAs are resident at a time, in waves, and a wave's state (registers, shared and "
        "tensor memory, what the checks remember) is dropped when it ends: that bounds a large "
        f"grid, and why {many.ctas} CTAs are held against {two.ctas}, two waves, by what each took "
        "beyond its arrays and the interpreter. Within a wave the checks keep a record of each "
        "access, so a wave that runs longer takes more: between the first and the last row of the "
        f"table, {max(0.0, bytes_each):.2f} bytes for each further warp instruction."
    )
    head = ("problem", "CTAs", "checks", "warp instructions", "before the run", "peak", "CPU time")
    return Measurement(TITLE, how, figures, (Table("One run each.", head, tuple(lines)),))


def _own(run: dict[str, float]) -> float:
    """MB that the run took itself."""
    return run["peak_mb"] - run["before_mb"]


def _line(work: Work, checks: str, run: dict[str, float]) -> tuple[str, ...]:
    return (
        work.words(), f"{work.ctas}", checks, f"{run['instructions']:,}",
        shown(run["before_mb"], "MB"), shown(run["peak_mb"], "MB"), shown(run["cpu_s"], "s"),
    )  # fmt: skip
