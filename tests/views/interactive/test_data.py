"""What the page is given: every span and wait once, causes, links, the path, lives, counters."""

from itertools import pairwise

import numpy as np
import pytest

from fa4sim import B200, Design, Problem, simulate
from fa4sim.analysis import barrier_means, critical_path
from fa4sim.analysis.causes import Causes
from fa4sim.analysis.records import all_records
from fa4sim.engine.errors import Deadlock
from fa4sim.specs.faults import Fault
from fa4sim.trace import Trace
from fa4sim.views.flows import flows
from fa4sim.views.interactive import timeline_data
from fa4sim.views.interactive.pack import Pack, unpack
from fa4sim.views.interactive.rows import arrange


class Read:
    """A run of a payload with its columns read back."""

    def __init__(self, payload, number=0):
        self.run = payload.header["runs"][number]
        self.columns = payload.columns

    def column(self, part, name):
        return unpack(self.columns, self.run[part][name]).astype(int)

    def texts(self, part, name):
        strings = [*self.run["strings"], ""]
        return [strings[code] for code in self.column(part, name)]


@pytest.fixture
def read(causal_trace) -> Read:
    return Read(timeline_data([causal_trace], ["run"]))


@pytest.mark.parametrize(
    "values, kind",
    [([], "i1"), ([-1, 127], "i1"), ([128], "i2"), ([-40000], "i4"), ([2**40, -1], "f8")],
)
def test_a_column_comes_back_in_the_smallest_type(values, kind):
    pack = Pack()
    pack.add([1, 2, 3])
    place = pack.add(values)
    assert place[0] == kind
    assert unpack(pack.bytes(), place).tolist() == values


def test_numbers_that_no_page_can_count_are_refused():
    with pytest.raises(ValueError, match=r"9007199254740993 .* 2\*\*53"):
        Pack().add([2**53 + 1])


def test_what_a_wait_is_for_is_told_in_words(read, causal_trace):
    told = {read.run["strings"][int(code)]: words for code, words in read.run["means"].items()}
    waited = causal_trace.wait.unique("on")
    assert told == {name: barrier_means(name) for name in waited} and "" not in told.values()


def test_every_span_and_every_wait_that_took_time_is_there_once(trace):
    read = Read(timeline_data([trace], ["run"]))
    is_wait = read.column("slices", "is_wait") == 1
    rows, start = read.column("slices", "row"), read.column("slices", "start")
    end = start + read.column("slices", "length")
    waits = trace.wait.where(trace.wait["end"] > trace.wait["start"])
    assert sorted(rows[~is_wait]) == list(range(len(trace.span)))
    assert sorted(rows[is_wait]) == waits.ids.tolist()
    for table, mask in ((trace.span, ~is_wait), (trace.wait, is_wait)):
        assert (table["start"][rows[mask]] == start[mask]).all()
        assert (table["end"][rows[mask]] == end[mask]).all()


def test_a_slice_keeps_its_names_and_numbers(causal_trace, read):
    names, rows = read.texts("slices", "name"), read.column("slices", "row")
    is_wait = read.column("slices", "is_wait") == 1
    ops, on = causal_trace.span.text("op"), causal_trace.wait.text("on")
    assert names == [on[r] if w else ops[r] for r, w in zip(rows, is_wait, strict=True)]
    for name in ("tile", "block", "stage"):
        column = read.column("slices", name)
        assert (column[~is_wait] == causal_trace.span[name][rows[~is_wait]]).all()
        assert (column[is_wait] == causal_trace.wait[name][rows[is_wait]]).all()


def test_nothing_overlaps_on_a_row(trace):
    slices = arrange(trace)
    start = np.concatenate([trace.span["start"], trace.wait["start"]])[slices.source]
    end = np.concatenate([trace.span["end"], trace.wait["end"]])[slices.source]
    covered = 0
    for track in slices.tracks:
        for first, last in track.rows:
            covered += last - first
            assert (end[first : last - 1] <= start[first + 1 : last]).all()
    assert covered == len(slices.source)
    assert all(a.rows[-1][1] == b.rows[0][0] for a, b in pairwise(slices.tracks))


def test_what_is_nested_gets_a_row_of_its_own(ticks):
    tracks = {t.role: t for t in arrange(ticks).tracks}
    assert len(tracks["math"].rows) == 2  # a part inside each step
    assert len(tracks["load"].rows) == 1


