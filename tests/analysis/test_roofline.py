"""Lower bounds: the paper's table, and that no simulated run beats them."""

import pytest

from fa4sim.analysis import Rates, Work, binding, block_work, bounds, format_bounds, steady_state
from tests.analysis.runs import run_of


@pytest.mark.parametrize(
    "m, n, d, mma, smem, exp",
    [(128, 128, 128, 1024, 768, 1024), (256, 128, 128, 2048, 1536, 2048)],
)
def test_the_paper_s_table(m, n, d, mma, smem, exp):
    limits = bounds(block_work(m, n, d))
    assert (limits["tensor"], limits["smem"], limits["mufu"]) == (mma, smem, exp)


def test_a_pair_reads_half_of_k_and_v():
    assert bounds(block_work(128, 128, 128, cta_group=2))["smem"] == 512


def test_twice_the_exponentials_per_cycle_leave_the_tensor_pipe_binding():
    limits = bounds(block_work(128, 128, 128), Rates(mufu_exps_per_cycle=32))
    assert limits["mufu"] == 512
    assert binding(limits) == ("tensor", 1024)


def test_the_polynomial_takes_exponentials_off_the_mufu():
    assert bounds(block_work(128, 128, 128, emulated=0.25))["mufu"] == 768


def test_small_heads_are_bound_by_exponentials_and_large_ones_by_the_tensor_pipe():
    assert binding(bounds(block_work(256, 128, 64)))[0] == "mufu"
    assert binding(bounds(block_work(256, 128, 192, 128)))[0] == "tensor"


def test_rows_that_do_not_fill_an_mma_cost_as_much_as_if_they_did():
    assert block_work(1, 128, 128) == block_work(128, 128, 128)


def test_bytes_are_bounds_too():
    limits = bounds(Work(l2_bytes=3600, hbm_bytes=3600), Rates(hbm_bytes_per_cycle=20))
    assert limits["l2"] == 100 and binding(limits) == ("hbm", 180)


@pytest.mark.parametrize(
    "name", ["pair", "one CTA", "causal", "one Q tile", "d=64", "d=16", "(192,128)", "slow MUFU"]
)
def test_no_simulated_block_is_faster_than_its_roofline(name):
    run = run_of(name)
    work = block_work(
        run.design.work_rows,
        run.design.tile_n,
        run.design.head_dim_padded,
        run.design.head_dim_v_padded,
        element_bytes=run.problem.element_bytes,
        cta_group=run.design.cta_group,
        emulated=run.design.emulated_share,
    )
    rates = Rates(mufu_exps_per_cycle=128 / run.machine.mufu_cycles_per_warp)
    unit, least = binding(bounds(work, rates))
    assert steady_state(run.trace).period >= least, unit


def test_the_text_is_sorted_and_relates_to_a_time():
    limits = bounds(block_work(128, 128, 128))
    assert format_bounds(limits).splitlines()[1].split() == ["tensor", "1,024"]
    assert format_bounds(limits, 2048).splitlines()[1].split() == ["tensor", "1,024", "50.0%"]


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: block_work(0, 128, 128), "m=0 must be positive"),
        (lambda: block_work(128, 128, 128, -1), "dv=-1 must be positive"),
        (lambda: block_work(128, 128, 128, cta_group=3), "cta_group=3 must be 1 or 2"),
        (lambda: block_work(128, 128, 128, emulated=2), "emulated=2 is a fraction"),
        (lambda: Work(hbm_bytes=-5), "hbm_bytes=-5 must be 0 or more"),
        (lambda: Rates(smem_bytes_per_cycle=0), "smem_bytes_per_cycle=0 must be a positive"),
        (lambda: binding({}), "no limits to choose from"),
    ],
)
def test_numbers_that_make_no_sense_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
