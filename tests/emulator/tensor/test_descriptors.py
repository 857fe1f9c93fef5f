"""Descriptors: what TMA writes into shared memory reads back as the logical matrix."""

import numpy as np
import pytest

from fa4kernel.emulator.tensor import swizzle, tma
from fa4kernel.emulator.tensor.descriptors import SmemDescriptor, read
from fa4kernel.emulator.tensor.tensor_map import TensorMap

CODES = {"none": 0, "128B_ATOM_32B": 1, "128B": 2, "64B": 4, "32B": 6}
WGMMA_CODES = {"none": 0, "128B": 1, "64B": 2, "32B": 3}
TYPES = {1: np.uint8, 2: np.uint16, 4: np.uint32}


def encoded(start, leading, stride, mode):
    """Return the 64 bits of a tcgen05 descriptor."""
    value = start >> 4 | (leading >> 4) << 16 | (stride >> 4) << 32
    return value | 1 << 46 | CODES[mode] << 61


def written(matrix, box, start, mode, columns):
    """Let TMA copy boxes of a matrix into shared memory, one after the other along dimension 0."""
    shared = np.zeros((2, 1 << 17), np.uint8)
    order = tuple(range(matrix.ndim))[::-1]
    m = TensorMap.of(matrix, order, box, mode)
    for i in range(columns):
        place = np.zeros((2, matrix.ndim), np.int64)
        place[:, 0] = i * box[0]
        data = tma.load_box(m, place)
        swizzle.write(shared, slice(None), start + i * m.box_bytes, data, mode)
    return shared, m.box_bytes


def matrix_of(size, *shape):
    bits = np.random.default_rng(size).integers(0, 256, (*shape, size), dtype=np.uint8)
    return bits.view(TYPES[size])[..., 0]


@pytest.mark.parametrize("mode", ["32B", "64B", "128B"])
@pytest.mark.parametrize("size", [1, 2, 4])
@pytest.mark.parametrize("start", [0, 5120])
def test_k_major_boxes_read_back_step_by_step_along_k(mode, size, start):
    width = swizzle.rule_of(mode).width // size
    matrix = matrix_of(size, 64, 2 * width)
    shared, box_bytes = written(matrix, (width, 64), start, mode, columns=2)
    k = 32 // size
    for first in range(0, 2 * width, k):
        at = start + first // width * box_bytes + first % width * size
        value = encoded(at, 16, 8 * width * size, mode)
        got = read(shared, SmemDescriptor.decode(value), 64, k, matrix.dtype)
        assert (got == matrix[:, first : first + k]).all()


