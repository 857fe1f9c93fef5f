"""How much memory the emulator takes: for many CTAs, and for long ones."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.emulator import reasons
from benchmarks.emulator.problem import HEAD_DIM, NEEDS, Work, absent
from benchmarks.emulator.runs import emulated
from benchmarks.speed.measurement import Figure, Measurement, Table
from benchmarks.speed.words import shown

TITLE = "Memory of the emulator"
#: One wave, two waves, sixteen; and one wave whose CTAs go through more keys.
WAVE, TWO, MANY = (Work("full", 2048, 2048, heads) for heads in (4, 8, 64))
LONG = Work("full", 2048, 16384, 4)


def measure(works: Sequence[Work] = (WAVE, TWO, MANY, LONG)) -> Measurement:
    """Each with default checks in a fresh interpreter, all but the last also without."""
    if reason := absent():
        return Measurement(TITLE, f"Not measured. {NEEDS}: {reason}.")
    wave, two, many, long = works
    found = {(work, "default"): emulated(work, "default") for work in works}
    plain = {(work, "off"): emulated(work) for work in (wave, two, many)}
    own = {key: run["peak_mb"] - run["before_mb"] for key, run in {**plain, **found}.items()}
    grown = own[many, "off"] / own[two, "off"]
    more = found[long, "default"]["instructions"] - found[wave, "default"]["instructions"]
    bytes_each = (own[long, "default"] - own[wave, "default"]) * 1e6 / more
    arrays_mb = 4 * many.heads * many.seqlen_q * HEAD_DIM * 2 / 1e6
    kept = own[many, "default"] - own[two, "default"]
    figures = (
        Figure(f"peak memory of {wave.ctas} CTAs, default checks", "MB",
               (found[wave, "default"]["peak_mb"],), 1000, reason=reasons.MEMORY),
        Figure(f"memory of {many.ctas} CTAs against {two.ctas}, arrays not counted, checks off",
               "x", (grown,), 1.1, reason=reasons.MEMORY),
    )  # fmt: skip
    how = (
        "The same kernel in one process of a fresh interpreter. The peak is the most that it had "
        "resident, interpreter and libraries included, in MB of 10⁶ bytes. At most 32 CTAs are "
        "resident at a time, in waves, and a wave's state (registers, shared and tensor memory, "
        "what the checks remember of them) is dropped when it ends: that bounds a large grid, and "
        f"why {many.ctas} CTAs are held against {two.ctas}, two waves, by what each took beyond "
        "its arrays and the interpreter. With checks, accesses to global memory are remembered "
        f"over all waves: {many.ctas} CTAs, which have {arrays_mb:.0f} MB of arrays, took "
        f"{kept:.0f} MB more than {two.ctas}. Within a wave the checks keep a record of each "
        "access, so a wave that runs longer takes more: from the first problem to the longer one, "
        f"{max(0.0, bytes_each):.2f} bytes for each further warp instruction."
    )
    lines = [_line(work, checks, run) for (work, checks), run in {**plain, **found}.items()]
    head = ("problem", "CTAs", "checks", "warp instructions", "before the run", "peak", "CPU time")
    return Measurement(TITLE, how, figures, (Table("One run each.", head, tuple(lines)),))


def _line(work: Work, checks: str, run: dict[str, float]) -> tuple[str, ...]:
    return (
        work.words(), f"{work.ctas}", checks, f"{run['instructions']:,}",
        shown(run["before_mb"], "MB"), shown(run["peak_mb"], "MB"), shown(run["cpu_s"], "s"),
    )  # fmt: skip
