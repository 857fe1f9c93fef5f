"""What a result file of these microbenchmarks holds, and reading one.

A file is a JSON object: where and when it was measured, the clocks seen, and `rows`, one per
figure. A row's name ends in its unit (`mbarrier_arrive_issue_cycles`), so a figure cannot be read
in the wrong one. `value` is the median over the runs of each run's median, `p10` and `p90` the
medians of the runs' percentiles, `run_min` and `run_max` the range of the runs' medians.
"""

from __future__ import annotations

import datetime
import json
import math
import re
from pathlib import Path
from typing import Any

SCHEMA = 1
UNITS = (
    "cycles_per_warp",
    "cycles_per_element",
    "bytes_per_cycle",
    "flop_per_cycle",
    "bytes_per_second",
    "flop_per_second",
    "cycles",
    "us",
    "hz",
)
_TEXTS = ("device", "driver", "cuda", "date")
_ROW_TEXTS = ("name", "unit", "method", "program")
_ROW_NUMBERS = ("value", "p10", "p90", "run_min", "run_max")
_ROW_COUNTS = ("n", "runs")


class ResultFileError(ValueError):
    """A result file that is not one, with what is wrong and what was expected."""


def unit_of(name: str) -> str:
    """The unit that a name ends in.

    >>> unit_of("mufu_ex2_cycles_per_warp")
    'cycles_per_warp'
    >>> unit_of("mufu_ex2")
    Traceback (most recent call last):
    ...
    benchmarks.hopper.results_file.ResultFileError: name 'mufu_ex2' ends in no known unit; ...
    """
    for unit in UNITS:
        if name.endswith(f"_{unit}"):
            return unit
    raise ResultFileError(f"name {name!r} ends in no known unit; known are {', '.join(UNITS)}")


def _check_row(row: Any, where: str) -> None:
    if not isinstance(row, dict):
        raise ResultFileError(f"{where} is {type(row).__name__}, expected an object")
    for key in _ROW_TEXTS:
        if not isinstance(row.get(key), str) or not row[key]:
            raise ResultFileError(f"{where} has {key}={row.get(key)!r}, expected a text")
    name = row["name"]
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise ResultFileError(f"{where} has name {name!r}; names are snake_case")
    expected = unit_of(name)
    if row["unit"] != expected:
        raise ResultFileError(f"{name} has unit {row['unit']!r}, but its name says {expected!r}")
    for key in _ROW_NUMBERS:
        number = row.get(key)
        if isinstance(number, bool) or not isinstance(number, int | float):
            raise ResultFileError(f"{name} has {key}={number!r}, expected a number")
        if not math.isfinite(number) or number <= 0:
            raise ResultFileError(f"{name} has {key}={number!r}, expected a positive number")
    for key in _ROW_COUNTS:
        if isinstance(row.get(key), bool) or not isinstance(row.get(key), int) or row[key] < 1:
            raise ResultFileError(f"{name} has {key}={row.get(key)!r}, expected a count")
    for low, high in (("p10", "p90"), ("run_min", "run_max")):
        if not row[low] <= row["value"] <= row[high]:
            raise ResultFileError(
                f"{name} has value {row['value']} outside {low}={row[low]} to {high}={row[high]}"
            )
    if not isinstance(row.get("params"), dict):
        raise ResultFileError(f"{name} has params={row.get('params')!r}, expected an object")


def check(data: Any, source: str = "result file") -> dict[str, Any]:
    """Return `data` if it is a valid result file; `source` names it in errors.

    Raises:
        ResultFileError: something is missing or impossible.
    """
    if not isinstance(data, dict):
        raise ResultFileError(f"{source} holds {type(data).__name__}, expected an object")
    if data.get("schema") != SCHEMA:
        raise ResultFileError(
            f"{source} has schema {data.get('schema')!r}; this code reads schema {SCHEMA}. "
            "Measure again with run.py"
        )
    for key in _TEXTS:
        if not isinstance(data.get(key), str) or not data[key]:
            raise ResultFileError(f"{source} has {key}={data.get(key)!r}, expected a text")
    try:
        datetime.date.fromisoformat(data["date"])
    except ValueError:
        raise ResultFileError(f"{source} has date {data['date']!r}, expected YYYY-MM-DD") from None
    if data.get("quick") is not False:
        raise ResultFileError(
            f"{source} comes from a --quick run, whose figures mean nothing. Run without --quick"
        )
    rows = data.get("rows")
    if not isinstance(rows, list) or not rows:
        raise ResultFileError(f"{source} has no rows")
    seen: set[str] = set()
    for index, row in enumerate(rows):
        _check_row(row, f"row {index} of {source}")
        if row["name"] in seen:
            raise ResultFileError(f"{source} has two rows named {row['name']!r}")
        seen.add(row["name"])
    return data


def read(path: Path) -> dict[str, Any]:
    """Read and check a result file.

    Raises:
        ResultFileError: not JSON, or not a valid result file.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise ResultFileError(f"{path} is not JSON: {error}") from error
    return check(data, str(path))


def values(data: dict[str, Any]) -> dict[str, float]:
    """The value of every row, by name."""
    return {row["name"]: row["value"] for row in data["rows"]}
