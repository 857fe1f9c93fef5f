"""The timeline: lanes, windows, numbers in its description, errors."""

import re
from itertools import pairwise

import numpy as np
import pytest

from fa4sim import Problem, simulate
from fa4sim.trace import Trace
from fa4sim.views import alt_text, compare_timelines, timeline
from fa4sim.views.scope import scope
from fa4sim.views.timeline import busy_share, find_lanes, longest_wait, span_bars, wait_bars


def texts(figure) -> list[str]:
    return [text.get_text() for axes in figure.axes for text in axes.texts] + [
        label.get_text() for axes in figure.axes for label in axes.get_yticklabels()
    ]


def test_every_role_has_a_lane(trace):
    figure = timeline(trace)
    lanes = "\n".join(label.get_text() for label in figure.axes[0].get_yticklabels())
    for role in trace.span.where(cta=0).unique("role"):
        assert role in lanes


def test_the_tensor_pipe_has_a_lane_per_q_tile(causal):
    labels = [lane.label for lane in find_lanes(scope(causal), "first")]
    assert "tensor, Q tile 0" in labels and "tensor, Q tile 1" in labels
    assert labels.index("tensor, Q tile 1") + 1 == labels.index("softmax0, warp 0")


def test_all_warps_have_lanes_if_asked_for(causal):
    labels = [lane.label for lane in find_lanes(scope(causal), "all")]
    assert sum(label.startswith("softmax1") for label in labels) == 4
    assert len(timeline(causal, warps="all").axes[0].get_yticks()) == len(labels)


def test_every_span_and_wait_of_the_window_is_drawn_once(causal):
    part = scope(causal)
    lanes = find_lanes(part, "all")
    drawn, _ = span_bars(part, lanes)
    assert len(drawn) == len(part.rows("span"))
    assert len(wait_bars(part, lanes)) == len(part.rows("wait"))
    cut = part.cut(part.rows("span")["end"]) - part.cut(part.rows("span")["start"])
    assert sum(bar.end - bar.start for bar in drawn) == cut.sum()


def test_work_and_waits_of_a_lane_do_not_overlap(trace):
    part = scope(trace)
    lanes = find_lanes(part, "all")
    bars = [*span_bars(part, lanes)[0], *wait_bars(part, lanes)]
    for i in range(len(lanes)):
        mine = sorted((b.start, b.end) for b in bars if round((b.low + b.high) / 2) == i)
        assert all(a[1] <= b[0] for a, b in pairwise(mine))


def test_without_a_window_a_few_blocks_of_the_middle_show(causal):
    part = scope(causal)
    qk = causal.span.where(role="tensor", op="QK", stage=0)
    inside = (qk["start"] >= part.start) & (qk["start"] < part.end)
    assert inside.sum() == 3
    assert causal.end * 0.2 < part.start < part.end < causal.end * 0.9


def test_a_run_of_few_blocks_shows_whole(one_query):
    part = scope(one_query)
    assert (part.start, part.end) == (0, one_query.end)


def test_block_numbers_stand_in_the_slices(causal):
    written = texts(timeline(causal))
    assert any(re.fullmatch(r"QK · block \d", text) for text in written)
    assert any(re.fullmatch(r"exp2 · block \d", text) for text in written)
    assert "P_full_O_rescaled[0]" in written


def test_the_legend_says_who_is_waited_for(causal):
    written = "\n".join(texts(timeline(causal)))
    assert "S_full ← tensor" in written
    assert "P_full_O_rescaled ← softmax, correction" in written
    assert "load_KV_empty ← tensor" in written


def test_the_description_has_the_trace_s_numbers(trace):
    start, end = 1000, 9000
    alt = alt_text(timeline(trace, start=start, end=end))
    assert "cycles 1,000 to 9,000" in alt
    waits = trace.wait.where(cta=0, role="mma")
    spent = {}
    lengths = np.clip(waits["end"], start, end) - np.clip(waits["start"], start, end)
    for on, length in zip(waits.text("on"), lengths, strict=True):
        spent[on] = spent.get(on, 0) + length
    most = max(spent, key=spent.get)
    assert f"waits longest for {most} ({spent[most] / (end - start):.0%})" in alt
    spans = trace.span.where(cta=0, role="mma")
    busy = np.clip(spans["end"], start, end) - np.clip(spans["start"], start, end)
    assert f"mma works {busy.sum() / (end - start):.0%} and" in alt


def test_nested_spans_count_once(ticks):
    part = scope(ticks, 0, 120)
    assert busy_share(part, "math") == pytest.approx(6 * 18 / 120)
    assert longest_wait(part, "load") == ("ready", 6 * 11 / 120)
    assert longest_wait(part, "math") is None


def test_ticks_are_never_called_time(ticks):
    figure = timeline(ticks)
    axes = figure.axes[0]
    assert axes.get_xlabel() == "ticks (the order of events, not time)"
    assert not axes.child_axes
    assert "µs" not in alt_text(figure)


