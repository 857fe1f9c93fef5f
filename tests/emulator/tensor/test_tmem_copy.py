"""Copies from shared to tensor memory: every lane gets the row it should."""

import numpy as np
import pytest

from fa4kernel.emulator.tensor.tmem_copy import copy_shape, shift_down


@pytest.mark.parametrize("shape", ["128x256b", "128x128b"])
def test_full_copies_go_straight_down(shape):
    moved = copy_shape(shape)
    assert (moved.source == moved.lane).all()
    assert (moved.lane == np.arange(128)).all()
    assert moved.words == (8 if shape == "128x256b" else 4)


@pytest.mark.parametrize(
    ("shape", "multicast", "quarters"),
    [
        ("64x128b", "warpx2::02_13", [0, 1, 0, 1]),
        ("64x128b", "warpx2::01_23", [0, 0, 1, 1]),
        ("32x128b", "warpx4", [0, 0, 0, 0]),
    ],
)
def test_multicast_copies_give_each_warp_its_part(shape, multicast, quarters):
    moved = copy_shape(shape, multicast)
    assert moved.rows == int(shape[:2])
    assert (moved.lane == np.arange(128)).all()
    for warp, quarter in enumerate(quarters):
        part = moved.source[32 * warp : 32 * warp + 32]
        assert (part == 32 * quarter + np.arange(32)).all()


def test_the_narrow_copy_refreshes_one_lane_of_each_quarter():
    moved = copy_shape("4x256b")
    assert moved.rows == 4
    assert moved.lane.tolist() == [0, 32, 64, 96]


@pytest.mark.parametrize(
    ("shape", "multicast"),
    [("64x128b", ""), ("32x128b", "warpx2::02_13"), ("128x256b", "warpx4"), ("16x128b", "")],
)
def test_copies_without_their_multicast_are_refused(shape, multicast):
    with pytest.raises(ValueError, match=f"tcgen05.cp.*{shape}"):
        copy_shape(shape, multicast)


def test_a_shift_leaves_only_the_last_lane_as_it_was():
    block = np.random.default_rng(0).integers(0, 2**32, (2, 32, 8), dtype=np.uint32)
    shifted = shift_down(block)
    assert (shifted[:, :31] == block[:, 1:]).all()
    assert (shifted[:, 31] == block[:, 31]).all()
