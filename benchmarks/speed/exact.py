"""Every CTA in detail against one per class of work: cycles and time of both."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from benchmarks.speed.measurement import Measurement, Table
from benchmarks.speed.stopwatch import Spent, timed
from benchmarks.speed.words import median, shown
from fa4sim import Problem, simulate

PROBLEMS = tuple(Problem(heads=8, seqlen_q=2048, causal=causal) for causal in (False, True))


def measure(problems: Sequence[Problem] = PROBLEMS, repeats: int = 3) -> Measurement:
    """Both ways in turn, `repeats` times."""
    return Measurement(
        "Exact mode against reuse",
        "`simulate(..., exact=True)` simulates every CTA and lets them queue at one L2 and one "
        "HBM; without it one CTA per class of work is simulated with its fair share of both, and "
        f"placed as often as needed. Both in turn, {repeats} times in one process. Cycles are "
        "the kernel's span and the same every time.",
        tables=(
            Table(
                "Times are CPU time, medians.",
                ("problem", "CTAs", "cycles, exact", "cycles, reuse", "difference",
                 "exact", "reuse", "times faster"),
                tuple(row(problem, repeats) for problem in problems),
            ),
        ),
    )  # fmt: skip


def row(problem: Problem, repeats: int) -> tuple[str, ...]:
    """One problem: cycles of both ways, how far reuse is off, CPU time of both."""
    spent: dict[bool, list[Spent]] = {True: [], False: []}
    cycles: dict[bool, int] = {}
    ctas = 0
    for _ in range(repeats):
        for exact in (False, True):
            one, run = timed(partial(simulate, problem, exact=exact))
            spent[exact].append(one)
            cycles[exact] = run.report.cycles
            ctas = run.report.ctas
    faster = [a.cpu_s / b.cpu_s for a, b in zip(spent[True], spent[False], strict=True)]
    return (
        f"{problem.heads} heads, {problem.seqlen_q} × {problem.seqlen_k}, "
        f"{'causal' if problem.causal else 'full'}",
        f"{ctas}",
        shown(cycles[True]),
        shown(cycles[False]),
        f"{difference(cycles[False], cycles[True]):+.2f}%",
        median((one.cpu_s for one in spent[True]), "s"),
        median((one.cpu_s for one in spent[False]), "s"),
        median(faster, "x"),
    )


def difference(reuse: int, exact: int) -> float:
    """How far reuse is from exact, in percent of exact.

    >>> difference(99, 100)
    -1.0
    """
    return 100 * (reuse - exact) / exact
