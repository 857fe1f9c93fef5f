from itertools import groupby

import numpy as np
import pytest

pytest.importorskip("fa4kernel.examples", reason="needs the CuTe DSL: pip install 'fa4sim[kernel]'")

from fa4kernel.examples import ring
from fa4kernel.examples.gemm import SLOT_BYTES
from fa4kernel.examples.matrices import matrix
from fa4kernel.examples.ring import K, M, N
from tests.examples.products import arrivals, multiply, signs, work

EXACT = [(2 * M, 2 * N, 2 * K), (3 * M, N, 4 * K)]
RAGGED = [(M, N, 5), (1, 1, 1), (200, 300, 5 * K - 3)]


@pytest.fixture(scope="module")
def compiled():
    return ring.compile_ptx()


@pytest.mark.parametrize("ctas", [1, 2])
@pytest.mark.parametrize("m, n, k", EXACT + RAGGED)
def test_the_product_is_right_to_the_last_bit_where_bf16_can_hold_it(compiled, rng, m, n, k, ctas):
    a, b = signs(rng, m, n, k)
    c, _ = multiply(compiled, a, b, ctas=ctas)
    assert np.array_equal(c, ring.reference(a, b))


def test_ctas_without_a_tile_end_without_harm(compiled, rng):
    a, b = signs(rng, 2 * M, N, K)
    c, _ = multiply(compiled, a, b, ctas=5)
    assert np.array_equal(c, ring.reference(a, b))


def test_other_products_are_rounded_once(compiled, rng):
    a, b = (matrix(rng.normal(size=(rows, 300))) for rows in (M, N))
    c, _ = multiply(compiled, a, b)
    exact = ring.reference(a, b)
    assert (np.abs(c - exact) <= 2**-8 * np.abs(exact) + 1e-4).all()


@pytest.mark.parametrize("schedule", [1, 2, 3])
def test_the_order_in_which_warps_and_units_run_does_not_matter(compiled, rng, schedule):
    a, b = signs(rng, 3 * M, N, 5 * K)
    c, _ = multiply(compiled, a, b, ctas=1, schedule=schedule)
    assert np.array_equal(c, ring.reference(a, b))


def test_each_cta_does_its_tiles_and_the_ring_runs_on_from_one_to_the_next(compiled, rng):
    blocks, tiles = 5, {0: 2, 1: 1}
    _, run = multiply(compiled, *signs(rng, 3 * M, N, blocks * K), ctas=2, trace=True)
    for cta, mine in tiles.items():
        turns = mine * blocks
        assert work(run, "tma")[cta] == 2 * turns
        assert work(run, "tensor")[cta] == 4 * turns
        assert work(run, "tma_store")[cta] == 2 * mine
        assert arrivals(run, "full")[cta] == (turns, turns * SLOT_BYTES)
        assert arrivals(run, "empty")[cta] == (turns, 0)
        assert arrivals(run, "summed")[cta] == (mine, 0)
        assert arrivals(run, "carried")[cta] == (128 * mine, 0)


def test_a_sum_is_carried_out_while_the_next_one_grows(compiled, rng):
    _, run = multiply(compiled, *signs(rng, 3 * M, N, 5 * K), ctas=1, trace=True)
    spans, arrive = run.trace.span, run.trace.arrive
    mmas = [
        (op.split()[1], start)
        for op, unit, start in zip(
            spans.text("op"), spans.text("unit"), spans["start"], strict=True
        )
        if unit == "tensor"
    ]
    assert [total for total, _ in groupby(mmas, lambda mma: mma[0])] == ["D@0", "D@128", "D@0"]
    first_of_second_tile = next(start for total, start in mmas if total == "D@128")
    carried = np.array(arrive.text("barrier")) == "carried"
    assert first_of_second_tile < arrive["time"][carried].min()
