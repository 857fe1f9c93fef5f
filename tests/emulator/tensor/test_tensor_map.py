"""Tensor maps: what the driver would refuse is refused, and the memory meant is the array's."""

import numpy as np
import pytest

from fa4kernel.emulator.tensor.tensor_map import TensorMap, dtype_of

X = np.zeros((4, 64, 64), np.float16)


def test_the_default_layout_is_compact_and_typed_by_the_array():
    m = TensorMap(X, (64, 64, 4), box=(64, 16, 1))
    assert (m.rank, m.dtype, m.strides, m.element_strides) == (3, "f16", (128, 8192), (1, 1, 1))
    assert m.box_bytes == 2048


def test_a_map_of_an_array_takes_its_own_strides():
    x = np.zeros((2, 10, 4, 64), np.uint16)[:, ::2]
    m = TensorMap.of(x, (3, 1, 2, 0), (64, 4, 1, 1), "128B", dtype="bf16")
    assert m.dims == (64, 5, 4, 2)
    assert m.strides == (1024, 128, 5120)
    assert m.swizzle == "128B"


def test_an_axis_of_length_one_gets_a_legal_stride():
    x = np.zeros((1, 3, 8), np.float16)
    m = TensorMap.of(x, (2, 0, 1), (8, 1, 1))
    assert m.strides[0] % 16 == 0
    assert m.strides[1] == 16


def test_element_strides_shrink_a_box():
    m = TensorMap(X, (64, 64, 4), box=(64, 9, 4), element_strides=(3, 2, 4))
    # Dimension 0 has no stride without interleave.
    assert m.counts == (64, 5, 1)
    assert m.box_bytes == 64 * 5 * 2


def test_maps_are_equal_only_to_themselves():
    a, b = (TensorMap(X, (64, 64, 4), box=(64, 16, 1)) for _ in range(2))
    assert a != b
    assert len({a, b}) == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dims": ()}, "1 to 5 dimensions"),
        ({"dims": (1,) * 6}, "1 to 5 dimensions"),
        ({"dims": (64, 0, 4)}, "must lie in 1 to 2"),
        ({"box": (64, 16)}, "box .* must have 3 entries"),
        ({"box": (64, 257, 1)}, "must lie in 1 to 256"),
        ({"box": (64, 2.5, 1)}, "box .* must be whole numbers"),
        ({"box": (4, 16, 1)}, "8 bytes wide; it must be a multiple of 16"),
        ({"box": (128, 16, 1), "swizzle": "128B"}, "swizzle 128B allows 128"),
        ({"box": (32, 16, 1), "swizzle": "32B"}, "swizzle 32B allows 32"),
        ({"strides": (128,)}, "strides .* must have 2 entries"),
        ({"strides": (120, 8192)}, "multiples of 16 bytes"),
        ({"strides": (128, 2**40)}, "below 2"),
        ({"element_strides": (1, 9, 1)}, "must lie in 1 to 8"),
        ({"element_strides": (1, 1)}, "element_strides .* must have 3 entries"),
        ({"dtype": "f32"}, "has 4 bytes, but the array's elements"),
        ({"dtype": "fp16"}, "element type 'fp16' is not known"),
        ({"swizzle": "256B"}, "swizzle '256B' is not known"),
        ({"interleave": "16B"}, "not modelled"),
        ({"oob": "one"}, "oob 'one' is not known"),
        ({"oob": "nan", "dtype": "u16"}, "needs a floating-point type"),
        ({"offset": 8}, "multiple of 16 bytes"),
    ],
)
def test_what_the_driver_refuses_is_refused(change, message):
    arguments = {"dims": (64, 64, 4), "box": (64, 16, 1)} | change
    with pytest.raises(ValueError, match=message):
        TensorMap(X, **arguments)


def test_an_order_must_be_a_permutation_with_a_contiguous_axis_first():
    with pytest.raises(ValueError, match="name each of the 3 axes once"):
        TensorMap.of(X, (2, 1), (64, 16))
    with pytest.raises(ValueError, match="must be contiguous along dimension 0"):
        TensorMap.of(X, (1, 2, 0), (64, 16, 1))


@pytest.mark.parametrize("array", [[[1.0]], np.float32(1), np.zeros(())], ids=repr)
def test_only_arrays_have_maps(array):
    with pytest.raises(ValueError, match="must be a NumPy array of 1 to 5 axes"):
        TensorMap.of(array, (0,), (16,))


def test_an_array_of_another_type_needs_a_name():
    assert dtype_of(np.zeros(1, np.uint8)) == "u8"
    with pytest.raises(ValueError, match="no element type for complex64"):
        dtype_of(np.zeros(1, np.complex64))


def test_memory_is_the_array_and_writing_it_changes_the_array():
    x = np.zeros((4, 16), np.float32)
    m = TensorMap(x[::-1], (16, 4), box=(16, 1))
    assert m.memory.size == x.nbytes
    assert m.origin == 3 * 64
    m.memory[m.origin : m.origin + 4] = np.float32(7).reshape(1).view(np.uint8)
    assert x[3, 0] == 7


def test_memory_of_a_read_only_array_is_read_only():
    x = np.zeros((4, 16), np.float32)
    x.setflags(write=False)
    assert not TensorMap(x, (16, 4), box=(16, 1)).memory.flags.writeable
