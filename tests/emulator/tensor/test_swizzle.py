"""Swizzles: permutations that spread columns over banks, the same for writing and reading."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fa4kernel.emulator.tensor import swizzle

MODES = list(swizzle.RULES)
PERIOD = {
    "none": 16,
    "32B": 256,
    "64B": 512,
    "128B": 1024,
    "128B_ATOM_32B": 512,
    "128B_ATOM_32B_FLIP_8B": 512,
    "128B_ATOM_64B": 256,
}


@pytest.mark.parametrize("mode", MODES)
def test_a_swizzle_undoes_itself_within_each_line(mode):
    addresses = np.arange(8192)
    swizzled = swizzle.apply(addresses, mode)
    assert (swizzle.apply(swizzled, mode) == addresses).all()
    assert (swizzled // 128 == addresses // 128).all()


@pytest.mark.parametrize("mode", MODES)
def test_atoms_stay_whole_and_in_order(mode):
    atom = 8 if mode.endswith("FLIP_8B") else swizzle.rule_of(mode).atom
    swizzled = swizzle.apply(np.arange(8192), mode).reshape(-1, atom)
    assert (np.diff(swizzled, axis=1) == 1).all()


@pytest.mark.parametrize("mode", MODES)
def test_the_pattern_repeats_after_its_period_and_not_before(mode):
    period = PERIOD[mode]
    moved = swizzle.apply(np.arange(8192), mode) - np.arange(8192)
    assert (moved[period:] == moved[:-period]).all()
    if period > 128:
        assert (moved[period // 2 :] != moved[: -period // 2]).any()


def test_the_lines_of_the_manual():
    # PTX ISA 5.5.7: which chunk of a row stands first in each of the first lines.
    firsts = {
        "32B": [0, 1],
        "64B": [0, 1, 2, 3],
        "128B": [0, 1, 2, 3, 4, 5, 6, 7],
        "128B_ATOM_32B": [0, 2, 4, 6],
        "128B_ATOM_64B": [0, 4],
    }
    for mode, chunks in firsts.items():
        places = swizzle.chunk_permutation(0, 128 * len(chunks), mode).reshape(-1, 8)
        for line, chunk in enumerate(chunks):
            assert places[line, chunk] == 8 * line


def test_eight_rows_of_a_column_lie_in_different_banks():
    column = np.arange(8) * 128 + 48
    assert len(set(swizzle.apply(column, "128B") % 128 // 16)) == 8
    assert len(set(swizzle.apply(column, "none") % 128 // 16)) == 1


def test_flipping_swaps_the_halves_of_chunks_in_odd_lines():
    plain = swizzle.apply(np.arange(2048), "128B_ATOM_32B")
    flipped = swizzle.apply(np.arange(2048), "128B_ATOM_32B_FLIP_8B")
    odd = np.arange(2048) // 128 % 2 == 1
    assert (flipped[~odd] == plain[~odd]).all()
    assert (flipped[odd] == plain[odd] ^ 8).all()


@given(
    st.sampled_from(MODES),
    st.integers(0, 120),
    st.integers(1, 130),
    st.booleans(),
    st.integers(0, 2**32),
)
def test_what_is_written_is_read_back_and_nothing_else_changes(mode, start, chunks, some, seed):
    rng = np.random.default_rng(seed)
    shared = rng.integers(0, 256, (4, 4096), dtype=np.uint8)
    before = shared.copy()
    ctas = np.array([2, 0]) if some else slice(None)
    box = rng.integers(0, 256, (2 if some else 4, 16 * chunks), dtype=np.uint8)
    swizzle.write(shared, ctas, 16 * start, box, mode)
    assert (swizzle.read(shared, ctas, 16 * start, 16 * chunks, mode) == box).all()
    places = swizzle.apply(np.arange(16 * start, 16 * (start + chunks)), mode)
    before[ctas if not some else ctas[:, None], places] = box
    assert (shared == before).all()


def test_chunks_are_those_that_write_uses():
    shared = np.zeros((1, 4096), np.uint8)
    box = np.random.default_rng(0).integers(0, 256, (1, 2048), dtype=np.uint8)
    swizzle.write(shared, slice(None), 1024, box, "128B")
    chunks = swizzle.chunk_permutation(1024, 2048, "128B")
    assert (shared.reshape(-1, 16)[chunks] == box.reshape(-1, 16)).all()


def test_what_does_not_fit_is_refused():
    shared = np.zeros((1, 1024), np.uint8)
    with pytest.raises(IndexError, match="outside shared memory of 1024 bytes"):
        swizzle.write(shared, slice(None), 960, np.zeros((1, 128), np.uint8), "32B")
    with pytest.raises(IndexError, match="outside shared memory"):
        swizzle.read(shared, slice(None), 1024, 16, "none")
    with pytest.raises(ValueError, match="multiples of 16"):
        swizzle.read(shared, slice(None), 8, 16, "none")
    with pytest.raises(ValueError, match="splits 16-byte chunks"):
        swizzle.chunk_permutation(0, 1024, "128B_ATOM_32B_FLIP_8B")
    with pytest.raises(ValueError, match="swizzle '96B' is not known"):
        swizzle.apply(np.arange(4), "96B")
