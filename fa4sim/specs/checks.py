"""Checks of single values that all specifications share.

Each check returns the value it was given or refuses it with a ``ValueError`` that quotes it. What
can be kept without loss is kept (``numpy.int64(3)``; ``128.0`` for a whole number); nothing is
rounded.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from fa4sim.quoting import quoted as quoted


def whole(name: str, value: object) -> int:
    """``value`` as an int. Booleans and strings are not numbers.

    >>> whole("heads", 16.0)
    16
    >>> whole("heads", 2.5)
    Traceback (most recent call last):
    ...
    ValueError: heads=2.5 must be a whole number
    """
    if not isinstance(value, bool):
        try:
            return operator.index(value)  # type: ignore[arg-type]
        except TypeError:
            pass
        if isinstance(value, float | np.floating) and float(value).is_integer():
            return int(value)
    raise ValueError(f"{name}={quoted(value)} must be a whole number")


def whole_between(name: str, value: object, low: int, high: int, why: str = "") -> int:
    """``value`` as an int from ``low`` to ``high``; ``why`` gives the reason for the limits."""
    number = whole(name, value)
    if not low <= number <= high:
        raise ValueError(f"{name}={quoted(number)} must be {low} to {high}{_because(why)}")
    return number


def multiple_of(step: int, name: str, value: object, low: int, high: int, why: str = "") -> int:
    """``value`` as a multiple of ``step`` from ``low`` to ``high``."""
    number = whole(name, value)
    if number % step or not low <= number <= high:
        raise ValueError(
            f"{name}={quoted(number)} must be a multiple of {step} from {low} to {high}"
            f"{_because(why)}"
        )
    return number


def finite(name: str, value: object) -> float:
    """``value`` as a float that is neither infinite nor NaN."""
    if isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if math.isfinite(number):
            return number
    raise ValueError(f"{name}={quoted(value)} must be a finite number")


def flag(name: str, value: object) -> bool:
    """``value`` as a bool. 1, 0 and words are not taken for one."""
    if isinstance(value, bool | np.bool_):
        return bool(value)
    raise ValueError(f"{name}={quoted(value)} must be True or False")


def word(name: str, value: object, what: str) -> str:
    """``value`` as a string that is not empty; ``what`` says what it should be."""
    if isinstance(value, str) and value:
        return value
    raise ValueError(f"{name}={quoted(value)} must be {what}")


def one_of(name: str, value: object, allowed: Sequence[Any]) -> Any:
    """``value`` as one of ``allowed``, which are all words or all whole numbers.

    >>> one_of("q_stages", 3, (1, 2))
    Traceback (most recent call last):
    ...
    ValueError: q_stages=3 must be one of 1, 2
    """
    if isinstance(allowed[0], str):
        found: object = value if isinstance(value, str) else None
    else:
        found = whole(name, value)
    if found not in allowed:
        some = f"one of {', '.join(map(str, allowed))}" if len(allowed) > 1 else str(allowed[0])
        raise ValueError(f"{name}={quoted(value)} must be {some}")
    return found


def _because(why: str) -> str:
    return f": {why}" if why else ""
