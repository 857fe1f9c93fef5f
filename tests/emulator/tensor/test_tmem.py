"""Tensor memory: fragments, accumulators and the operand A are one-to-one and where they belong."""

import numpy as np
import pytest

from fa4kernel.emulator.tensor import tmem

SHAPES = [
    (shape, num)
    for shape, per in tmem.REGISTERS.items()
    for num in (1, 2, 4, 8, 16, 32, 64, 128)
    if per * num <= 128
]

# Thread and value layouts of one repetition, (shape):(stride) over the bits of the 16- or 32-lane
# block that the shape names, as CUTLASS states them (cute/atom/copy_traits_sm100.hpp).
BITS = {
    "16x256b": (256, ((4, 64), (8, 256)), ((64, 1), (2, 2048))),
    "16x128b": (128, ((4, 32), (8, 128)), ((32, 1), (2, 1024))),
    "16x64b": (64, ((2, 512), (2, 32), (8, 64)), ((32, 1),)),
    "16x32bx2": (64, ((16, 64), (2, 32)), ((32, 1),)),
    "32x32b": (32, ((32, 32),), ((32, 1),)),
}


def position(index, layout):
    """Evaluate a (shape):(stride) layout at an index, first mode fastest."""
    total = 0
    for size, stride in layout:
        total += index % size * stride
        index //= size
    return total


