"""Two timelines aligned by event: MMA stands above MMA, whatever the clocks."""

from __future__ import annotations

import numpy as np
import pytest

from fa4sim.trace import Trace
from fa4sim.views import aligned_timelines, alt_text
from fa4sim.views.aligned import align, issue_times
from tests.views.conftest import simulated

#: Op, tile, block, stage of a short run's MMAs, in the order of issue.
ORDER = [("QK", 0, 1, 0), ("QK", 0, 1, 1), ("PV", 0, 1, 0), ("QK", 0, 0, 0), ("PV", 0, 0, 0)]


def kernel(times: list[int], order: list[tuple[str, int, int, int]] = ORDER) -> Trace:
    """What an emulator leaves: the tensor core's work only, from issue on, in ticks."""
    trace = Trace("ticks")
    for (op, tile, block, stage), at in zip(order, times, strict=True):
        trace.add("span", sm=0, cta=0, role="tensor", unit="tensor", op=op, start=at, end=at + 30,
                  tile=tile, block=block, stage=stage)  # fmt: skip
    return trace


def simulator(times: list[int]) -> Trace:
    """The same MMAs with a span for the issue, which comes before the work."""
    trace = Trace("cycles")
    for (op, tile, block, stage), at in zip(ORDER, times, strict=True):
        for role, name, start in (("mma", f"issue {op}", at), ("tensor", op, at + 400)):
            trace.add("span", sm=0, cta=0, role=role, warp=12 if role == "mma" else -1, op=name,
                      start=start, end=start + 50, tile=tile, block=block, stage=stage)  # fmt: skip
    return trace


def test_issues_are_what_the_mma_warp_says_or_where_the_unit_begins():
    assert issue_times(simulator([10, 20, 30, 40, 50]), 0)[ORDER[2]] == 30
    assert issue_times(kernel([1, 2, 3, 4, 5]), 0)[ORDER[2]] == 3


def test_each_mma_is_moved_to_where_the_other_trace_issues_it():
    found = align(simulator([1000, 2000, 3000, 3500, 9000]), kernel([5, 6, 20, 21, 90]))
    assert list(found.issues) == ORDER and not found.missing
    assert found.stretch(np.array([5, 6, 20, 21, 90])).tolist() == [1000, 2000, 3000, 3500, 9000]
    assert found.stretch(np.array([13])).tolist() == [2500]
    assert found.stretch(np.array([-1])).tolist() == [-1]


def test_time_never_runs_backwards_or_past_the_end():
    first, second = simulator([1000, 2000, 3000, 3500, 9000]), kernel([5, 6, 20, 21, 90])
    moved = align(first, second).stretch(np.arange(second.end + 1))
    assert (np.diff(moved) >= 0).all() and moved[0] == 0 and moved[-1] == first.end


def test_an_mma_out_of_order_or_missing_is_named():
    swapped = [ORDER[1], ORDER[0], *ORDER[2:4]]
    found = align(simulator([10, 20, 30, 40, 50]), kernel([1, 2, 3, 4], swapped))
    assert set(found.missing) == {ORDER[1], ORDER[4]}
    text = alt_text(
        aligned_timelines(simulator([10, 20, 30, 40, 50]), kernel([1, 2, 3, 4], swapped))
    )
    assert "3 MMAs are issued in the same order" in text
    assert "2 are not, PV of tile 0, block 0, stage 0 among them" in text


def test_a_run_beside_itself_is_itself():
    trace = simulated("pair")
    found = align(trace, trace)
    assert len(found.issues) == 2 * 2 * 8 and not found.missing
    times = np.arange(0, trace.end, 97)
    assert (found.stretch(times) == times).all()


def test_the_picture_tells_where_blocks_begin_on_both_clocks():
    picture = aligned_timelines(
        simulator([1000, 2000, 3000, 3500, 9000]), kernel([5, 6, 20, 21, 90])
    )
    text = alt_text(picture)
    assert "QK of block 1 at cycles 1,000 and ticks 5" in text
    assert "QK of block 0 at cycles 3,500 and ticks 21" in text
    shown = [label.get_text() for label in picture.axes[1].get_xticklabels()]
    assert shown == ["5", "21"]
    assert np.allclose(picture.axes[0].get_xlim(), picture.axes[1].get_xlim())


def test_traces_of_different_work_are_refused(ticks):
    with pytest.raises(ValueError, match="no MMA in common"):
        aligned_timelines(simulator([1, 2, 3, 4, 5]), ticks)
    with pytest.raises(ValueError, match="give two"):
        aligned_timelines(simulator([1, 2, 3, 4, 5]), kernel([1, 2, 3, 4, 5]), ["one"])
