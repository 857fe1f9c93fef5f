"""The memory behind an array, whatever its strides."""

import numpy as np
import pytest

from fa4kernel.emulator.tensor.memory import first_byte, memory_of

X = np.arange(24, dtype=np.uint16).reshape(4, 6)


@pytest.mark.parametrize("view", [X, X[1:3, 2:5], X[::-1, ::2], X.T[:, ::-2], X[2:3, 4], X[1, 1:1]])
def test_the_first_byte_is_the_first_element(view):
    memory = memory_of(view)
    assert np.shares_memory(memory, view) or view.size == 0
    at = first_byte(view)
    found = memory[at : at + 2].view(np.uint16) if view.size else memory
    assert found.tolist() == view.ravel()[:1].tolist()


def test_memory_spans_no_more_than_the_elements():
    assert memory_of(X[1:3, 2:5]).size == 2 * (6 + 3)
    assert memory_of(X[::2, ::-1]).size == 2 * (12 + 6)
    assert memory_of(X[1, 1:1]).size == 0


def test_writing_the_memory_writes_the_array():
    x = np.zeros(3, np.uint16)
    memory_of(x[::-1])[0] = 9
    assert x.tolist() == [9, 0, 0]


def test_memory_of_a_read_only_array_cannot_be_written():
    x = np.zeros(3)
    x.setflags(write=False)
    assert not memory_of(x).flags.writeable
