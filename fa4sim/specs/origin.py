"""Where a number comes from. A machine is a list of numbers; each carries its origin.

*published*: in a manual, paper or datasheet. *measured*: by a script here, on a named device.
*fitted*: chosen inside a stated range so that stated rows come out. *assumed*: chosen inside a
stated range for a stated reason; counted with the fitted ones wherever accuracy is claimed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["published", "measured", "fitted", "assumed"]
KINDS: tuple[Kind, ...] = ("published", "measured", "fitted", "assumed")


@dataclass(frozen=True)
class Origin:
    """The origin of one constant: its kind, its source in words and, if open, its range.

    ``low`` and ``high`` bound what the constant may physically be; they are required for fitted
    and assumed constants and used by the sensitivity analysis. Raises ``ValueError`` otherwise.
    """

    kind: Kind
    source: str
    low: float | None = None
    high: float | None = None

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"origin kind {self.kind!r} is not one of {', '.join(KINDS)}")
        if not self.source:
            raise ValueError(f"a {self.kind} constant needs its source in words")
        if self.kind in ("fitted", "assumed") and (self.low is None or self.high is None):
            raise ValueError(f"a {self.kind} constant needs a range (low, high)")
        if self.low is not None and self.high is not None and self.low > self.high:
            raise ValueError(f"range {self.low} to {self.high} is upside down")


def published(source: str) -> Origin:
    """Stated by a manual, paper or datasheet."""
    return Origin("published", source)


def measured(source: str, low: float | None = None, high: float | None = None) -> Origin:
    """Measured by a script on a named device."""
    return Origin("measured", source, low, high)


def fitted(source: str, low: float, high: float) -> Origin:
    """Chosen between ``low`` and ``high`` so that stated rows come out."""
    return Origin("fitted", source, low, high)


def assumed(source: str, low: float, high: float) -> Origin:
    """Chosen between ``low`` and ``high`` for a stated reason."""
    return Origin("assumed", source, low, high)
