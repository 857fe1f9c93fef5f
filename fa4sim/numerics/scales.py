"""Scales: numbers that scores are multiplied by or joined with, and which of them make no sense."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fa4sim.numerics.mufu import LOG2_E


def is_whole(value: object) -> bool:
    """Whether it is a whole number, of Python or NumPy; True and False are none.

    >>> is_whole(np.int64(3)), is_whole(3.0), is_whole(True)
    (True, False, False)
    """
    return isinstance(value, Integral) and not _is_truth(value)


def is_number(value: object) -> bool:
    """Whether it is a real number, of Python or NumPy; True and False are none."""
    return isinstance(value, Real) and not _is_truth(value)


def is_finite(value: Any) -> bool:
    """Whether it is a real number, neither infinite nor NaN."""
    return is_number(value) and math.isfinite(value)


def _is_truth(value: object) -> bool:
    return isinstance(value, bool)


def check_logits(sink: NDArray[Any]) -> None:
    """Refuse sink logits that leave no sum to divide by: NaN and +inf.

    Raises:
        ValueError: there is such a one; the message quotes it.

    >>> check_logits(np.array([1.0, np.inf]))
    Traceback (most recent call last):
        ...
    ValueError: sink holds inf; logits are finite, or -inf for no sink
    """
    bad = ~(sink < np.inf)
    if bad.any():
        raise ValueError(f"sink holds {sink[bad][0]}; logits are finite, or -inf for no sink")


def check_scales(
    softmax_scale: float,
    softcap: float = 0.0,
    q_descale: NDArray[np.float32] | float = 1.0,
    k_descale: NDArray[np.float32] | float = 1.0,
) -> None:
    """Check that float32 holds what a kernel multiplies scores by, as a normal number.

    It takes softmax_scale · log2(e), times the descales of q and k, and a softcap.

    Args:
        softmax_scale: positive.
        softcap: 0 for none, else positive.
        q_descale, k_descale: positive; of the same shape, if they have one.

    Raises:
        ValueError: a product, or the softcap, is too large or too small; the message quotes it.

    >>> check_scales(1e300)
    Traceback (most recent call last):
        ...
    ValueError: softmax_scale=1e+300: the kernel computes in float32, so it must be 1.2e-38 to 2e+38
    """
    limits = np.finfo(np.float32)
    smallest, largest = float(limits.tiny), float(limits.max)
    if not smallest <= softmax_scale * LOG2_E <= largest:
        raise ValueError(
            f"softmax_scale={softmax_scale!r}: the kernel computes in float32, so it must be "
            f"{smallest:.1e} to 2e+38"
        )
    if softcap and not smallest <= softcap <= largest:
        raise ValueError(
            f"softcap={softcap!r}: the kernel computes in float32, so it must be 0 (off) or "
            f"{smallest:.1e} to {largest:.1e}"
        )
    wide = np.asarray(q_descale, np.float64) * np.asarray(k_descale, np.float64)
    products = wide * (softmax_scale * LOG2_E)
    for product in (float(products.min(initial=1.0)), float(products.max(initial=1.0))):
        if not smallest <= product <= largest:
            raise ValueError(
                f"q_descale · k_descale · softmax_scale · log2(e) is {product:.1e} at some head; "
                f"the kernel computes in float32, so it must be {smallest:.1e} to {largest:.1e}"
            )


def check_positive(name: str, descale: NDArray[Any]) -> None:
    """Refuse descales that are not positive and finite.

    Raises:
        ValueError: one is not; the message quotes it.
    """
    bad = ~((descale > 0) & np.isfinite(descale))
    if bad.any():
        raise ValueError(f"{name} holds {descale[bad][0]}; descales are positive and finite")
