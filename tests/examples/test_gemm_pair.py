import numpy as np
import pytest

pytest.importorskip("fa4kernel.examples", reason="needs the CuTe DSL: pip install 'fa4sim[kernel]'")

from fa4kernel.examples import gemm, gemm_pair
from fa4kernel.examples.gemm_pair import K, M, N
from fa4kernel.examples.matrices import matrix
from tests.examples.products import arrivals, multiply, signs, work

EXACT = [(M, N, K), (2 * M, N, 4 * K)]
RAGGED = [(M // 2, N // 2, 5), (1, 1, 1), (M + 1, N - 1, K + 8), (200, 300, 7 * K - 3)]


@pytest.fixture(scope="module")
def compiled():
    return gemm_pair.compile_ptx()


@pytest.mark.parametrize("m, n, k", EXACT + RAGGED)
def test_the_product_is_right_to_the_last_bit_where_bf16_can_hold_it(compiled, rng, m, n, k):
    a, b = signs(rng, m, n, k)
    c, _ = multiply(compiled, a, b)
    assert np.array_equal(c, gemm_pair.reference(a, b))


def test_other_products_are_rounded_once(compiled, rng):
    a, b = (matrix(rng.normal(size=(rows, 300))) for rows in (M, N))
    c, _ = multiply(compiled, a, b)
    exact = gemm_pair.reference(a, b)
    assert (np.abs(c - exact) <= 2**-8 * np.abs(exact) + 1e-4).all()


def test_a_pair_has_the_shared_memory_of_two_single_ctas_per_slot_and_twice_the_tile():
    assert gemm_pair.PAIR_BYTES == 2 * gemm.SLOT_BYTES
    assert gemm_pair.M * gemm_pair.N == 4 * gemm.M * gemm.N


def test_a_ring_that_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="stages=6: the ring has 2 to 5 slots"):
        gemm_pair.compile_ptx(stages=6)


@pytest.mark.parametrize("schedule", [1, 2, 3])
def test_the_order_in_which_warps_and_units_run_does_not_matter(compiled, rng, schedule):
    a, b = signs(rng, M + 1, N, 6 * K)
    c, _ = multiply(compiled, a, b, schedule=schedule)
    assert np.array_equal(c, gemm_pair.reference(a, b))


def test_both_load_the_leader_counts_and_multiplies_and_both_hear_of_it(compiled, rng):
    blocks = 7
    _, run = multiply(compiled, *signs(rng, M, N, blocks * K), trace=True)
    assert work(run, "tma") == {0: 2 * blocks, 1: 2 * blocks}
    assert work(run, "tensor") == {0: 4 * blocks}
    assert work(run, "tma_store") == {0: 4, 1: 4}
    assert arrivals(run, "full") == {0: (blocks, blocks * gemm_pair.PAIR_BYTES)}
    assert arrivals(run, "empty") == {0: (blocks, 0), 1: (blocks, 0)}
    assert arrivals(run, "done") == {0: (1, 0), 1: (1, 0)}
