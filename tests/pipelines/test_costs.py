"""What things cost, to the cycle: counts of instructions and bytes, and what whole runs take.

The published rows leave room in which a wrong cost hides, so costs are compared with figures of the
paper and of the kernel here, and some runs with the cycles they took when that was written down. A
change that is meant to alter times renews :data:`CYCLES` with what the test then says; one that is
not, and fails here, has altered them by mistake.
"""

from __future__ import annotations

from typing import Any

import pytest

from fa4sim import B200, Design, Problem, simulate
from fa4sim.pipelines.fa4.costs import correction_costs, mma_costs, softmax_costs
from fa4sim.pipelines.fa4.gpu import make_plan
from fa4sim.pipelines.fa4.votes import RescaleVotes

WHOLE = Problem(heads=2, seqlen_q=1024)
PAIR, SINGLE = (Design.for_problem(WHOLE, B200, cta_group=size) for size in (2, 1))


@pytest.mark.parametrize(("design", "smem"), [(SINGLE, 768), (PAIR, 512)], ids=["single", "pair"])
def test_the_gemms_of_a_block_take_the_papers_cycles(design: Design, smem: int) -> None:
    # arXiv 2603.05451, section 3.1: 1024 cycles of the tensor pipe per 128 x 128 x 128 block, 768
    # of shared memory; an SM of a pair reads half of K and half of V.
    costs = mma_costs(WHOLE, design, B200)
    assert costs.qk_steps * costs.qk_cycles + costs.pv_steps * costs.pv_cycles == 1024
    assert costs.qk_steps * costs.qk_smem + costs.pv_steps * costs.pv_smem == smem


def test_a_softmax_step_issues_what_the_compiled_kernel_does() -> None:
    costs = softmax_costs(WHOLE, SINGLE, B200)
    groups = [group for row in costs.fragments for group in row]
    emulated = round(SINGLE.emulated_share * 128)
    assert emulated == 16
    assert sum(group.mufu for group in groups) == (128 - emulated) * 8
    # Per pair of columns a packed multiply-add and a conversion; then one MUFU instruction for
    # each exponential, or five of the polynomial.
    assert sum(group.issue for group in groups) == 64 + 64 + (128 - emulated) + 5 * emulated
    assert sum(group.issue for group in costs.row_max) == 64
    assert sum(group.issue for group in costs.row_sum) == 64
    assert (costs.stats.issue, costs.overhead.issue, costs.overhead.alu) == (14, 38, 26)
    dependent, mufu = B200.dependent_issue_cycles, B200.mufu_latency_cycles
    assert costs.stats_latency == 8 * dependent + mufu > 0
    assert costs.exp2_latency == dependent + mufu > 0
    assert (costs.loads_in_flight, costs.loads_in_flight_masked) == (3, 2)


def test_where_rows_keep_no_old_maximum_there_is_no_test_for_it() -> None:
    # Machine code of the FP8 kernels: no comparison with the threshold, and no select behind it.
    for design in (SINGLE, SINGLE.replace(WHOLE, B200, rescale_threshold=0.5)):
        never = design.replace(WHOLE, B200, rescale_threshold=0.0)
        kept, not_kept = (softmax_costs(WHOLE, d, B200) for d in (design, never))
        assert kept.stats.issue - not_kept.stats.issue == 4
        assert kept.stats.alu - not_kept.stats.alu == round(4 * B200.alu_cycles_per_warp)
        assert kept.stats_latency - not_kept.stats_latency == B200.dependent_issue_cycles


def test_softcap_takes_a_tanh_for_every_score() -> None:
    costs = softmax_costs(Problem(softcap=30.0), SINGLE, B200)
    assert sum(group.mufu for group in costs.softcap) == 128 * 8
    assert softmax_costs(WHOLE, SINGLE, B200).softcap == ()


def test_o_leaves_tmem_through_a_port_of_shared_memory() -> None:
    costs = correction_costs(WHOLE, SINGLE, B200)
    # 32 rows of 16 columns of 2 bytes at 128 bytes per cycle, 8 times.
    assert (costs.chunks, costs.final_smem) == (8, 8)
    # From registers: an eighth of a tile of 32 KiB for each of four warps.
    assert (costs.gmem_chunks, costs.gmem_smem) == (8, 8)
    assert costs.gmem_latency == B200.smem_latency_cycles + 4 * B200.dependent_issue_cycles


