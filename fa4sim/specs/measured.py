"""What was measured on hardware, read from the data file that the benchmarks write."""

from __future__ import annotations

import json
from functools import lru_cache
from importlib import resources
from typing import Any

from fa4sim.specs.origin import Origin, measured

H200_FILE = "h200_measured.json"


@lru_cache(maxsize=1)
def h200() -> dict[str, Any]:
    """The H200 data file as it stands: device, driver, date, rows."""
    text = (resources.files("fa4sim.specs") / "data" / H200_FILE).read_text(encoding="utf-8")
    data: dict[str, Any] = json.loads(text)
    data["by_name"] = {row["name"]: row for row in data["rows"]}
    return data


def h200_value(name: str) -> float:
    """One measured value, in the unit its name ends with.

    >>> h200_value("mufu_ex2_cycles_per_warp")
    8.0

    Raises ``KeyError`` naming a quantity that was not measured.
    """
    try:
        return float(h200()["by_name"][name]["value"])
    except KeyError:
        raise KeyError(f"{name!r} is not among the quantities measured on the H200") from None


def h200_origin(*names: str) -> Origin:
    """The origin of a constant that was computed from these measured quantities."""
    data = h200()
    return measured(
        f"{' and '.join(names)} on an {data['device']}, driver {data['driver']}, {data['date']} "
        "(docs/benchmarks_h200.md)"
    )
