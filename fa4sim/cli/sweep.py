"""``fa4sim sweep``: many variants, one table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from fa4sim.cli import options
from fa4sim.cli.describe import problem_words
from fa4sim.cli.errors import BadInput, PipelineBroken, missing_extra, refusals
from fa4sim.cli.fields import refuse_faults
from fa4sim.cli.literals import assignments, several
from fa4sim.cli.options import Request
from fa4sim.cli.output import Steps, check_target, note, print_json, say, table
from fa4sim.specs.idle import idle_words
from fa4sim.specs.setup import Setup
from fa4sim.sweeps import Grid, Row, best_of
from fa4sim.sweeps import sweep as run_sweep
from fa4sim.sweeps.files import ENDINGS, check_output
from fa4sim.sweeps.journal import journal_of
from fa4sim.sweeps.rows import sweep_facts


@click.command(
    epilog=options.examples(
        "fa4sim sweep --set kv_stages=2:6",
        "fa4sim sweep --set exp2_period=0,10,16,32 --set exp2_first_fragment=0,1 -o split.csv",
        "fa4sim sweep --causal --set seqlen_q=1024,4096,16384",
        "fa4sim sweep --set kv_stages=2:10:2 --set cta_group=2 --json",
        "fa4sim sweep --set machine=b200,b300 --set machine.clock_hz=1.6e9,1.85e9",
        "fa4sim sweep --set seqlen_q=1024:16384:1024 -o lengths.parquet --dask tcp://host:8786",
    )
)
@options.problem_options()
@options.machine_option()
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="NAME=VALUES",
    help="What to vary; at least one. Values of a field of the design or of the problem, of "
    "machine.CONSTANT or of machine: low:high (both included), low:high:step, or a,b,c. Repeat "
    "for a grid.",
)
@options.seed_option()
@click.option(
    "-o", "--output", metavar="FILE", help="Write the rows too, as .csv, .json or .parquet."
)
@click.option(
    "--jobs", type=click.IntRange(min=1), metavar="N", help="Processes. [default: one per core]"
)
@click.option(
    "--dask",
    "cluster",
    metavar="ADDRESS",
    help="Run on the Dask cluster whose scheduler has this address, as tcp://host:8786.",
)
@click.option("--restart", is_flag=True, help="Throw away what a stopped sweep has left.")
@options.json_option()
@click.pass_context
def sweep(
    context: click.Context, /, as_json: bool, seed: int, settings: tuple[str, ...],
    output: str | None, jobs: int | None, cluster: str | None, restart: bool, **given: Any,
) -> None:  # fmt: skip
    """Run many variants and print one row for each.

    --set gives values; every combination of them is a variant.

    A variant is the design the kernel would choose with these values changed. A design that does
    not fit (shared memory, registers, ...) is a row with the reason; if none fits, nothing runs.
    A row that deadlocks or breaks a rule is marked, and the exit code is then 3.

    With -o FILE, finished variants are kept in FILE.journal until FILE is written. The same
    command goes on from there, however it was stopped; a changed one is refused.
    """
    if not settings:
        raise BadInput("nothing to vary: give at least one --set, as in --set kv_stages=2:6")
    grid = grid_of(Request.of(given), settings, context)
    target = None if output is None else check_target(output, ENDINGS)
    try:
        with Steps(f"simulating {len(grid)}") as steps, refusals():
            if target is not None:
                check_output(target)
            rows = run_sweep(
                grid, output=target, jobs=jobs, cluster=cluster, restart=restart, seed=seed,
                progress=steps, note=note,
            )  # fmt: skip
    except ImportError as error:
        what = "--dask" if cluster is not None else "a .parquet file"
        raise missing_extra(error, "sweep", what) from None
    except (KeyboardInterrupt, RuntimeError) as error:
        _say_what_is_kept(target)
        if isinstance(error, KeyboardInterrupt) or error.__cause__ is not None:
            raise
        raise BadInput(str(error)) from None
    except BadInput as error:
        if isinstance(error.__context__, OSError):  # as a disk that is full
            _say_what_is_kept(target)
        raise
    facts = sweep_facts(grid, rows)
    if not as_json:
        setups = [point.setup for point in grid.points() if point.setup is not None]
        say(words(rows, setups, best_of(rows)))
        if facts["idle"]:
            say(f"\n{idle_words(facts['idle'])}")
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


def _say_what_is_kept(target: Path | None) -> None:
    if target is not None and journal_of(target).exists():
        note(f"What is finished is in {journal_of(target)}; the same command goes on from there.")


def grid_of(request: Request, texts: Sequence[str], context: click.Context) -> Grid:
    """The grid that the options spell out. Raises a usage failure, before anything is run."""
    written = assignments(texts)
    refuse_faults(written)
    axes = {name: several(name, text) for name, text in written.items()}
    if "machine" in axes and context.get_parameter_source("machine") is not _DEFAULT:
        raise BadInput(
            f"machine is given twice: by its own option ({request.machine!r}) and by --set"
        )
    defaults = {name: value for name, value in request.defaults.items() if name not in axes}
    with refusals():
        return Grid(axes, request.fixed.problem, request.machine, defaults)


_DEFAULT = click.core.ParameterSource.DEFAULT


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
    lines = [head(setups, same_problem, names), ""]
    lines.append(
        table([*names, "time, µs", "TFLOP/s", "cycles", "busiest unit"], cells, ["busiest unit"])
    )
    if reasons:
        lines += ["", *(f"({i}) {reason}" for reason, i in reasons.items())]
    return "\n".join(lines)


def head(setups: Sequence[Setup], same_problem: bool, swept: Sequence[str]) -> str:
    """What was run, in a line."""
    first = setups[0]
    text = f"{first.machine.name}: {problem_words(first.problem)}"
    if same_problem:
        return text
    return f"{text} and other problems ({', '.join(sorted(swept))} swept)"