def test_nanoseconds_are_called_so(measured):
    figure = timeline(measured)
    assert figure.axes[0].get_xlabel() == "time (ns)"
    assert "1,000 to 6,568 ns" in alt_text(figure)


def test_a_second_axis_counts_microseconds(causal):
    axes = timeline(causal, start=0, end=18500).axes[0]
    (top,) = axes.child_axes
    assert top.get_xlabel() == "µs"
    top.figure.draw_without_rendering()
    assert top.get_xlim() == pytest.approx((0, 1e6 * 18500 / causal.meta["clock_hz"]))


def test_nothing_is_set_smaller_than_eight_points(trace):
    figure = timeline(trace, start=0, end=6000)
    figure.draw_without_rendering()
    sizes = [t.get_fontsize() for axes in figure.axes for t in axes.texts]
    sizes += [t.get_fontsize() for axes in figure.axes for t in axes.get_xticklabels()]
    assert min(sizes) >= 8
    assert figure.get_figwidth() == 10


def test_labels_stay_inside_their_bars(causal):
    figure = timeline(causal)
    figure.draw_without_rendering()
    axes = figure.axes[0]
    frame = axes.get_window_extent()
    for text in axes.texts:
        box = text.get_window_extent()
        assert frame.x0 - 2 <= box.x0 and box.x1 <= frame.x1 + 2


@pytest.mark.parametrize(
    "options, message",
    [
        ({"cta": 7}, r"cta=7 is not in this trace; it has CTA 0"),
        ({"start": 10**9}, r"from 1,000,000,000 to [\d,]+ cycles holds nothing; .* runs from 0"),
        ({"start": 500, "end": 500}, "from 500 to 500 cycles holds nothing"),
        ({"warps": "some"}, "warps='some' must be 'first' or 'all'"),
        ({"width": 2}, "width=2 inches is too narrow"),
    ],
)
def test_bad_requests_are_refused_by_name(causal, options, message):
    with pytest.raises(ValueError, match=message):
        timeline(causal, **options)


def test_an_empty_trace_is_refused():
    with pytest.raises(ValueError, match="this trace is empty"):
        timeline(Trace())


def test_two_runs_share_one_axis(causal, pair):
    figure = compare_timelines(pair, causal, ["a pair", "one CTA"])
    first, second = figure.axes[:2]
    (a, b), (c, d) = first.get_xlim(), second.get_xlim()
    assert b - a == d - c
    assert second.get_xlabel() == "cycles since QK of one K/V block began"
    assert "a pair: Timeline of CTA 0 of its pair" in alt_text(figure)
    windowed = compare_timelines(pair, causal, ["a", "b"], start=2000, end=5000)
    assert windowed.axes[0].get_xlim() == windowed.axes[1].get_xlim() == (2000, 5000)


def test_two_clocks_do_not_compare(causal, ticks):
    with pytest.raises(ValueError, match="the traces count 'cycles' and 'ticks'"):
        compare_timelines(causal, ticks)
    with pytest.raises(ValueError, match=r"labels=\['a'\]: give two"):
        compare_timelines(causal, causal, ["a"])


def test_no_label_of_the_time_axis_is_cut_off():
    one = Problem(batch=4, heads=16, seqlen_q=8192)
    part = simulate(one, scope="cta").trace
    for window in ((None, None), (0, 40_000), (1000, 1040)):
        picture = timeline(part, start=window[0], end=window[1])
        picture.canvas.draw()
        axes = picture.axes[0]
        texts = [*axes.get_xticklabels()]
        for child in axes.child_axes:
            assert not child.xaxis.get_offset_text().get_text()
        for text in texts:
            if text.get_text():
                assert text.get_window_extent().x1 <= picture.bbox.x1, text.get_text()


def test_a_cta_of_a_pair_is_called_one():
    trace = simulate(Problem(seqlen_q=512), scope="cta").trace
    assert "CTA 0 of its pair" in timeline(trace).fa4sim_title


def test_a_picture_saves_itself(tmp_path):
    trace = simulate(Problem(seqlen_q=256, head_dim=64), scope="cta").trace
    assert timeline(trace).save(tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_overlapping_work_of_a_unit_leaves_room_for_the_next():
    trace = Trace("ticks")
    for op, start in (("QK", 10), ("PV", 30)):  # issued one after the other, done together
        trace.add("span", sm=0, cta=0, role="tensor", unit="tensor", op=op, start=start, end=90,
                  tile=0, block=1, stage=0)  # fmt: skip
    part = scope(trace, 0, 100)
    drawn, written = span_bars(part, find_lanes(part, "first"))
    assert [(bar.start, bar.end) for bar in drawn] == [(10, 30), (30, 90)]
    assert [(bar.start, bar.end) for bar in written] == [(10, 30), (30, 90)]
