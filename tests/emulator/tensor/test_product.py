"""The product in its arithmetics."""

from __future__ import annotations

import numpy as np
import pytest

from fa4kernel.emulator.tensor import formats
from fa4kernel.emulator.tensor.product import product


@pytest.mark.parametrize("architecture", [None, "sm_90a", "sm_100a"])
@pytest.mark.parametrize(("kind", "k"), [("bf16", 16), ("f16", 8), ("tf32", 4), ("e4m3", 16)])
def test_whole_numbers_are_exact_in_every_arithmetic(
    kind: str, k: int, architecture: str | None
) -> None:
    rng = np.random.default_rng(k)
    a, b, c = rng.integers(-3, 4, (2, 16, k)), rng.integers(-3, 4, (2, k, 8)), np.ones((2, 16, 8))
    raw = [formats.encode(x.astype(np.float32), kind) for x in (a, b)]
    found = product(
        *raw, (kind, kind, "f32"), c.astype(np.float32),
        architecture=architecture,  # type: ignore[arg-type]
    )  # fmt: skip
    np.testing.assert_array_equal(found, a @ b + 1)


def test_the_rounding_model_cuts_what_the_fast_product_keeps() -> None:
    """1 + 3 * 2**-25: float32 rounds to the next number, a tensor core cuts."""
    a = formats.encode(np.float32([[1, 2**-13]]), "bf16")
    b = formats.encode(np.float32([[1], [3 * 2**-12]]), "bf16")
    kinds = ("bf16", "bf16", "f32")
    assert product(a, b, kinds)[0, 0] == np.float32(1 + 2**-23)
    assert product(a, b, kinds, architecture="sm_100a")[0, 0] == np.float32(1)
