"""``fa4sim sweep``: many variants, one table."""

from __future__ import annotations

import csv
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from fa4sim.cli import options
from fa4sim.cli.describe import problem_words, report_facts
from fa4sim.cli.errors import BadInput, Failure, PipelineBroken, refusals
from fa4sim.cli.fields import Settings, typed
from fa4sim.cli.literals import assignments, several
from fa4sim.cli.options import Request, Setup
from fa4sim.cli.output import (
    check_target,
    json_text,
    print_json,
    progress,
    say,
    table,
    write_whole,
)
from fa4sim.engine.errors import Deadlock
from fa4sim.report import Report
from fa4sim.simulate import simulate

MOST_ROWS = 10_000
ENDINGS = (".csv", ".json")


@dataclass(frozen=True)
class Row:
    """One variant: its settings, and its report or why there is none.

    ``status`` is ``ok``, ``refused`` (the design does not fit), ``deadlock`` or ``hazard``.
    """

    settings: Mapping[str, Any]
    status: str
    reason: str = ""
    report: Report | None = None

    def facts(self) -> dict[str, Any]:
        """As plain data, without the waits."""
        figures: dict[str, Any] = {}
        if self.report is not None:
            figures = report_facts(self.report)
            del figures["waits"]
        return {
            "settings": dict(self.settings), "status": self.status,
            "reason": self.reason or None, **figures,
        }  # fmt: skip


@click.command(
    epilog=options.examples(
        "fa4sim sweep --set kv_stages=2:6",
        "fa4sim sweep --set exp2_period=0,10,16,32 --set exp2_first_fragment=0,1 -o split.csv",
        "fa4sim sweep --causal --set seqlen_q=1024,4096,16384",
        "fa4sim sweep --set kv_stages=2:10:2 --set cta_group=2 --json",
        "fa4sim sweep --set machine.clock_hz=1.6e9,1.85e9",
    )
)
@options.problem_options()
@options.machine_option()
@click.option(
    "--set",
    "settings",
    multiple=True,
    required=True,
    metavar="NAME=VALUES",
    help="Values of a field of the design or of the problem, or of machine.CONSTANT: low:high "
    "(both included), low:high:step, or a,b,c. Repeat for a grid.",
)
@options.seed_option()
@click.option("-o", "--output", metavar="FILE", help="Write the rows too, as .csv or .json.")
@options.json_option()
def sweep(
    as_json: bool, seed: int, settings: tuple[str, ...], output: str | None, **given: Any
) -> None:
    """Run many variants and print one row for each.

    --set gives values; every combination of them is a variant.

    A variant is the design the kernel would choose with these values changed. A design that does
    not fit (shared memory, registers, ...) is a row with the reason; if none fits, nothing runs.
    A row that deadlocks or breaks a rule is marked, and the exit code is then 3.
    """
    target = None if output is None else check_target(output, ENDINGS)
    request = Request.of(given)
    values = swept_values(settings)
    check_count(values)
    planned = list(plan(request, values))
    check_some_fit(planned)
    with progress(planned, f"simulating {len(planned)}") as bar:
        rows = [simulate_row(point, setup, seed) for point, setup in bar]
    best = best_of(rows)
    facts = {
        "swept": {name: list(some) for name, some in values.items()},
        "rows": [row.facts() for row in rows],
        "best": None if best is None else best.facts(),
    }
    if target is not None:
        with refusals():
            write_whole(target, lambda path: write_rows(path, facts, rows))
    if not as_json:
        setups = [setup for _, setup in planned if isinstance(setup, Setup)]
        say(words(rows, setups, best))
        if target is not None:
            say(f"wrote {target}")
    broken = [row for row in rows if row.status in ("deadlock", "hazard")]
    if broken:
        raise PipelineBroken(
            f"{len(broken)} of {len(rows)} variants deadlocked or broke a rule; the first: "
            f"{setting_words(broken[0].settings)}: {broken[0].reason}",
            facts,
        )
    if as_json:
        print_json(facts)


def swept_values(texts: Sequence[str]) -> dict[str, Sequence[Any]]:
    """Values by field. Raises a usage failure for a wrong type, before anything is run."""
    listed = {name: several(name, text) for name, text in assignments(texts).items()}
    check_count(listed)
    return {name: [typed(name, value) for value in some] for name, some in listed.items()}


def check_count(values: Mapping[str, Sequence[Any]]) -> None:
    """Raise a usage failure for a grid that would take forever."""
    count = math.prod(len(some) for some in values.values())
    if count > MOST_ROWS:
        sizes = " x ".join(f"{name}: {len(some):,}" for name, some in values.items())
        raise BadInput(
            f"this grid has {count:,} variants ({sizes}); at most {MOST_ROWS:,} are run, so give "
            "fewer values or a larger step"
        )


def plan(
    request: Request, values: Mapping[str, Sequence[Any]]
) -> Iterator[tuple[dict[str, Any], Setup | Failure]]:
    """Every combination, put together or refused."""
    for combination in itertools.product(*values.values()):
        point = dict(zip(values, combination, strict=True))
        try:
            setup = request.with_settings(Settings.of(point)).build()
            yield point, setup
        except Failure as refusal:
            yield point, refusal