def test_each_wait_has_the_cause_that_the_analysis_finds(causal_trace, read):
    records = all_records(causal_trace)
    causes = Causes(causal_trace, records)
    expected = {}
    for record in np.flatnonzero(records.is_wait & (records.phase != 0)).tolist():
        cause = causes.of_wait(record)
        if cause is not None and cause.landed <= records.end[record]:
            expected[int(records.row[record])] = (cause.time, cause.landed, cause.way)
    is_wait = read.column("slices", "is_wait") == 1
    rows = read.column("slices", "row")
    caused, landed = read.column("slices", "caused"), read.column("slices", "landed")
    by, way = read.texts("slices", "by"), read.texts("slices", "way")
    told = {
        int(rows[i]): (caused[i], landed[i], way[i]) for i in np.flatnonzero(is_wait) if by[i]
    }  # fmt: skip
    drawn = {row: cause for row, cause in expected.items() if row in set(rows[is_wait])}
    assert told == drawn
    assert len(told) > 0.9 * is_wait.sum()


def test_the_slice_that_ended_a_wait_is_what_that_party_did_then(read):
    by_slice = read.column("slices", "by_slice")
    start, names = read.column("slices", "start"), read.texts("slices", "name")
    caused, on = read.column("slices", "caused"), names
    linked = np.flatnonzero(by_slice >= 0)
    assert (start[by_slice[linked]] <= caused[linked]).all()
    s_full = [i for i in linked if on[i] == "S_full"]
    assert s_full and all(names[by_slice[i]] == "QK" for i in s_full)


def test_the_edges_are_the_flows_and_the_causes(causal_trace, read):
    rows, is_wait = read.column("slices", "row"), read.column("slices", "is_wait") == 1
    source, target = read.column("edges", "source"), read.column("edges", "target")
    what = read.texts("edges", "what")
    between_spans = {
        (rows[a], rows[b], w)
        for a, b, w in zip(source, target, what, strict=True)
        if not is_wait[b]
    }
    assert between_spans == set(flows(causal_trace))
    pairs = set(zip(source.tolist(), target.tolist(), strict=True))
    last = read.column("slices", "by_slice")
    assert all((last[i], i) in pairs for i in np.flatnonzero(last >= 0).tolist())
    assert len(pairs) == len(source), "no link is there twice"


def test_a_wait_has_every_arrival_that_it_was_for(causal_trace, read):
    names, roles = read.texts("slices", "name"), {}
    for track in read.run["tracks"]:
        for first, last in track["rows"]:
            roles.update(dict.fromkeys(range(first, last), (track["role"], track["warp"])))
    source, target = read.column("edges", "source"), read.column("edges", "target")
    times = read.column("edges", "time")
    ready = [i for i, name in enumerate(names) if name == "P_full_O_rescaled"]
    into = {i: sorted(roles[a] for a in source[target == i]) for i in ready}
    all_eight = [*(("correction", w) for w in range(8, 12)), *(("softmax0", w) for w in range(4))]
    assert all_eight in into.values(), "P by four softmax warps, O by four of the correction"
    ends = read.column("slices", "start") + read.column("slices", "length")
    known = times >= 0
    assert (times[known] <= ends[target[known]]).all()
    last = read.column("slices", "by_slice")
    for i in ready:
        mine = target == i
        if last[i] >= 0:
            assert last[i] in source[mine][times[mine] == times[mine].max()]


def test_the_strip_is_the_critical_path(causal_trace, read):
    start, length = read.column("path", "start"), read.column("path", "length")
    path = critical_path(causal_trace)
    assert start.tolist() == [s.start for s in path.segments]
    assert (start + length).tolist() == [s.end for s in path.segments]
    assert read.texts("path", "op") == [s.op for s in path.segments]
    slices = read.column("path", "slice")
    known = slices >= 0
    assert known.mean() > 0.8
    # What a link stands for was under way during the link.
    begins, ends = read.column("slices", "start"), read.column("slices", "length")
    ends = ends + begins
    assert (begins[slices[known]] < (start + length)[known]).all()


def test_bytes_are_those_that_the_issue_announces(causal_trace, read):
    names, size = read.texts("slices", "name"), read.column("slices", "bytes")
    loads = [size[i] for i, name in enumerate(names) if name == "load K"]
    assert loads and set(loads) == {128 * 128 * 2}  # rows × head dim × bf16
    assert all(size[i] < 0 for i, name in enumerate(names) if name == "exp2")


