"""TMA copies against a reference that goes element by element."""

import itertools

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fa4kernel.emulator.tensor import tma
from fa4kernel.emulator.tensor.tensor_map import TensorMap


def elements(m, place):
    """Yield, for each element of a box in order, its index in the tensor or None."""
    steps = (1, *m.element_strides[1:])
    for index in itertools.product(*(range(n) for n in m.counts[::-1])):
        at = [c + i * s for c, i, s in zip(place, index[::-1], steps, strict=True)]
        inside = all(0 <= a < n for a, n in zip(at, m.dims, strict=True))
        yield tuple(at[::-1]) if inside else None


@st.composite
def maps(draw, least=-(2**31)):
    """A tensor of a random type, rank, shape and padding, a map of it, and box coordinates."""
    kind = np.dtype(draw(st.sampled_from(["u1", "u2", "f4", "f8"])))
    per_chunk = 16 // kind.itemsize
    rank = draw(st.integers(1, 5))
    chunks = draw(st.integers(1, 3))
    dims = [draw(st.integers(1, per_chunk * chunks))]
    dims += [draw(st.integers(1, 5)) for _ in range(rank - 1)]
    padded = [per_chunk * chunks + per_chunk * draw(st.integers(0, 1)), *dims[1:]]
    box = [per_chunk * draw(st.integers(1, 3))]
    box += [draw(st.integers(1, 4)) for _ in range(rank - 1)]
    steps = [draw(st.integers(1, 3)) for _ in range(rank)]
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    array = rng.integers(1, 100, padded[::-1]).astype(kind)
    order = tuple(range(rank))[::-1]
    tensor = array[..., : dims[0]]
    m = TensorMap.of(tensor, order, tuple(box), element_strides=tuple(steps))
    count = draw(st.integers(0, 4))
    reach = [st.integers(max(-b - 1, least), n + b) for n, b in zip(dims, box, strict=True)]
    reach[0] = reach[0].map(lambda x: x // per_chunk * per_chunk)  # of 16 bytes
    places = [[draw(at) for at in reach] for _ in range(count)]
    return m, array, np.array(places, np.int32).reshape(count, rank)


@settings(deadline=None)
@given(maps())
def test_a_loaded_box_holds_the_elements_that_exist_and_zeros(case):
    m, array, places = case
    boxes = tma.load_box(m, places)
    assert boxes.shape == (len(places), tma.bytes(m))
    for place, box in zip(places.tolist(), boxes, strict=True):
        expected = [array[i] if i is not None else 0 for i in elements(m, place)]
        assert box.view(array.dtype).tolist() == expected


@settings(deadline=None)
@given(maps(least=0), st.integers(0, 2**32))
def test_a_stored_box_changes_the_elements_that_exist_and_nothing_else(case, seed):
    m, array, places = case
    expected = array.copy()
    shape = (len(places), m.box_bytes // m.element_size)
    data = np.random.default_rng(seed).integers(100, 200, shape).astype(array.dtype)
    tma.store_box(m, places, data.view(np.uint8))
    for place, box in zip(places.tolist(), data, strict=True):
        for i, value in zip(elements(m, place), box, strict=True):
            if i is not None:
                expected[i] = value
    assert (array == expected).all()


@settings(deadline=None)
@given(maps(least=0))
def test_adding_reads_and_writes_the_same_elements_as_storing(case):
    m, array, places = case
    assume(m.dtype not in ("u8", "u16"))
    expected = array.copy()
    data = np.ones((len(places), m.box_bytes // m.element_size), array.dtype)
    tma.store_box(m, places, data.view(np.uint8), "add")
    for place in places.tolist():
        for i in elements(m, place):
            if i is not None:
                expected[i] += 1
    assert (array == expected).all()


@pytest.mark.parametrize(
    ("dtype", "kind", "bits"),
    [("f16", np.uint16, 0x7FF7), ("bf16", np.uint16, 0x7FF7), ("f32", np.uint32, 0x7FF77FF7)],
)
def test_outside_reads_as_nan_on_request(dtype, kind, bits):
    x = np.zeros((4, 16), kind).view(kind if dtype == "bf16" else dtype.replace("f", "float"))
    m = TensorMap(x, (16, 4), box=(16, 4), dtype=dtype, oob="nan")
    box = tma.load_box(m, np.array([[8, -1], [104, 0]])).view(kind).reshape(2, 4, 16)
    assert (box[0, 0] == bits).all()
    assert (box[0, 1:, :8] == 0).all()
    assert (box[0, 1:, 8:] == bits).all()
    assert (box[1] == bits).all()


def test_a_box_starts_at_a_multiple_of_16_bytes():
    m = TensorMap(np.arange(64, dtype=np.uint16), (64,), box=(8,))
    for at in (1, -4, 67):
        with pytest.raises(ValueError, match=f"starts at element {at} of 2 bytes"):
            tma.load_box(m, np.array([[at]]))
        with pytest.raises(ValueError, match=f"starts at element {at} of 2 bytes"):
            tma.store_box(m, np.array([[at]]), np.zeros((1, 16), np.uint8))


def test_a_box_is_stored_at_no_negative_coordinate():
    m = TensorMap(np.zeros((4, 8), np.uint16), (8, 4), box=(8, 2))
    with pytest.raises(ValueError, match="negative coordinates"):
        tma.store_box(m, np.array([[0, -1]]), np.zeros((1, 32), np.uint8))


def test_a_tensor_may_start_before_its_array_if_only_the_array_is_touched():
    # Ragged tensors shift the pointer back and the coordinate forward, modulo 2**64.
    x = np.arange(64, dtype=np.float32).reshape(4, 16)
    huge = 2**30
    m = TensorMap(x, (16, huge, huge), box=(16, 2, 1), strides=(64, 2**34 - 64), offset=-(2**34))
    at = [0, 1, 1]  # row 1 + (2**34 - 64) - 2**34 = row 0
    assert tma.load_box(m, np.array([at])).view(np.float32).tolist() == [x[:2].ravel().tolist()]
    wrapped = [0, huge - 2, huge - 1]
    with pytest.raises(IndexError, match="of an array of 256 bytes"):
        tma.load_box(m, np.array([wrapped]))


def test_addresses_wrap_at_64_bits():
    x = np.arange(64, dtype=np.float32).reshape(4, 16)
    m = TensorMap(x, (16, 2**30, 2**31), box=(16, 1, 1), strides=(64, 2**34))
    box = tma.load_box(m, np.array([[0, 2, 2**30]]))  # 2**34 * 2**30 = 2**64
    assert box.view(np.float32)[0].tolist() == x[2].tolist()


def test_touching_what_the_array_does_not_have_is_an_error():
    x = np.zeros((4, 16), np.float32)
    m = TensorMap(x, (16, 8), box=(16, 2))
    tma.load_box(m, np.array([[0, 2]]))
    with pytest.raises(IndexError, match="bytes 192 to 320 of an array of 256 bytes"):
        tma.load_box(m, np.array([[0, 3]]))
    with pytest.raises(IndexError, match="of an array of 256 bytes"):
        tma.store_box(m, np.array([[0, 4]]), np.zeros((1, 128), np.uint8))


def test_wrong_shapes_and_read_only_arrays_are_refused():
    x = np.zeros((4, 16), np.float32)
    m = TensorMap(x, (16, 4), box=(16, 2))
    with pytest.raises(ValueError, match=r"shape \(n, 2\)"):
        tma.load_box(m, np.zeros((1, 3), np.int32))
    with pytest.raises(ValueError, match="data must have shape"):
        tma.store_box(m, np.zeros((1, 2), np.int32), np.zeros((2, 128), np.uint8))
    x.setflags(write=False)
    with pytest.raises(ValueError, match="read-only"):
        tma.store_box(
            TensorMap(x, (16, 4), box=(16, 2)), np.zeros((1, 2), int), np.zeros((1, 128), np.uint8)
        )


@pytest.mark.parametrize("ftz", ["", "_ftz"])
def test_tf32_is_rounded_to_even_and_nothing_is_flushed(ftz):
    x = np.array([1e-40, 1 + 3 * 2.0**-11, 1 + 2.0**-11, np.nan], np.float32)
    place = np.array([[0]])
    kept = tma.load_box(TensorMap(x, (4,), box=(4,), dtype=f"f32{ftz}"), place)
    assert kept.tobytes() == x.tobytes()
    m = TensorMap(x.view(np.uint32), (4,), box=(4,), dtype=f"tf32{ftz}")
    rounded = tma.load_box(m, place).view(np.float32)[0]
    assert rounded[:3].tolist() == [float(np.uint32(0x12000).view(np.float32)), 1 + 2.0**-9, 1.0]
    assert rounded.view(np.uint32)[3] == 0x7FFFE000


def test_gather4_reads_four_rows_anywhere():
    x = np.arange(80, dtype=np.float32).reshape(10, 8)
    m = TensorMap(x, (8, 10), box=(4, 1))
    rows = tma.gather_rows(m, np.array([[4, 9, 0, -1, 9]])).view(np.float32).reshape(4, 4)
    assert rows.tolist() == [x[9, 4:].tolist(), x[0, 4:].tolist(), [0] * 4, x[9, 4:].tolist()]
    with pytest.raises(ValueError, match="one row high"):
        tma.gather_rows(TensorMap(x, (8, 10), box=(4, 2)), np.zeros((1, 5), int))
    with pytest.raises(ValueError, match=r"shape \(n, 5\)"):
        tma.gather_rows(m, np.zeros((1, 4), int))