@pytest.mark.parametrize("shape", BITS)
def test_one_repetition_is_the_layout_of_cutlass(shape):
    width, threads, values = BITS[shape]
    places = tmem.fragment(shape, 1, half_split=1)
    for t in range(32):
        for r in range(places.lane.shape[1]):
            bit = position(t, threads) + position(32 * r, values)
            assert (places.lane[t, r], places.column[t, r]) == (bit // width, bit % width // 32)


@pytest.mark.parametrize(("shape", "num"), SHAPES)
@pytest.mark.parametrize("packed", [False, True])
def test_a_fragment_covers_its_block_once(shape, num, packed):
    step = 2 if packed else 1
    split = num * step if shape == "16x32bx2" else 0
    places = tmem.fragment(shape, num, half_split=split, packed=packed)
    registers = tmem.registers(shape, num)
    assert places.lane.shape == places.column.shape == (32, registers)
    lanes = 32 if shape == "32x32b" else 16
    columns = 32 * registers // lanes
    cells = set(zip(places.lane.ravel().tolist(), places.column.ravel().tolist(), strict=True))
    assert cells == {(i, step * j) for i in range(lanes) for j in range(columns)}
    spanned = tmem.fragment_columns(shape, num, half_split=split, packed=packed)
    assert spanned == step * columns


@pytest.mark.parametrize(("shape", "num"), [s for s in SHAPES if s[1] > 1 and s[0] != "16x32bx2"])
def test_repetitions_lie_side_by_side(shape, num):
    one, many = tmem.fragment(shape, 1), tmem.fragment(shape, num)
    width = int(one.column.max()) + 1
    count = one.lane.shape[1]
    for i in range(num):
        part = slice(i * count, (i + 1) * count)
        assert (many.lane[:, part] == one.lane).all()
        assert (many.column[:, part] == one.column + i * width).all()


def test_the_second_half_starts_where_the_instruction_says():
    places = tmem.fragment("16x32bx2", 4, half_split=100)
    assert (places.column[16:] - places.column[:16] == 100).all()
    assert (places.lane[16:] == places.lane[:16]).all()


def test_maps_cannot_be_changed_by_accident():
    with pytest.raises(ValueError, match="read-only"):
        tmem.fragment("32x32b", 1).lane[0, 0] = 1


@pytest.mark.parametrize(
    ("shape", "num"), [("16x256b", 64), ("16x128b", 128), ("32x32b", 3), ("64x32b", 1)]
)
def test_unknown_shapes_and_repetitions_are_refused(shape, num):
    with pytest.raises(ValueError, match=shape):
        tmem.fragment(shape, num)


@pytest.mark.parametrize("warp", range(8))
def test_a_warp_reaches_only_its_quarter(warp):
    for shape in tmem.REGISTERS:
        reached = set()
        for lane in range(0, 128, 4):
            try:
                tmem.check_access(shape, warp, lane << 16 | 7)
            except ValueError:
                continue
            height = int(tmem.fragment(shape, 1).lane.max()) + 1
            reached.update(range(lane, lane + height))
        assert reached == set(range(32 * (warp % 4), 32 * (warp % 4) + 32))


LAYOUTS = [
    (256, 2, False),
    (128, 2, False),
    (128, 1, False),
    (128, 1, True),
    (64, 1, True),
    (64, 1, False),
    (32, 1, True),
]


@pytest.mark.parametrize(("m", "cta_group", "ws"), LAYOUTS)
@pytest.mark.parametrize("n", [64, 128, 256])
def test_an_accumulator_fills_its_columns_once(m, cta_group, ws, n):
    places = tmem.accumulator(m, n, cta_group, ws)
    rows = m // cta_group
    assert places.lane.shape == (rows, n)
    cells = set(zip(places.lane.ravel().tolist(), places.column.ravel().tolist(), strict=True))
    assert len(cells) == rows * n
    half = (m, cta_group, ws) == (64, 1, False)
    lanes = [i for i in range(128) if not half or i % 32 < 16]
    columns = rows * n // len(lanes)
    assert cells == {(i, j) for i in lanes for j in range(columns)}


def test_a_full_accumulator_is_read_row_by_row():
    # Thread t of warp w loads row 32 w + t with 32x32b.
    d = np.arange(128 * 64).reshape(128, 64)
    memory = np.zeros((128, 64), int)
    places = tmem.accumulator(128, 64)
    memory[places.lane, places.column] = d
    for warp in range(4):
        lane, column = tmem.fragment("32x32b", 64)
        assert (memory[lane + 32 * warp, column] == d[32 * warp : 32 * warp + 32]).all()


def test_a_pair_of_128_rows_splits_the_columns_over_the_lanes():
    places = tmem.accumulator(128, 256, cta_group=2)
    assert places.lane[10].tolist() == [10] * 128 + [74] * 128
    assert places.column[10].tolist() == [*range(128), *range(128)]


@pytest.mark.parametrize(("m", "cta_group", "ws"), LAYOUTS)
def test_a_stands_in_the_lanes_whose_results_it_makes(m, cta_group, ws):
    n = 64
    d = tmem.accumulator(m, n, cta_group, ws)
    copies = tmem.copies_of_a(m, cta_group, ws)
    for copy in range(copies):
        a = tmem.packed_a(m, 32, cta_group, ws, copy)
        assert a.lane.shape == (m // cta_group, 8)
        columns = slice(copy * n // copies, (copy + 1) * n // copies)
        assert (d.lane[:, columns] == a.lane[:, :1]).all()
        assert (a.column == np.arange(8)).all()


def test_words_of_a_hold_its_elements_in_order():
    a = np.random.default_rng(0).integers(0, 2**16, (128, 16), dtype=np.uint16)
    memory = np.zeros((128, 512), np.uint32)
    places = tmem.packed_a(128, 32)
    memory[places.lane, places.column + 8] = a.view(np.uint32)
    assert memory[5, 9] == int(a[5, 2]) | int(a[5, 3]) << 16
    assert (memory[places.lane, places.column + 8].view(np.uint16) == a).all()


@pytest.mark.parametrize(
    ("m", "cta_group", "ws"), [(64, 2, False), (256, 1, False), (32, 1, False), (128, 2, True)]
)
def test_layouts_that_do_not_exist_are_refused(m, cta_group, ws):
    with pytest.raises(ValueError, match=f"m = {m} and cta_group::{cta_group}"):
        tmem.accumulator(m, 64, cta_group, ws)
    with pytest.raises(ValueError, match="there is no"):
        tmem.packed_a(m, 32, cta_group, ws)


def test_a_copy_of_a_that_does_not_exist_is_refused():
    with pytest.raises(ValueError, match="copy 1 of A does not exist"):
        tmem.packed_a(128, 32, copy=1)
