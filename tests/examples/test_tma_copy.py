import numpy as np
import pytest

pytest.importorskip("fa4kernel.examples", reason="needs the CuTe DSL: pip install 'fa4sim[kernel]'")

from fa4kernel.emulator import emulate
from fa4kernel.examples import tma_copy
from fa4kernel.examples.tma_copy import COLUMNS, ROWS, TILE_BYTES
from tests.examples.products import arrivals, work

SIZES = [(ROWS, COLUMNS), (3 * ROWS, 2 * COLUMNS), (1, 1), (ROWS + 1, COLUMNS - 1), (200, 150)]


@pytest.fixture(scope="module")
def compiled():
    return tma_copy.compile_ptx()


def framed(rows, columns):
    """A matrix inside a larger one of ones, whose pitch is a multiple of 16 bytes."""
    whole = np.ones((rows + 2, -(-columns // 4) * 4 + 4), np.float32)
    return whole, whole[1 : rows + 1, :columns]


@pytest.mark.parametrize("rows, columns", SIZES)
def test_the_matrix_is_copied_and_nothing_around_it(compiled, rng, rows, columns):
    source = framed(rows, columns)[1]
    source[:] = rng.normal(size=source.shape)
    whole, target = framed(rows, columns)
    emulate(compiled.ptx, compiled.launch(source, target))
    assert np.array_equal(target, tma_copy.reference(source))
    target[:] = 1
    assert (whole == 1).all()


def test_matrices_of_different_shapes_are_refused(compiled):
    with pytest.raises(ValueError, match=r"target has shape \(4, 8\), source \(8, 4\)"):
        compiled.launch(np.ones((8, 4), np.float32), np.ones((4, 8), np.float32))


@pytest.mark.parametrize("schedule", ["lockstep", 1, 2])
def test_each_tile_is_one_load_one_store_and_one_phase_whole_even_at_the_edge(compiled, schedule):
    source, target = np.zeros((2, ROWS + 1, 2 * COLUMNS), np.float32)
    run = emulate(compiled.ptx, compiled.launch(source, target), schedule=schedule, trace=True)
    assert not run.hazards
    assert work(run, "tma") == work(run, "tma_store") == dict.fromkeys(range(4), 1)
    assert arrivals(run, "barrier") == dict.fromkeys(range(4), (1, TILE_BYTES))