@pytest.mark.parametrize("mode", ["32B", "64B", "128B"])
@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize("start", [0, 5120])
def test_mn_major_boxes_read_back_slab_by_slab(mode, size, start):
    width = swizzle.rule_of(mode).width // size
    rows = 128  # along MN
    matrix = matrix_of(size, 64, rows)  # (k, mn)
    shared, box_bytes = written(matrix, (width, 64), start, mode, columns=rows // width)
    k = 32 // size
    line = width * size
    for first in range(0, 64, k):
        value = encoded(start + first * line, box_bytes, 8 * line, mode)
        got = read(shared, SmemDescriptor.decode(value), rows, k, matrix.dtype, "MN")
        assert (got == matrix[first : first + k].T).all()


def test_mn_major_tf32_uses_atoms_of_32_bytes():
    matrix = matrix_of(4, 32, 64)
    shared, box_bytes = written(matrix, (32, 32), 2048, "128B_ATOM_32B", columns=2)
    for first in range(0, 32, 8):
        value = encoded(2048 + first * 128, box_bytes, 4 * 128, "128B_ATOM_32B")
        got = read(shared, SmemDescriptor.decode(value), 64, 8, matrix.dtype, "MN")
        assert (got == matrix[first : first + 8].T).all()


@pytest.mark.parametrize("size", [1, 2, 4])
def test_k_major_without_swizzle_reads_core_matrices(size):
    t = 16 // size
    matrix = matrix_of(size, 40, 4 * t)
    # One box per 16-byte column: 40 rows of 16 bytes.
    shared, box_bytes = written(matrix, (t, 40), 256, "none", columns=4)
    for first in (0, 2):
        d = SmemDescriptor.decode(encoded(256 + first * box_bytes, box_bytes, 128, "none"))
        got = read(shared, d, 40, 2 * t, matrix.dtype)
        assert (got == matrix[:, first * t : (first + 2) * t]).all()


@pytest.mark.parametrize("size", [1, 2])
def test_mn_major_without_swizzle_swaps_the_strides(size):
    t = 16 // size
    k = 32 // size
    matrix = matrix_of(size, k, 4 * t)
    shared, box_bytes = written(matrix, (t, k), 256, "none", columns=4)
    d = SmemDescriptor.decode(encoded(256, 128, box_bytes, "none"))
    assert (read(shared, d, 4 * t, k, matrix.dtype, "MN") == matrix.T).all()


def test_v_of_one_cta_is_two_slabs_16384_bytes_apart():
    # 128 keys by 128 columns of bf16 as FA4 loads them: two boxes of 64 columns.
    v = matrix_of(2, 128, 128)
    shared, box_bytes = written(v, (64, 128), 4096, "128B", columns=2)
    assert box_bytes == 16384
    for step in range(8):
        lo = (4096 + 2048 * step) >> 4 | 1024 << 16
        d = SmemDescriptor.decode(0x40004040 << 32 | lo)
        assert (d.leading, d.stride) == (16384, 1024)
        got = read(shared, d, 128, 16, v.dtype, "MN")
        assert (got == v[16 * step : 16 * step + 16].T).all()


def test_q_of_fa4_steps_by_two_and_then_to_the_next_slab():
    q = matrix_of(2, 128, 128)
    shared, _ = written(q, (64, 128), 1024, "128B", columns=2)
    for step, units in enumerate([0, 2, 4, 6, 0x400, 0x402, 0x404, 0x406]):
        d = SmemDescriptor.decode(0x40004040 << 32 | 1 << 16 | (64 + units))
        got = read(shared, d, 128, 16, q.dtype)
        assert (got == q[:, 16 * step : 16 * step + 16]).all()


@pytest.mark.parametrize("mode", WGMMA_CODES)
def test_hopper_descriptors_say_the_same_in_other_bits(mode):
    blackwell = SmemDescriptor.decode(encoded(1024, 4096, 512, mode))
    value = 1024 >> 4 | (4096 >> 4) << 16 | (512 >> 4) << 32 | WGMMA_CODES[mode] << 62
    assert SmemDescriptor.decode_wgmma(value) == blackwell


@pytest.mark.parametrize("mode", CODES)
@pytest.mark.parametrize("major", ["K", "MN"])
@pytest.mark.parametrize("size", [1, 2, 4])
def test_chunks_and_offsets_agree(mode, major, size):
    d = SmemDescriptor(2048, 8192, 1024, mode)
    try:
        offsets = d.offsets(64, 32 // size, size, major)
    except ValueError:
        assert size == 4 or mode == "128B_ATOM_32B"
        return
    chunks = d.chunks(64, 32 // size, size, major)
    elements = 16 * chunks[..., None] + size * np.arange(16 // size)
    elements = elements.reshape(len(chunks), -1)
    assert (offsets == (elements if major == "K" else elements.T)).all()
    assert len(np.unique(offsets)) == offsets.size


@pytest.mark.parametrize("base", range(8))
def test_a_base_offset_moves_the_pattern(base):
    # A buffer swizzled relative to its own start, which is not aligned to the pattern.
    start = 8192 + 128 * base
    plain = SmemDescriptor(8192, 16, 1024, "128B").offsets(32, 16, 2)
    moved = SmemDescriptor(start, 16, 1024, "128B", base_offset=base).offsets(32, 16, 2)
    assert (moved - start == plain - 8192).all()
    decoded = SmemDescriptor.decode(encoded(start, 16, 1024, "128B") | base << 49)
    assert decoded.base_offset == base


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (1 << 46, "bits 46 to 48"),
        (1 << 47, "bits 46 to 48"),
        (1 << 52, "needs sm_103"),
        (1 << 60, "bits 53 to 60"),
        (1 << 61, "swizzle mode 3 is invalid"),
    ],
)
def test_forbidden_bits_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        SmemDescriptor.decode(encoded(0, 16, 1024, "128B") ^ change)


def test_what_has_no_layout_is_refused():
    d = SmemDescriptor(0, 1024, 1024, "128B")
    with pytest.raises(ValueError, match="multiple of 8, not 12"):
        d.offsets(12, 16, 2)
    with pytest.raises(ValueError, match="1, 2 or 4 bytes, not 8"):
        d.offsets(8, 16, 8)
    with pytest.raises(ValueError, match="not made of 16-byte chunks"):
        d.chunks(8, 32, 1, "MN")
    with pytest.raises(IndexError, match="of a shared memory of 4096 bytes"):
        read(np.zeros((1, 4096), np.uint8), d, 64, 16, np.dtype(np.uint16))
