"""No unexplained gap, in any design; and a gap or an overlap that is there is found."""

import pytest

from fa4sim.analysis import Gap, format_gaps, unexplained_gaps
from fa4sim.trace import Trace
from tests.analysis.runs import CASES, TWO_TILES, run_of


@pytest.mark.parametrize("name", [*CASES, *TWO_TILES])
def test_every_cycle_of_every_warp_is_in_one_span_or_one_wait(name):
    gaps = unexplained_gaps(run_of(name).trace)
    assert not gaps, format_gaps(gaps)


def warp(*intervals):
    """A trace of one warp with spans and, for a third entry "wait", waits."""
    trace = Trace()
    for start, end, *kind in intervals:
        who = {"cta": 0, "role": "load", "warp": 14, "start": start, "end": end}
        if kind:
            trace.add("wait", **who, on="load_KV_empty", kind="barrier")
        else:
            trace.add("span", **who, op="issue K")
    return trace


def test_a_hole_between_a_span_and_a_wait_is_a_gap():
    assert unexplained_gaps(warp((0, 10), (12, 20, "wait"), (20, 25))) == [
        Gap("gap", 0, "load", 14, 10, 12, "issue K", "load_KV_empty")
    ]


def test_two_records_at_the_same_time_are_an_overlap():
    (found,) = unexplained_gaps(warp((0, 10), (8, 20, "wait")))
    assert (found.kind, found.start, found.end, found.cycles) == ("overlap", 8, 10, 2)


def test_a_record_inside_another_is_an_overlap_of_its_whole_length():
    (found,) = unexplained_gaps(warp((0, 100), (20, 30), (100, 110)))
    assert (found.kind, found.start, found.end) == ("overlap", 20, 30)


def test_records_of_no_length_explain_nothing_and_break_nothing():
    assert unexplained_gaps(warp((0, 10), (10, 10), (10, 20))) == []
    assert len(unexplained_gaps(warp((0, 10), (11, 11), (12, 20)))) == 1


def test_every_warp_is_looked_at_by_itself():
    trace = warp((0, 10))
    trace.add("span", cta=1, role="load", warp=14, op="issue K", start=50, end=60)
    trace.add("span", cta=0, role="mma", warp=12, op="issue QK", start=3, end=5)
    assert unexplained_gaps(trace) == []


def test_units_may_rest():
    trace = Trace()
    for start in (0, 100):
        trace.add("span", cta=0, role="tensor", unit="tensor", op="QK", start=start, end=start + 9)
    assert unexplained_gaps(trace) == []


def test_the_text_says_where():
    assert format_gaps([]) == "no unexplained gap"
    text = format_gaps(unexplained_gaps(warp((0, 10), (12, 20), (25, 30))), most=1)
    assert "issue K / issue K" in text and text.endswith("… and 1 more")
