"""Distributions of lengths: how many tokens requests have."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fa4sim.specs.checks import quoted

Ints = NDArray[np.int64]

KINDS = (
    "a number, uniform:LOW:HIGH, lognormal:MEDIAN:SIGMA, lognormal:MEDIAN:SIGMA:MOST or a file "
    "with a number on every line"
)
MOST_TOKENS = 10**8


@dataclass(frozen=True)
class Lengths:
    """A distribution of lengths in tokens, drawn from with a seed.

    ``kind`` is ``"constant"`` (``values`` = the length), ``"uniform"`` (low and high, both
    included), ``"lognormal"`` (median, standard deviation of the logarithm, most) or ``"list"``
    (each as likely as the other). :meth:`of` reads one from text.
    """

    kind: str
    values: tuple[float, ...]
    text: str

    @classmethod
    def of(cls, text: str | int) -> Lengths:
        """The distribution that ``text`` describes. Raises ``ValueError`` saying what is allowed.

        >>> Lengths.of("uniform:1:3").draw(5, np.random.default_rng(0)).tolist()
        [3, 2, 2, 1, 1]
        >>> Lengths.of("gauss:1")
        Traceback (most recent call last):
        ...
        ValueError: lengths 'gauss:1' must be a number, uniform:LOW:HIGH, lognormal:MEDIAN:SIGMA, \
lognormal:MEDIAN:SIGMA:MOST or a file with a number on every line; there is no such file
        """
        text = str(text)
        kind, *given = text.split(":")
        if kind in ("uniform", "lognormal") and given:
            return cls(kind, _numbers(text, kind, given), text)
        try:
            return cls("constant", (_tokens(text, text),), text)
        except ValueError:
            if _is_number(text):
                raise
        return cls("list", _from_file(text), text)

    def draw(self, count: int, rng: np.random.Generator) -> Ints:
        """``count`` lengths as int64."""
        if self.kind == "constant":
            return np.full(count, int(self.values[0]), dtype=np.int64)
        if self.kind == "uniform":
            low, high = self.values
            return rng.integers(int(low), int(high), size=count, endpoint=True)
        if self.kind == "list":
            return rng.choice(np.array(self.values, dtype=np.int64), size=count)
        median, sigma, most = self.values
        drawn = np.exp(rng.normal(math.log(median), sigma, size=count))
        return np.clip(np.rint(np.minimum(drawn, most)), 1, most).astype(np.int64)

    @property
    def most(self) -> int:
        """The longest that can be drawn; what a cache without pages would have to reserve."""
        return int(max(self.values) if self.kind == "list" else self.values[-1])


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _tokens(text: str, part: str) -> float:
    try:
        number = int(part)
    except ValueError:
        raise ValueError(f"lengths {text!r}: {part!r} must be a whole number of tokens") from None
    if not 0 <= number <= MOST_TOKENS:
        raise ValueError(f"lengths {text!r}: {part!r} must be 0 to {MOST_TOKENS} tokens")
    return float(number)


def _numbers(text: str, kind: str, given: list[str]) -> tuple[float, ...]:
    if kind == "uniform":
        if len(given) != 2:
            raise ValueError(f"lengths {text!r} must be uniform:LOW:HIGH, as uniform:100:4000")
        low, high = (_tokens(text, part) for part in given)
        if low > high:
            raise ValueError(f"lengths {text!r}: LOW is above HIGH; give uniform:{given[1]}:…")
        return low, high
    if len(given) not in (2, 3):
        raise ValueError(
            f"lengths {text!r} must be lognormal:MEDIAN:SIGMA or lognormal:MEDIAN:SIGMA:MOST, as "
            "lognormal:1000:0.8:32768"
        )
    median = _tokens(text, given[0])
    try:
        sigma = float(given[1])
    except ValueError:
        sigma = math.nan
    if not 0 <= sigma <= 5:
        raise ValueError(f"lengths {text!r}: SIGMA {given[1]!r} must be a number from 0 to 5")
    most = _tokens(text, given[2]) if len(given) == 3 else 131072.0
    if not 1 <= median <= most:
        raise ValueError(
            f"lengths {text!r}: MEDIAN {given[0]} must be 1 to MOST, which is {most:.0f}"
        )
    return median, sigma, most


def _from_file(text: str) -> tuple[float, ...]:
    path = Path(text)
    try:
        lines = path.read_text(encoding="utf-8-sig").split()
    except (OSError, ValueError) as error:
        why = "there is no such file" if not os.path.exists(path) else f"cannot read it: {error}"
        raise ValueError(f"lengths {quoted(text)} must be {KINDS}; {why}") from None
    if not lines:
        raise ValueError(f"lengths: {text!r} holds no number")
    return tuple(_tokens(text, line) for line in lines)
