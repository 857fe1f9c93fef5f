"""Inputs of the notebook about 8-bit inputs, and checks of its exercises."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from checks import UNANSWERED, Answer, _raised, _wrong

from fa4sim.numerics import LARGEST, amax_descale, attention_blockwise, quantize, round_to


def normal_inputs(
    queries: int, keys: int, dtype: str = "fp32", std: float = 1.0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """q, k, v of one head of dim 128, normal numbers rounded to ``dtype``; q has deviation ``std``.

    Shapes are (1, queries, 1, 128) and (1, keys, 1, 128); the seed is 0.
    """
    rng = np.random.default_rng(0)
    q = rng.standard_normal((1, queries, 1, 128)) * std
    k, v = rng.standard_normal((2, 1, keys, 1, 128))
    q, k, v = (round_to(x.astype(np.float32), dtype) for x in (q, k, v))
    return q, k, v


# -- 12: 8 bits ------------------------------------------------------------------------------------


def _arrays() -> dict[str, np.ndarray]:
    """Arrays (keys, head_dim) to quantise, by what is special about them."""
    rng = np.random.default_rng(12)
    normal = rng.standard_normal((50, 16))
    return {
        "normal numbers": normal,
        "numbers of a thousandth": normal / 1000,
        "numbers of ten thousand": normal * 1e4,
        "numbers whose largest is negative": -np.abs(normal),
        "zeros": np.zeros((4, 8)),
    }


def check_quantize(quantise: Callable[[np.ndarray], Any]) -> Answer:
    """Exercise 12.1: ``quantise(x)`` gives e4m3 values and the descale they were divided by."""
    for name, x in _arrays().items():
        try:
            given = quantise(x.copy())
        except Exception as error:
            return _raised(error)
        if given is None:
            return UNANSWERED
        message = _quantize_message(name, x, given)
        if message:
            return _wrong(message)
    return Answer(
        True, "Values and descale are those of the simulator, for small numbers and large, and 0."
    )


def _quantize_message(name: str, x: np.ndarray, given: Any) -> str | None:
    if not isinstance(given, tuple | list) or len(given) != 2:
        return "Return two things: the values and the descale."
    values, descale = np.asarray(given[0]), given[1]
    if values.shape != x.shape or np.ndim(descale) != 0:
        return f"The values must have the shape of x, {x.shape}, and the descale is one number."
    arrays = x[None, :, None]
    right = amax_descale(arrays, "e4m3")
    expected, true = quantize(arrays, right, "e4m3")[0, :, 0], float(right[0, 0])
    descale = float(descale)
    if not (math.isfinite(descale) and np.isfinite(values).all()):
        return f"For {name} there is a NaN or an infinity in your answer: what do you divide by?"
    if name == "zeros" and descale == 0:
        return "For zeros your descale is 0. It must be positive: any will do, take 1."
    if name != "zeros" and np.isclose(descale, 1 / true, rtol=1e-4):
        return (
            "Your descale is the factor that you multiplied by. The kernel multiplies the result "
            "*back* by the descale, so it must be what you divided by."
        )
    if name != "zeros" and descale < 0.99 * true:
        lost = np.count_nonzero(np.abs(x / descale) > 1.01 * LARGEST["e4m3"])
        hint = " The largest in magnitude is negative." if -x.min() > x.max() else ""
        return (
            f"For {name} your descale of {descale:.3g} is too small: {lost} of {x.size} elements "
            f"saturate at 448.{hint}"
        )
    if name != "zeros" and descale > 1.01 * true:
        return (
            f"For {name} your descale of {descale:.3g} leaves room: the largest magnitude becomes "
            f"{np.abs(x).max() / descale:.3g}, and the format ends at 448."
        )
    if not np.allclose(values, expected, rtol=0.13, atol=0.01):
        return f"For {name} the descale is right but the values aren't x divided by it."
    if not np.allclose(values, expected, rtol=1e-6, atol=0):
        return (
            f"For {name} some values are no e4m3 numbers; round them, with "
            '`round_to(values, "e4m3")` on float32.'
        )
    return None


@cache
def arriving(rise: float, offset: int, threshold: float) -> float:
    """What share of its weight a key brings into the output: measured on the kernel's arithmetic.

    Two blocks: the one processed first has a single key of score 0, the other 128, of which one
    exceeds it by ``rise`` powers of two, has value 1, and all others value 0.
    """
    q = np.zeros((1, 1, 1, 32), np.float32)
    k, v = np.zeros((2, 1, 129, 1, 32), np.float32)
    q[..., 0] = 1
    k[0, 5, 0, 0], v[0, 5, 0, 0] = rise, 1
    out, _ = attention_blockwise(
        q, k, v, dtype="e4m3", softmax_scale=math.log(2), max_offset=offset, threshold=threshold,
        allow_saturation=True, tile_m=32, q_stage=1,
    )  # fmt: skip
    return float(out[0, 0, 0, 0]) * (2.0**rise + 128) / 2.0**rise


CASES = [(r, o, t) for o in (8, 4, 0) for t in (0.0, 0.75, 4.0, 8.0) for r in (0, 1, 2, 3, 4, 6)]


def check_arriving(share: Callable[[float, int, float], Any]) -> Answer:
    """Exercise 12.2: ``share(rise, offset, threshold)`` of a key's weight that arrives, 0 to 1."""
    given = {}
    for case in CASES:
        try:
            given[case] = share(*case)
        except Exception as error:
            return _raised(error)
    if all(value is None for value in given.values()):
        return UNANSWERED
    for case, value in given.items():
        true = arriving(*case)
        if not isinstance(value, (int, float, np.number)) or not math.isclose(
            float(value), true, rel_tol=0.02
        ):
            return _wrong(_arriving_message(case, value, true))
    return Answer(
        True, f"The kernel's arithmetic agrees in all {len(CASES)} cases, to the rounding of bf16."
    )


def _arriving_message(case: tuple[float, int, float], value: Any, true: float) -> str:
    rise, offset, threshold = case
    where = f"A key {rise} above the reference, offset {offset}, threshold {threshold:g}"
    start = f"{where}: you say {value}, and {true:.3g} arrives."
    if not isinstance(value, (int, float, np.number)):
        return f"{start} Return a number for every case."
    if rise > threshold:
        return (
            f"{start} A rise above the threshold makes the key the new reference: what is P then?"
        )
    if value > 1:
        return f"{start} No key brings more than its own weight; what doesn't saturate brings all."
    return f"{start} How large is P for this key, and how much of that can e4m3 hold?"
