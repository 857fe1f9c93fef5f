"""What FP8 values are multiplied by: a factor for each sequence and K/V head, of Q, K and V."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fa4sim.numerics.kinds import in_numpy
from fa4sim.numerics.scales import check_scales
from fa4sim.specs import FP8, Problem

#: As callers name them, in the order in which the kernel takes them.
NAMES = ("q_descale", "k_descale", "v_descale")


def checked(given: Mapping[str, Any], problem: Problem) -> NDArray[np.float32] | None:
    """The factors of a call, float32 (3, batch, kv_heads); None if it gives none.

    Args:
        given: by `NAMES`, each (batch, kv_heads), NumPy's or PyTorch's, or None for ones.
        problem: of the call.

    Raises:
        ValueError: values of 16 bits have no factors; a factor has another shape, or is not
            positive and finite; or scores would be multiplied by more, or less, than float32 holds.
    """
    there = [name for name in NAMES if given.get(name) is not None]
    if not there:
        return None
    if problem.dtype not in FP8:
        raise ValueError(
            f"{there[0]} is given, but q is {problem.dtype}: only FP8 is descaled "
            f"({', '.join(FP8)}); leave it out"
        )
    assert problem.kv_heads is not None
    shape = problem.batch, problem.kv_heads
    factors = np.stack([_factors(name, given.get(name), shape) for name in NAMES])
    scale = problem.head_dim**-0.5 if problem.softmax_scale is None else problem.softmax_scale
    check_scales(scale, 0.0, factors[0], factors[1])
    return factors


def _factors(name: str, given: Any, shape: tuple[int, int]) -> NDArray[np.float32]:
    """One array of factors."""
    if given is None:
        return np.ones(shape, np.float32)
    values = in_numpy(name, given, "float32")
    if values.dtype != np.float32:
        raise ValueError(f"{name} is {values.dtype}; it must be float32")
    if values.shape != shape:
        raise ValueError(
            f"{name} has shape {values.shape}; it must be (batch, kv_heads), here {shape}"
        )
    wrong = values[~(np.isfinite(values) & (values > 0))]
    if wrong.size:
        raise ValueError(f"{name} has {wrong[0]} in it; factors must be positive and finite")
    return np.ascontiguousarray(values)
