"""Errors: how far one array is from another, in one number."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def relative_error(a: NDArray[Any], b: NDArray[Any]) -> float:
    """Return ‖a - b‖ / ‖b‖ over all elements, 0 if both are 0.

    >>> relative_error(np.array([3.0, 0.0]), np.array([3.0, 4.0]))
    0.8
    """
    norm = float(np.linalg.norm(b))
    off = float(np.linalg.norm(a.astype(np.float64) - b))
    return off / norm if norm else float(off > 0)


def cosine(a: NDArray[Any], b: NDArray[Any]) -> float:
    """Return the cosine of the angle between two arrays taken as vectors, 1 if both are 0.

    >>> round(cosine(np.array([1.0, 1.0]), np.array([2.0, 0.0])), 6)
    0.707107
    """
    a, b = a.astype(np.float64).ravel(), b.astype(np.float64).ravel()
    norms = float(np.linalg.norm(a) * np.linalg.norm(b))
    return float(a @ b) / norms if norms else float(not a.any() and not b.any())
