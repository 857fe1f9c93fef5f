"""Views of boxes: the same part of many at once, found by start byte."""

import gc
import weakref

import numpy as np
import pytest

from fa4kernel.emulator.tensor.boxes import parts_of, windows
from fa4kernel.emulator.tensor.tensor_map import TensorMap

X = np.arange(1, 1 + 4 * 6 * 8, dtype=np.float32).reshape(4, 6, 8)
MAP = TensorMap(X, (8, 6, 4), box=(4, 3, 2), element_strides=(1, 2, 1))


def values(items):
    """Return runs of bytes as float32, one axis more."""
    return np.ascontiguousarray(items)[..., None].view(np.float32)


def test_windows_are_the_boxes_that_start_at_each_byte():
    start = X[2, 1, 4:].__array_interface__["data"][0] - X.__array_interface__["data"][0]
    box = values(windows(MAP, (4, 2, 2))[start])
    assert (box == X[2:4, 1:4:2, 4:8]).all()


def test_a_box_larger_than_its_memory_has_no_window():
    small = np.zeros((2, 8), np.float32)
    assert len(windows(TensorMap(small, (8, 2), box=(8, 4)), (8, 4))) == 0


def test_an_array_is_let_go_with_its_map():
    m = TensorMap(np.zeros((2, 8), np.float32), (8, 2), box=(8, 1))
    windows(m, (8, 1))
    memory = weakref.ref(m.array)
    del m
    gc.collect()
    assert memory() is None


def test_whole_boxes_are_one_part():
    [part] = parts_of(MAP, np.array([[4, 1, 2], [0, 3, 0]]))
    assert (part.first, part.counts) == ((0, 0, 0), (4, 2, 2))
    assert part.members.tolist() == [0, 1]
    found = values(part.of_memory(MAP)[part.starts])
    assert (found == [X[2:4, 1:4:2, 4:8], X[:2, 3:6:2, :4]]).all()


@pytest.mark.parametrize(
    ("place", "exists", "inside"),
    [
        ([-2, -1, -1], np.s_[:1, 1:2, :2], np.s_[1:, 1:, 2:]),
        ([6, 5, 3], np.s_[3:, 5:, 6:], np.s_[:1, :1, :2]),
        ([3, 4, 2], np.s_[2:, 4:5, 3:7], np.s_[:, :1, :]),
    ],
)
def test_a_cut_box_keeps_what_exists_on_every_side(place, exists, inside):
    boxes = np.zeros((2, MAP.box_bytes), np.uint8)
    [part] = parts_of(MAP, np.array([[-4, 0, 0], place]))
    assert part.members.tolist() == [1]
    part.of_boxes(MAP, boxes)[part.members] = part.of_memory(MAP)[part.starts]
    dense = boxes.view(np.float32).reshape(2, 2, 2, 4)
    assert (dense[1][inside] == X[exists]).all()
    assert np.count_nonzero(dense) == X[exists].size


def test_boxes_cut_alike_are_moved_together():
    places = np.array([[6, 0, 0], [0, 0, 0], [6, 1, 2], [-1, 0, 0]])
    members = [part.members.tolist() for part in parts_of(MAP, places)]
    assert members == [[0, 2], [1], [3]]


def test_nothing_is_left_of_a_box_outside():
    places = [[8, 0, 0], [-4, 0, 0], [0, -3, 0], [0, 6, 0], [0, 0, 4], [0, 0, -2]]
    assert parts_of(MAP, np.array(places)) == []
    assert parts_of(MAP, np.zeros((0, 3), np.int64)) == []
