"""Register fragments of wgmma hold every element once, in the documented pattern."""

import numpy as np
import pytest

from fa4kernel.emulator.tensor.fragments import wgmma_a, wgmma_accumulator


@pytest.mark.parametrize("n", range(8, 257, 8))
def test_the_accumulator_is_spread_once_over_the_warpgroup(n):
    d = wgmma_accumulator(n)
    assert d.row.shape == d.column.shape == (128, n // 2)
    cells = set(zip(d.row.ravel().tolist(), d.column.ravel().tolist(), strict=True))
    assert cells == {(i, j) for i in range(64) for j in range(n)}


def test_the_accumulator_follows_its_formula():
    d = wgmma_accumulator(128)
    t, r = np.arange(128)[:, None], np.arange(64)[None, :]
    assert (d.row == 16 * (t // 32) + t % 32 // 4 + 8 * (r // 2 % 2)).all()
    assert (d.column == 8 * (r // 4) + 2 * (t % 4) + r % 2).all()


@pytest.mark.parametrize("size", [1, 2, 4])
def test_a_in_registers_is_spread_once_over_the_warpgroup(size):
    a = wgmma_a(size)
    k = 32 // size
    assert a.row.shape == (128, 16 // size)
    cells = set(zip(a.row.ravel().tolist(), a.column.ravel().tolist(), strict=True))
    assert cells == {(i, j) for i in range(64) for j in range(k)}
    # A register is four bytes of one row.
    rows, columns = (x.reshape(128, 4, 4 // size) for x in a)
    assert (rows == rows[..., :1]).all()
    assert (columns - columns[..., :1] == np.arange(4 // size)).all()


def test_a_of_half_precision_has_the_pattern_of_the_accumulator():
    a, d = wgmma_a(2), wgmma_accumulator(16)
    assert (a.row == d.row).all()
    assert (a.column == d.column).all()


def test_other_sizes_are_refused():
    with pytest.raises(ValueError, match="multiple of 8 from 8 to 256, not 12"):
        wgmma_accumulator(12)
    with pytest.raises(ValueError, match="not 8"):
        wgmma_a(8)
