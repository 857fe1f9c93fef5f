import numpy as np
import pytest

pytest.importorskip("fa4kernel.examples", reason="needs the CuTe DSL: pip install 'fa4sim[kernel]'")

from fa4kernel.examples import gemm
from fa4kernel.examples.gemm import K, M, N
from fa4kernel.examples.matrices import matrix
from tests.examples.products import arrivals, multiply, signs, work

EXACT = [(M, N, K), (2 * M, 2 * N, 4 * K)]
RAGGED = [(M, N, 5), (1, 1, 1), (M + 1, N - 1, K + 8), (200, 300, 7 * K - 3)]


@pytest.fixture(scope="module")
def compiled():
    return gemm.compile_ptx()


@pytest.mark.parametrize("m, n, k", EXACT + RAGGED)
def test_the_product_is_right_to_the_last_bit_where_bf16_can_hold_it(compiled, rng, m, n, k):
    a, b = signs(rng, m, n, k)
    c, _ = multiply(compiled, a, b)
    assert np.array_equal(c, gemm.reference(a, b))


def test_other_products_are_rounded_once(compiled, rng):
    a, b = (matrix(rng.normal(size=(rows, 300))) for rows in (M, N))
    c, _ = multiply(compiled, a, b)
    exact = gemm.reference(a, b)
    assert (np.abs(c - exact) <= 2**-8 * np.abs(exact) + 1e-4).all()


@pytest.mark.parametrize("stages", [2, 6])
def test_any_ring_that_fits_gives_the_same(rng, stages):
    a, b = signs(rng, M, N, 5 * K)
    c, _ = multiply(gemm.compile_ptx(stages), a, b)
    assert np.array_equal(c, gemm.reference(a, b))


def test_a_ring_that_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="stages=7: the ring has 2 to 6 slots"):
        gemm.compile_ptx(stages=7)


@pytest.mark.parametrize("schedule", [1, 2, 3])
def test_the_order_in_which_warps_and_units_run_does_not_matter(compiled, rng, schedule):
    a, b = signs(rng, M + 1, N, 6 * K)
    c, _ = multiply(compiled, a, b, schedule=schedule)
    assert np.array_equal(c, gemm.reference(a, b))


def test_each_block_is_loaded_multiplied_and_released_once(compiled, rng):
    blocks = 7
    _, run = multiply(compiled, *signs(rng, 2 * M, N, blocks * K - 1), trace=True)
    assert work(run, "tma") == {cta: 2 * blocks for cta in (0, 1)}
    assert work(run, "tensor") == {cta: 4 * blocks for cta in (0, 1)}
    assert work(run, "tma_store") == {0: 2, 1: 2}  # slabs of 64 columns
    full = blocks, blocks * gemm.SLOT_BYTES  # a ragged block counts whole
    assert arrivals(run, "full") == {0: full, 1: full}
    assert arrivals(run, "empty") == {0: (blocks, 0), 1: (blocks, 0)}
    assert arrivals(run, "done") == {0: (1, 0), 1: (1, 0)}