def test_counters_are_in_bounds_and_in_order(causal_trace, read):
    counters = {counter["name"]: counter for counter in read.run["counters"]}
    assert {"bytes_in_flight", "ring_slots_held", "tmem_columns_in_use"} <= set(counters)
    for counter in counters.values():
        times = unpack(read.columns, counter["times"])
        values = unpack(read.columns, counter["values"])
        assert (np.diff(times) >= 0).all()
        assert values.min() >= 0 and values.max() == counter["most"]
    assert counters["ring_slots_held"]["most"] == 3
    assert counters["tmem_columns_in_use"]["most"] <= 512


def test_lives_come_with_their_places(causal_trace, read):
    assert read.texts("lives", "slot") == list(causal_trace.life.text("slot"))
    assert read.column("lives", "death").tolist() == causal_trace.life["death"].tolist()


def test_a_gpus_clock_counts_from_its_first_stamp(measured):
    payload = timeline_data([measured], ["gpu"])
    read = Read(payload)
    assert read.run["origin"] == measured.span["start"].min() == 1000
    assert read.column("slices", "start").min() == 0
    assert "32 ns" in read.run["grain"]


def test_what_ticks_are_is_said(ticks):
    assert "not time" in timeline_data([ticks], ["emulated"]).header["runs"][0]["grain"]


def test_a_wait_that_never_ended_says_how_many_had_arrived():
    problem = Problem(seqlen_q=256, causal=True)
    fault = Fault("drop_arrival", "S_full")
    design = Design.for_problem(problem, B200).replace(problem, B200, faults=(fault,))
    with pytest.raises(Deadlock) as stop:
        simulate(problem, design, scope="cta")
    trace = stop.value.trace
    read = Read(timeline_data([trace], ["until then"]))
    arrived, names = read.column("slices", "arrived"), read.texts("slices", "name")
    never = {names[i]: arrived[i] for i in np.flatnonzero(arrived >= 0)}
    assert never["S_full"] == 0
    # Of the statistics' two arriving warps the one that reads has come; see the deadlock's words.
    assert never["SoftmaxStatsW0"] == 32
    assert (arrived >= 0).sum() == (trace.wait.text("reason") == "deadlock").sum()


def test_part_of_a_trace_can_be_shown(causal_trace):
    read = Read(timeline_data([causal_trace.window(0, 9000)], ["the beginning"]))
    assert read.column("slices", "start").max() < 9000


def test_two_runs_of_one_clock_begin_together(causal_trace, pair):
    (by_start, *more) = timeline_data([causal_trace, pair], ["a", "b"]).header["alignments"]
    assert by_start["name"] == "start"
    (t0, t1), (x0, x1) = by_start["times"], by_start["places"]
    assert t1 - t0 == x1 - x0
    assert [each["name"] for each in more] == ["MMA by MMA"]


def test_cycles_and_nanoseconds_are_put_together_by_the_clock_rate(causal_trace, measured):
    (by_start,) = timeline_data([causal_trace, measured], ["a", "b"]).header["alignments"]
    (t0, t1), (x0, x1) = by_start["times"], by_start["places"]
    assert (x1 - x0) / (t1 - t0) == pytest.approx(1.85)  # cycles of a B200 per ns


def test_clocks_that_are_no_common_time_are_drawn_equally_long(causal_trace, ticks):
    (by_start,) = timeline_data([causal_trace, ticks], ["a", "b"]).header["alignments"]
    assert by_start["places"][1] == causal_trace.end
    assert "no common time" in by_start["words"]


@pytest.mark.parametrize(
    "traces, labels, message",
    [
        ([], [], "0 traces were given"),
        ([Trace()], ["x"], "'x' is empty"),
        ("one", ["x", "y"], r"labels=\['x', 'y'\]: give 1"),
    ],
)
def test_what_cannot_be_shown_is_refused(causal_trace, traces, labels, message):
    with pytest.raises(ValueError, match=message):
        timeline_data([causal_trace] if traces == "one" else traces, labels)


def test_a_trace_too_large_for_a_page_says_what_to_do(causal_trace, monkeypatch):
    from fa4sim.views.interactive import data

    monkeypatch.setattr(data, "MOST_SLICES", 100)
    with pytest.raises(ValueError, match=r"at most 100; cut it with trace.window"):
        timeline_data([causal_trace], ["run"])


def test_a_window_outside_the_run_is_refused(causal_trace):
    with pytest.raises(ValueError, match="holds nothing"):
        timeline_data([causal_trace], ["run"], start=10**9, end=10**9 + 5)
