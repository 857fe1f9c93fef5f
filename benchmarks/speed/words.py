"""Numbers as the page shows them."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence

#: What follows a number of each unit.
SIGNS = {"": "", "x": "×", "s": " s", "MB": " MB", "M/s": " M/s"}


def shown(value: float, unit: str = "") -> str:
    """`value` to three figures, with its unit.

    >>> shown(0.19412, "x"), shown(1.0, "s"), shown(187.44, "MB"), shown(50104.0)
    ('0.194×', '1.00 s', '187 MB', '50,104')
    """
    if value >= 100:
        text = f"{value:,.0f}"
    elif value >= 10:
        text = f"{value:.1f}"
    elif value >= 1:
        text = f"{value:.2f}"
    else:
        text = f"{value:.3g}"
    return text + SIGNS[unit]


def rate(per_second: float) -> str:
    """A rate to three figures.

    >>> rate(123456.0)
    '123,000'
    """
    return f"{float(f'{per_second:.3g}'):,.0f}"


def spread(values: Sequence[float], unit: str = "") -> str:
    """The smallest and the largest value; nothing if there is only one.

    >>> spread((1.21, 0.98), "s"), spread((1.0,), "s")
    ('0.98 – 1.21 s', '')
    """
    if len(values) < 2:
        return ""
    return f"{shown(min(values))} – {shown(max(values), unit)}"


def median(values: Iterable[float], unit: str = "") -> str:
    """The median with its unit; nothing if there are no values."""
    listed = list(values)
    return shown(statistics.median(listed), unit) if listed else ""
