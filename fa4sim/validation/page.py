"""The validation as a page of Markdown."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import fa4sim
from fa4sim.specs.origin import KINDS
from fa4sim.validation.errors import (
    WANTED_MEAN,
    WANTED_WORST,
    Errors,
    errors_of,
    relative_error,
)
from fa4sim.validation.ideas import ROWS as IDEA_ROWS
from fa4sim.validation.markdown import number, signed, table, write_whole
from fa4sim.validation.published import Group, conditions, pipe_use, source
from fa4sim.validation.sensitivity import ROWS as VARIED_ROWS
from fa4sim.validation.sensitivity import UNUSED, open_constants
from fa4sim.validation.validation import Validation

#: Where the page lies in a copy of the repository.
PAGE = Path("docs/validation/b200.md")


def write_page(result: Validation, root: Path | None = None) -> Path:
    """Write the page into the repository at ``root``, by default the one this code lies in.

    Returns its path. Raises ``ValueError`` if there is no such repository: an installed package
    has no docs.
    """
    return write_whole(PAGE, page(result), root)


def page(result: Validation, written: bool = True) -> str:
    """All sections of the page; not ``written`` into the repository, it doesn't speak of files."""
    sections = [
        _head(result, written),
        _rows(result),
        _null_models(result),
        _shapes(result),
        _ideas(result),
        _pipes(result),
        _readings(result),
        _sensitivity(result),
        _constants(result),
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def _head(result: Validation, written: bool) -> str:
    judged = sum(not line.row.fitted for line in result.lines)
    verdict = "met" if result.ok else "missed"
    fitted = [n for n, origin in result.machine.origins.items() if origin.kind == "fitted"]
    how = f"""Written by `fa4sim validate --write` on {datetime.now(UTC):%Y-%m-%d} in \
{result.wall_s:.0f} s (fa4sim {fa4sim.__version__}, Python {platform.python_version()}). Don't \
edit it; run the command.

"""
    known = """

What is known to differ from the real kernel, and why, is in [deviations.md](deviations.md)."""
    return f"""# Simulated against published: B200, forward

{how if written else ""}On the {judged} rows that no constant was fitted to, the mean error is \
**{_size(result.errors.mean)}** and the worst **{_size(result.errors.worst)}** (wanted: mean \
{100 * WANTED_MEAN:.0f} % or less, worst {100 * WANTED_WORST:.0f} % or less: {verdict}). \
{len(fitted)} constants were fitted, on {len(result.lines) - judged} rows.\
{known if written else ""}"""


def _rows(result: Validation) -> str:
    rows = [
        [
            line.row.name,
            f"{line.row.published:,.0f}",
            f"{line.simulated:,.0f}",
            signed(line.error),
            "fitted" if line.row.fitted else "",
        ]
        for line in result.lines
    ]
    rows_table = table(["row", "published", "simulated", "error", ""], rows, ["row", ""])
    return f"""## Rows

{source()}: {conditions()}. TFLOP/s; causal rows count half the work. Each row runs the design \
that the kernel itself chooses for it.

{rows_table}"""


def _null_models(result: Validation) -> str:
    rows = [["**the simulator**", *_errors(result.errors)]]
    rows += [[name, *_errors(errors)] for name, errors in result.null_errors.items()]
    names = list(result.null_errors)
    detail = [
        [
            line.row.name + (" (fitted)" if line.row.fitted else ""),
            signed(line.error),
            *(signed(relative_error(line.null_models[name], line.row.published)) for name in names),
        ]
        for line in result.lines
    ]
    return f"""## Beside models that know no pipeline

Fitted on the same three rows, judged on the same others. *Roofline × constant*: the time of the \
busiest of tensor pipe, MUFU and HBM, times one number. *Quadratic*: in log₂ of the mean keys per \
query (which tells full from causal rows), through the three. *Per block + per tile*: cycles per \
128 keys and cycles per tile of 256 queries, by least squares for the three; the launch is the \
simulator's own (with as many tokens in all, every row has as many tiles, so a third constant \
could not be told from the second).

{table(["model", "mean error", "worst"], rows, ["model"])}

{table(["row", "simulator", *names], detail, ["row"])}"""


def _shapes(result: Validation) -> str:
    parts = [
        """## Other shapes

Published throughput of other head dims, masks, dtypes and machines. No constant was fitted to \
any of them. Reports differ by up to 20 % between versions of the compiler and of the kernel; \
where a report shows two software states, *published* is the faster of them in each row and \
*slower* the other.""",
        table(
            ["shapes", "rows", "mean error", "worst"],
            [
                [group.name, str(len(group.rows)), *_errors(_group_errors(group, figures))]
                for group, figures in result.shapes
            ],
            ["shapes"],
        ),
    ]
    rows = []
    for group, figures in result.shapes:
        for row, simulated in zip(group.rows, figures, strict=True):
            rows.append(
                [
                    group.name,
                    row.name,
                    f"{row.machine.clock_hz / 1e9:.3f}",
                    "" if row.slower is None else f"{row.slower:,.0f}",
                    f"{row.published:,.0f}",
                    f"{simulated:,.0f}",
                    signed(relative_error(simulated, row.published)),
                ]
            )
    heads = ["shapes", "row", "GHz", "slower", "published", "simulated", "error"]
    parts.append(table(heads, rows, ["shapes", "row"]))
    sources = sorted({f"{group.source} (clock: {group.clock})" for group, _ in result.shapes})
    parts.append("Sources: " + "; ".join(sources) + ".")
    return "\n\n".join(parts)


def _ideas(result: Validation) -> str:
    rows = [
        [
            worth.idea.name,
            worth.idea.instead,
            *(signed(worth.gains[row]) if row in worth.gains else "" for row in IDEA_ROWS),
            worth.published,
        ]
        for worth in result.ideas
    ]
    heads = ["idea", "instead", *IDEA_ROWS, "published"]
    return f"""## What each idea buys

How much faster the kernel's own design is than the same design with one idea taken away, \
constants unchanged. Empty: the kernel doesn't use the idea there.

{table(heads, rows, ["idea", "instead", "published"])}"""


def _pipes(result: Validation) -> str:
    rows = [
        [
            pipe.machine.upper(),
            *(
                _size(figures[unit])
                for unit in ("tensor", "mufu")
                for figures in (pipe.published, pipe.simulated, pipe.undisturbed)
            ),
        ]
        for pipe in result.pipes
    ]
    heads = ["machine", *(f"{u} {w}" for u in ("tensor", "MUFU") for w in _WAYS)]
    return f"""## Busy pipes

Tensor pipe and MUFU as a profiler saw them, beside the simulation of full 16k, bf16, with the \
fitted interference and with none. {pipe_use()[0]}. What follows from this is in \
[deviations.md](deviations.md).

{table(heads, rows, ["machine"])}"""


def _readings(result: Validation) -> str:
    if not result.readings:
        return ""
    names = list(next(iter(result.readings.values())))
    rows = [
        [reading, *(signed(errors[name]) for name in names)]
        for reading, errors in result.readings.items()
    ]
    nearest = max(
        abs(errors["full 16k"]) for name, errors in result.readings.items() if name != "nothing"
    )
    return f"""## Other readings

Interference switched off and something else put in its place, sized in round numbers to bring \
*full 16k* near: all but *nothing* to {_size(nearest)} or less. Errors as above, the last three \
columns with the clocks of their own reports unless the reading sets it. \
[deviations.md](deviations.md) weighs them.

{table(["instead of interference", *names], rows, ["instead of interference"])}"""


_WAYS = ("profiled", "simulated", "without interference")


def _sensitivity(result: Validation) -> str:
    if not result.effects:
        return ""
    rows = [
        [
            f"`{effect.constant}`",
            effect.origin.kind,
            number(effect.chosen),
            number(effect.value),
            *(signed(effect.changes[row]) for row in VARIED_ROWS),
            _size(effect.mean_error),
        ]
        for effect in result.effects
    ]
    heads = ["constant", "kind", "chosen", "instead", *VARIED_ROWS, "mean error then"]
    unused = "; ".join(f"`{name}` is used by {what}" for name, what in UNUSED.items())
    return f"""## Sensitivity

Change of throughput when one fitted or assumed constant sits at an end of its range, the others \
as chosen, and the mean error of these four rows then. Changes of about 1 % either way say little: \
a constant shifts the rhythm in which the two softmaxes and the tensor pipe meet, and rhythms come \
in steps, so that a slower unit can give a slightly faster whole. Not varied: {unused}.

{table(heads, rows, ["constant", "kind"])}"""


def _constants(result: Validation) -> str:
    machine = result.machine
    counts = [
        f"{sum(origin.kind == kind for origin in machine.origins.values())} {kind}"
        for kind in KINDS
    ]
    rows = []
    for name in open_constants(machine):
        origin = machine.origins[name]
        low, high = origin.low, origin.high
        assert low is not None and high is not None
        rows.append(
            [
                f"`{name}`",
                origin.kind,
                number(getattr(machine, name)),
                f"{number(low)} to {number(high)}",
                origin.source,
            ]
        )
    return f"""## Constants

{result.machine.name} has {", ".join(counts)} constants; `fa4sim machines` lists all with their \
sources. Those that are neither published nor measured:

{table(["constant", "kind", "value", "range", "reason"], rows, ["constant", "kind", "reason"])}"""


def _group_errors(group: Group, figures: Sequence[float]) -> Errors:
    return errors_of(
        [relative_error(x, row.published) for row, x in zip(group.rows, figures, strict=True)]
    )


def _errors(errors: Errors) -> list[str]:
    return [_size(errors.mean), _size(errors.worst)]


def _size(fraction: float) -> str:
    return f"{fraction:.1%}".replace("%", " %")
