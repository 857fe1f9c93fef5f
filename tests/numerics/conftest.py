"""Seeded inputs and an exact rounding, shared by the tests of fa4sim.numerics."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from fa4sim.numerics import round_to


@pytest.fixture
def normal() -> Callable[..., NDArray[np.float32]]:
    """Return a maker of normal arrays of 16-bit values: normal(shape..., seed=, std=, dtype=)."""

    def make(
        *shape: int, seed: int = 0, std: float = 1.0, dtype: str = "bf16"
    ) -> NDArray[np.float32]:
        values = np.random.default_rng(seed).standard_normal(shape) * std
        return round_to(values.astype(np.float32), dtype)

    return make


@pytest.fixture(scope="session")
def nearest_float32() -> Callable[[Fraction], np.float32]:
    """Return a function that rounds a fraction to the nearest float32, ties to even, exactly."""

    def nearest(value: Fraction) -> np.float32:
        if value == 0:
            return np.float32(0)
        exponent = -149
        while abs(value) >= Fraction(2) ** (exponent + 24):
            exponent += 1
        rounded = round(value / Fraction(2) ** exponent) * Fraction(2) ** exponent
        with np.errstate(over="ignore"):
            return np.float32(float(rounded))

    return nearest