@pytest.mark.parametrize(
    ("head_dim", "capability", "softcap", "by_load"),
    [(128, 103, 0.0, True), (64, 103, 0.0, True), (32, 103, 0.0, False), (128, 103, 9.0, False),
     (128, 100, 0.0, False)],
)  # fmt: skip
def test_the_row_maximum_comes_with_the_load_on_sm_103_only(
    head_dim: int, capability: int, softcap: float, by_load: bool
) -> None:
    machine = B200.with_constants(compute_capability=capability, mufu_cycles_per_warp=4)
    problem = Problem(head_dim=head_dim, softcap=softcap)
    design = Design.for_problem(problem, machine)
    assert softmax_costs(problem, design, machine).row_max_by_load is by_load
    # A fast MUFU alone doesn't make a B300 of it.
    assert (design.exp2_period == 0) is (capability == 103)


def test_without_a_threshold_a_maximum_grows_less_and_less_often() -> None:
    problem = Problem(seqlen_q=256, seqlen_k=128 * 400)
    design = Design.for_problem(problem, B200, rescale_threshold=0.0)
    (tile,) = make_plan(problem, design, B200).tiles
    shares = []
    for first, last in ((1, 20), (100, 160), (300, 400)):
        drawn = [
            RescaleVotes(problem, design, seed).rescales(tile, step, 0, 0, warp)
            for seed in range(20) for step in range(first, last) for warp in range(4)
        ]  # fmt: skip
        wanted = [1 - (step / (step + 1)) ** 32 for step in range(first, last)]
        shares.append(sum(drawn) / len(drawn))
        assert shares[-1] == pytest.approx(sum(wanted) / len(wanted), abs=0.03)
    assert shares == sorted(shares, reverse=True)


def test_every_byte_of_q_k_v_and_o_passes_hbm_once() -> None:
    problem = Problem(heads=2, seqlen_q=1024, seqlen_k=512)
    totals = _totals(problem, {"cta_group": 1})
    q_and_o, k_and_v = 2 * 2 * 1024 * 128 * 2, 2 * 2 * 512 * 128 * 2
    assert totals.hbm_bytes == q_and_o + k_and_v
    assert totals.l2_bytes == q_and_o + 4 * k_and_v  # four work tiles of 256 queries read K and V


#: Cycles of the kernel's span by (problem, what is changed in the kernel's own design).
CYCLES: dict[str, tuple[Problem, dict[str, Any], int]] = {
    "pair": (Problem(seqlen_q=512, seqlen_k=1024), {}, 28134),
    "causal": (Problem(seqlen_q=1024, causal=True), {}, 29483),
    "softcap": (Problem(seqlen_q=256, seqlen_k=1024, softcap=30.0), {}, 44795),
    "uneven ring": (
        Problem(seqlen_q=512, seqlen_k=1024, head_dim=192, head_dim_v=128),
        {"cta_group": 1},
        34344,
    ),
    "head dim 64": (Problem(seqlen_q=256, seqlen_k=1024, head_dim=64), {}, 25259),
    "O from registers": (
        Problem(heads=2, seqlens_q=(256, 100), seqlens_k=(700, 640)),
        {},
        24827,
    ),
    "fp8": (Problem(seqlen_q=512, seqlen_k=2048, dtype="e4m3", causal=True), {}, 48823),
    "no threshold": (Problem(seqlen_q=256, seqlen_k=2048), {"rescale_threshold": 0.0}, 53445),
    "pairs in turn": (
        Problem(heads=80, seqlen_q=512, seqlen_k=512),
        {"scheduler": "single_tile"},
        35552,
    ),
    "two waves": (Problem(heads=40, seqlen_q=1024, causal=True), {}, 32112),
}


@pytest.mark.parametrize("name", CYCLES)
def test_a_run_takes_the_cycles_it_took(name: str) -> None:
    problem, changes, cycles = CYCLES[name]
    design = Design.for_problem(problem, B200, **changes)
    assert simulate(problem, design).report.cycles == cycles


@pytest.mark.parametrize(
    ("constant", "name"),
    [("cta_turnover_pair_cycles", "pairs in turn"), ("setmaxnreg_cycles", "head dim 64"),
     ("exp2_polynomial_issue_slots", "head dim 64"), ("smem_latency_cycles", "O from registers")],
)  # fmt: skip
def test_a_constant_that_is_halved_shows_in_the_time(constant: str, name: str) -> None:
    problem, changes, cycles = CYCLES[name]
    machine = B200.with_constants(**{constant: int(getattr(B200, constant)) // 2})
    design = Design.for_problem(problem, machine, **changes)
    assert simulate(problem, design, machine).report.cycles < cycles


def _totals(problem: Problem, changes: dict[str, Any]) -> Any:
    run = simulate(problem, Design.for_problem(problem, B200, **changes))
    assert run.gpu is not None
    return run.gpu.totals
