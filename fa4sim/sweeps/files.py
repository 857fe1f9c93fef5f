"""Rows as columns, and as files."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import fa4sim
from fa4sim.files import json_text, write_whole
from fa4sim.specs.checks import quoted
from fa4sim.sweeps.code import code_digest
from fa4sim.sweeps.grid import Grid
from fa4sim.sweeps.rows import Row, sweep_facts

#: What a file's name may end in.
ENDINGS = (".csv", ".json", ".parquet")

#: Figures of a report that are columns, in their order; ``busy_UNIT`` follows for every unit.
FIGURES = (
    "time_us", "launch_us", "tflops", "tflops_visible", "cycles", "events", "bottleneck",
)  # fmt: skip


def columns(rows: Sequence[Row]) -> dict[str, list[Any]]:
    """Rows as columns of equal length, for a data frame or a plot; None where there is no figure.

    First the settings, then ``status``, ``reason``, the figures of the report (time in µs,
    throughput in TFLOP/s, cycles) and ``busy_UNIT``, the busy fraction of each unit.
    """
    units = next((list(row.report.units) for row in rows if row.report is not None), [])
    found: dict[str, list[Any]] = {
        name: [row.settings[name] for row in rows] for name in (rows[0].settings if rows else ())
    }
    found["status"] = [row.status for row in rows]
    found["reason"] = [row.reason for row in rows]
    for figure in FIGURES:
        found[figure] = [
            None if row.report is None else getattr(row.report, figure) for row in rows
        ]
    for unit in units:
        found[f"busy_{unit}"] = [
            None if row.report is None else row.report.units.get(unit) for row in rows
        ]
    return found


def check_output(path: str | os.PathLike[str]) -> Path:
    """``path`` as a file that rows can be written to, checked before anything is run.

    Raises ``ValueError`` for another ending, a folder that is not there or one of that name,
    ``ImportError`` for Parquet without ``pyarrow``.
    """
    if not isinstance(path, str | os.PathLike):
        raise ValueError(f"output={quoted(path)} must be the name of a file, as 'rows.csv'")
    target = Path(path)
    if target.suffix.lower() not in ENDINGS:
        raise ValueError(
            f"cannot tell what to write from {str(path)!r}: its name must end in "
            f"{', '.join(ENDINGS[:-1])} or {ENDINGS[-1]}"
        )
    if not target.parent.is_dir():
        raise ValueError(f"the folder of {str(path)!r} does not exist; make it first")
    if target.is_dir():
        raise ValueError(f"{str(path)!r} is a folder; give the name of a file")
    if target.suffix.lower() == ".parquet":
        try:
            import pyarrow.parquet  # noqa: F401
        except ImportError as error:
            raise ImportError(
                "Parquet needs pyarrow: pip install 'fa4sim[sweep]'", name=error.name
            ) from error
    return target


def write_rows(grid: Grid, rows: Sequence[Row], path: str | os.PathLike[str]) -> None:
    """Write the rows to ``path``, whole or not at all: CSV, JSON or Parquet by its ending."""
    target = check_output(path)
    writers = {".csv": _write_csv, ".json": _write_json, ".parquet": _write_parquet}
    write = writers[target.suffix.lower()]
    write_whole(target, lambda beside: write(grid, rows, beside))


def _write_json(grid: Grid, rows: Sequence[Row], path: Path) -> None:
    path.write_text(json_text(sweep_facts(grid, rows)) + "\n", encoding="utf-8")


def _write_csv(grid: Grid, rows: Sequence[Row], path: Path) -> None:
    table = columns(rows)
    with path.open("w", newline="", encoding="utf-8") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(table)
        for name in grid.axes:
            table[name] = [_in_csv(value) for value in table[name]]
        out.writerows(zip(*table.values(), strict=True))


def _in_csv(value: object) -> object:
    """A setting as one CSV cell."""
    return str(value) if isinstance(value, tuple | bool) or value is None else value


def _write_parquet(grid: Grid, rows: Sequence[Row], path: Path) -> None:
    import pyarrow
    from pyarrow import parquet

    table = columns(rows)
    fixed = {"status": pyarrow.string(), "reason": pyarrow.string(), "bottleneck": pyarrow.string()}
    fixed |= {"cycles": pyarrow.int64(), "events": pyarrow.int64()}
    arrays = {}
    for name, values in table.items():
        kind = fixed.get(name, None if name in grid.axes else pyarrow.float64())
        plain = [list(value) if isinstance(value, tuple) else value for value in values]
        arrays[name] = pyarrow.array(plain, kind)
    about = {"grid": grid.described(), "fa4sim": fa4sim.__version__, "code": code_digest()}
    whole = pyarrow.table(arrays, metadata={"fa4sim sweep": json.dumps(about)})
    parquet.write_table(whole, path)