def check_some_fit(planned: Sequence[tuple[Mapping[str, Any], Setup | Failure]]) -> None:
    """Raise a usage failure if every variant is refused, with the reasons."""
    if any(isinstance(setup, Setup) for _, setup in planned):
        return
    reasons = list(dict.fromkeys(str(refusal) for _, refusal in planned))
    more = [f"and {len(reasons) - 3} more reasons"] if len(reasons) > 3 else []
    lines = [f"none of the {len(planned)} variants can run:", *reasons[:3], *more]
    raise BadInput(lines[1] if len(planned) == 1 else "\n  ".join(lines))


def simulate_row(point: Mapping[str, Any], setup: Setup | Failure, seed: int) -> Row:
    """One row of the table."""
    if isinstance(setup, Failure):
        return Row(point, "refused", str(setup))
    try:
        run = simulate(setup.problem, setup.design, setup.machine, seed=seed, on_hazard="record")
    except Deadlock as error:
        return Row(point, "deadlock", str(error))
    except ValueError as error:
        return Row(point, "refused", str(error))
    if run.hazards:
        more = f" and {len(run.hazards) - 1} more" if len(run.hazards) > 1 else ""
        return Row(point, "hazard", f"{run.hazards[0]}{more}", run.report)
    return Row(point, "ok", "", run.report)


def best_of(rows: Sequence[Row]) -> Row | None:
    """The row with the highest throughput (of one problem, the shortest time)."""
    done = [row for row in rows if row.status == "ok" and row.report is not None]
    return max(done, key=lambda row: row.report.tflops if row.report else 0.0, default=None)


def setting_words(settings: Mapping[str, Any]) -> str:
    """``name=value, …``."""
    return ", ".join(f"{name}={value_words(value)}" for name, value in settings.items())


def value_words(value: object) -> str:
    """A value in a table.

    >>> value_words(1.85e9), value_words((256, None)), value_words("lpt")
    ('1.85e+09', '256,∞', 'lpt')
    """
    if isinstance(value, tuple):
        return ",".join("∞" if side is None else str(side) for side in value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def words(rows: Sequence[Row], setups: Sequence[Setup], best: Row | None) -> str:
    """The table for people, with reasons below it."""
    names = list(rows[0].settings)
    reasons = {reason: i for i, reason in enumerate(
        dict.fromkeys(row.reason for row in rows if row.reason), 1)}  # fmt: skip
    same_problem = len({setup.problem for setup in setups}) == 1
    mark = "best" if same_problem else "highest TFLOP/s"
    cells = []
    for row in rows:
        line = [value_words(row.settings[name]) for name in names]
        if row.report is None:
            line += ["-", "-", "-", f"{row.status} ({reasons[row.reason]})"]
        else:
            unit, busy = max(row.report.units.items(), key=lambda item: item[1])
            remark = f"{unit} {busy:.0%}" + (f"  {mark}" if row is best and len(rows) > 1 else "")
            if row.reason:
                remark += f"  {row.status} ({reasons[row.reason]})"
            line += [
                f"{row.report.time_us:,.1f}", f"{row.report.tflops:,.0f}",
                f"{row.report.cycles:,}", remark,
            ]  # fmt: skip
        cells.append(line)
    first = setups[0]
    swept = set(names)
    head = f"{first.machine.name}: {problem_words(first.problem)}"
    if not same_problem:
        head += f" and other problems ({', '.join(sorted(swept))} swept)"
    lines = [head, ""]
    lines.append(
        table([*names, "time, µs", "TFLOP/s", "cycles", "busiest unit"], cells, ["busiest unit"])
    )
    if reasons:
        lines += ["", *(f"({i}) {reason}" for reason, i in reasons.items())]
    return "\n".join(lines)


def write_rows(path: Path, facts: Mapping[str, Any], rows: Sequence[Row]) -> None:
    """Write the rows as JSON or CSV, by the ending of ``path``."""
    if path.suffix.lower() == ".json":
        path.write_text(json_text(facts) + "\n", encoding="utf-8")
        return
    units = next((list(row.report.units) for row in rows if row.report is not None), [])
    figures = ("time_us", "launch_us", "tflops", "tflops_visible", "cycles", "events", "bottleneck")
    with path.open("w", newline="", encoding="utf-8") as file:
        out = csv.writer(file, lineterminator="\n")
        head = [*rows[0].settings, "status", "reason", *figures]
        out.writerow([*head, *(f"busy_{unit}" for unit in units)])
        for row in rows:
            line = [value_in_csv(value) for value in row.settings.values()]
            line += [row.status, row.reason]
            if row.report is not None:
                line += [getattr(row.report, figure) for figure in figures]
                line += [row.report.units[unit] for unit in units]
            out.writerow(line + [""] * (len(head) + len(units) - len(line)))


def value_in_csv(value: object) -> object:
    """A setting as one CSV cell."""
    return str(value) if isinstance(value, tuple | bool) or value is None else value
