"""The steady state: periods and durations per K/V block."""

import pytest

from fa4sim.analysis import format_durations, op_durations, steady_state
from fa4sim.trace import Trace
from tests.analysis.runs import run_of

LONG = ["pair", "one CTA", "causal", "one Q tile", "d=64", "(192,128)", "fp8", "slow MUFU"]


@pytest.mark.parametrize("name", LONG)
def test_what_a_warp_does_in_a_block_adds_up_to_the_period(name):
    trace = run_of(name).trace
    steady = steady_state(trace)
    per_role = {}
    for row in op_durations(trace, steady):
        per_role[row.role] = per_role.get(row.role, 0.0) + row.per_block
    for role in ("softmax0", "correction", "mma", "load"):
        assert per_role[role] == pytest.approx(steady.period)
    # A deep ring may have everything by then; nothing is loaded faster than it is used.
    for unit in {"tensor", "tma"} & set(per_role):
        assert 0 < per_role[unit] <= steady.period + 1e-9


@pytest.mark.parametrize("name", LONG)
def test_means_lie_between_the_extremes(name):
    for row in op_durations(run_of(name).trace):
        assert row.least <= row.mean <= row.most


@pytest.mark.parametrize("name, q_tiles", [("pair", 2), ("causal", 2), ("one Q tile", 1)])
def test_a_block_of_d_128_takes_at_least_its_tensor_time(name, q_tiles):
    assert steady_state(run_of(name).trace).period >= 1024 * q_tiles


def test_a_warp_exponentiates_four_fragments_of_every_block():
    # The first one in two goes: the statistics are signalled in between.
    trace = run_of("pair").trace
    steady = steady_state(trace)
    rows = {(row.role, row.op): row for row in op_durations(trace, steady)}
    warps = 2 * 4
    assert rows["softmax0", "exp2"].count == 5 * warps * steady.blocks
    assert rows["softmax0", "stats"].count == warps * steady.blocks


def test_the_steady_state_leaves_out_both_ends_of_the_tile():
    trace = run_of("pair").trace
    steady = steady_state(trace)
    blocks = trace.span.where(role="tensor", op="QK", stage=0, sm=0)
    assert blocks["start"].min() < steady.start < steady.end < blocks["start"].max()
    assert steady.blocks < len(blocks)


def test_masked_steps_are_not_part_of_it():
    ops = {row.op for row in op_durations(run_of("causal").trace)}
    assert "exp2" in ops and "mask" not in ops


def test_a_tile_of_one_block_has_no_steady_state():
    with pytest.raises(ValueError, match="the longest tile has 1 K/V blocks"):
        steady_state(run_of("pair, one block").trace)
    with pytest.raises(ValueError, match="the longest tile has 0 K/V blocks"):
        op_durations(Trace())


def test_the_text_can_be_of_one_role():
    rows = op_durations(run_of("causal").trace)
    text = format_durations(rows, "mma")
    assert "wait P_full_O_rescaled" in text and "softmax0" not in text
    with pytest.raises(ValueError, match="no role 'scheduler' here; there are correction"):
        format_durations(rows, "scheduler")
