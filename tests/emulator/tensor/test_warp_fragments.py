"""Fragments of ``mma.sync``: every element has exactly one place in the warp."""

from __future__ import annotations

import numpy as np
import pytest

from fa4kernel.emulator.tensor.fragments import Elements, wgmma_a, wgmma_accumulator
from fa4kernel.emulator.tensor.warp_fragments import warp_a, warp_b, warp_c

A_SHAPES = [(16, 16, 2), (16, 8, 2), (16, 8, 4), (16, 4, 4), (16, 32, 1), (16, 16, 1), (8, 16, 1),
            (8, 4, 8), (16, 4, 8), (16, 8, 8), (16, 16, 8)]  # fmt: skip


def counts(where: Elements, shape: tuple[int, int]) -> np.ndarray:
    """How often each element of a matrix is held."""
    found = np.zeros(shape, int)
    np.add.at(found, (where.row, where.column), 1)
    return found


@pytest.mark.parametrize(("m", "k", "size"), A_SHAPES)
def test_each_element_of_a_is_held_once(m: int, k: int, size: int) -> None:
    assert (counts(warp_a(m, k, size), (m, k)) == 1).all()


@pytest.mark.parametrize(("k", "size"), sorted({(k, size) for _, k, size in A_SHAPES}))
def test_each_element_of_b_is_held_once(k: int, size: int) -> None:
    assert (counts(warp_b(k, size), (k, 8)) == 1).all()


@pytest.mark.parametrize("m", [8, 16])
def test_each_element_of_c_is_held_once(m: int) -> None:
    assert (counts(warp_c(m), (m, 8)) == 1).all()


@pytest.mark.parametrize("size", [1, 2, 4])
def test_a_warp_of_a_warpgroup_holds_a_as_a_warp_alone_does(size: int) -> None:
    alone, group = warp_a(16, 32 // size, size), wgmma_a(size)
    np.testing.assert_array_equal(group.row[:32], alone.row)
    np.testing.assert_array_equal(group.column[:32], alone.column)


def test_a_warp_of_a_warpgroup_holds_d_as_a_warp_alone_does() -> None:
    alone, group = warp_c(16), wgmma_accumulator(8)
    np.testing.assert_array_equal(group.row[:32], alone.row)
    np.testing.assert_array_equal(group.column[:32], alone.column)
