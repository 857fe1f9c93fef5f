"""Overlap as a number: of intervals, and of the kernel's two halves."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fa4sim import B200, Design, simulate
from fa4sim.analysis import format_overlap, overlap, overlap_sentence, overlap_table
from fa4sim.analysis.overlap import merge, shared_time
from fa4sim.trace import Trace
from tests.analysis.runs import CASES, run_of

intervals = st.lists(
    st.tuples(st.integers(0, 60), st.integers(1, 20)).map(lambda t: (t[0], t[0] + t[1])),
    max_size=12,
)


def arrays(pairs):
    return np.array([a for a, _ in pairs], int), np.array([b for _, b in pairs], int)


def moments(pairs):
    return {time for start, end in pairs for time in range(start, end)}


@given(intervals, intervals)
def test_overlap_is_what_counting_every_moment_gives(a, b):
    first, second = merge(*arrays(a)), merge(*arrays(b))
    assert int((first[1] - first[0]).sum()) == len(moments(a))
    assert shared_time(first, second) == len(moments(a) & moments(b))


@pytest.mark.parametrize("name", ["pair", "causal", "one Q tile", "d=64", "(192,128)", "fp8"])
def test_shares_are_fractions_and_both_directions_share_the_same_time(name):
    trace = run_of(name).trace
    for row in overlap_table(trace):
        assert 0 <= row.share <= 1
        assert overlap(trace, row.b, row.a).both == row.both


def test_a_unit_overlaps_itself_fully():
    assert overlap(run_of("causal").trace, "tensor", "tensor").share == 1


def test_with_one_q_tile_matrix_products_and_exponentials_take_turns():
    trace = run_of("one Q tile").trace
    assert overlap(trace, "tensor", "exp2").share < 0.35  # the end of P under the start of PV
    assert "one Q tile" in overlap_sentence(trace)
    problem = run_of("one Q tile").problem
    design = Design.for_problem(problem, B200, p_first_columns=128)
    whole = simulate(problem, design, scope="cta").trace
    assert overlap(whole, "tensor", "exp2").share == 0


def test_with_two_q_tiles_one_is_exponentiated_under_the_products_of_the_other():
    trace = run_of("causal").trace
    assert overlap(trace, "tensor", "exp2").share > 0.5
    assert "of the tensor pipe's busy time" in overlap_sentence(trace)


def test_sms_are_counted_apart():
    trace = Trace()
    for sm, start in ((0, 0), (1, 50)):
        trace.add("span", sm=sm, role="tensor", op="QK", start=start, end=start + 10)
        trace.add("span", sm=sm, role="softmax0", op="exp2", start=50, end=60)
    assert overlap(trace, "tensor", "exp2").share == 0.5


def test_a_name_that_is_not_there_is_refused_with_those_that_are():
    with pytest.raises(ValueError, match=r"'softmax2' names no span of this trace; it has .*exp2"):
        overlap(run_of("causal").trace, "tensor", "softmax2")
    with pytest.raises(ValueError, match="'tensor' names no span of this trace; it has none"):
        overlap(Trace(), "tensor", "exp2")


def test_pairs_that_a_trace_lacks_are_left_out_of_the_table():
    two, one = (overlap_table(run_of(name).trace) for name in ("causal", "one Q tile"))
    assert len(one) < len(two) and not any("softmax1" in row.b for row in one)
    assert len(format_overlap(two).splitlines()) == 1 + len(two)
    assert set(CASES) >= {"causal", "one Q tile"}
