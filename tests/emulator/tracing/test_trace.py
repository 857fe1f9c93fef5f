"""The trace of an emulation."""

import sys
from itertools import pairwise

import numpy as np
import pytest

from fa4kernel.emulator import DeadlockError, emulate
from fa4kernel.emulator.tracing import Recorder, Selection
from fa4sim.trace import NONE, load, save
from tests.emulator.kernels import COPY, PRODUCER_ARRIVES, copy_launch, ring, ring_launch

SCHEDULES = ["lockstep", 1, 2, 3]


@pytest.fixture(params=SCHEDULES)
def traced(request, tmp_path):
    """Five turns of the ring, in several orders."""
    return emulate(ring(tmp_path), ring_launch(), schedule=request.param, trace=True)


def test_time_is_told_in_ticks_that_are_the_machines_steps(traced):
    trace = traced.trace
    assert trace.clock == "ticks"
    assert trace.end <= traced.steps + 1
    assert trace.meta["made_by"] == "fa4kernel.emulator"


def test_code_without_a_place_is_not_called_by_the_role_before_it(tmp_path):
    unplaced = "CONSUME:\n    .loc 1 14 0\n" + 40 * "    add.s32 %r12, %r12, 1;\n"
    text = ring(tmp_path).replace("CONSUME:\n", unplaced)
    trace = emulate(text, ring_launch(turns=1), trace=True).trace
    named = {(row["warp"], row["op"]) for row in trace.span.rows()}
    assert named == {(0, "produce"), (1, "consume")}


def test_a_phase_is_made_of_the_arrivals_that_its_barrier_expects(traced):
    arrive = traced.trace.arrive
    for barrier, expected in (("ring.full", 1), ("ring.empty", 32)):
        rows = arrive.where(barrier=barrier)
        phases = {*zip(rows["stage"].tolist(), rows["phase"].tolist(), strict=True)}
        assert phases == {(0, 0), (1, 0), (0, 1), (1, 1), (0, 2)}
        for stage, phase in phases:
            assert rows.where(stage=stage, phase=phase)["count"].sum() == expected


def test_nobody_passes_before_the_phase_is_complete(traced):
    trace = traced.trace
    for wait in trace.wait.where(kind="barrier").rows():
        done = trace.arrive.where(
            barrier=wait["on"], stage=wait["stage"], phase=wait["phase"] - 1, cta=wait["cta"]
        )
        assert len(done)
        assert done["time"].max() < wait["end"]


def test_a_warp_does_one_thing_at_a_time(traced):
    trace = traced.trace
    for warp in (0, 1):
        spans = trace.span.where(warp=warp)
        waits = trace.wait.where(warp=warp)
        times = [*zip(spans["start"], spans["end"], strict=True)]
        times += [*zip(waits["start"], waits["end"], strict=True)]
        times.sort()
        assert all(end <= start for (_, end), (start, _) in pairwise(times))
        assert np.all(spans["busy"] <= spans["end"] - spans["start"])


def test_spans_are_named_by_role_and_source_function(traced):
    spans = traced.trace.span
    assert set(spans.unique("role")) == {"produce", "consume"}
    assert {"produce", "consume"} <= set(spans.unique("op")) <= {"produce", "consume", "kernel"}


def test_flows_go_forward_in_time(traced):
    trace = traced.trace
    flow, spans = trace.flow, trace.span
    assert len(flow)
    assert np.all(spans["start"][flow["source"]] < spans["end"][flow["target"]])


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_copies_run_from_issue_to_completion_on_tracks_of_their_own(schedule):
    launch, source, target = copy_launch()
    trace = emulate(COPY, launch, schedule=schedule, checks="off", trace=True).trace
    assert np.array_equal(source, target)
    loads, stores = trace.span.where(role="tma"), trace.span.where(role="tma_store")
    assert loads.unique("op") == ["load block"]
    assert stores.unique("op") == ["store block"]
    assert loads["end"][0] <= stores["start"][0]
    assert set(loads["warp"]) == {NONE}
    landed = trace.arrive.where(by="tma")
    assert landed["time"][0] + 1 == loads["end"][0]
    announced = trace.arrive.where(by="warp 0")
    assert announced["tx_bytes"][0] == 256
    assert "issue" in trace.flow.unique("what")


def test_tracing_changes_nothing(tmp_path):
    plain = emulate(ring(tmp_path), ring_launch(), schedule=5)
    traced = emulate(ring(tmp_path), ring_launch(), schedule=5, trace=True)
    assert (plain.steps, plain.instructions) == (traced.steps, traced.instructions)
    assert plain.trace is None


def test_the_same_seed_gives_the_same_trace(tmp_path):
    first, second = (
        emulate(ring(tmp_path), ring_launch(), schedule=7, trace=True).trace for _ in range(2)
    )
    for name in first.sizes():
        assert np.array_equal(first.table(name).array, second.table(name).array)


def test_only_the_chosen_ctas_are_there_over_all_waves(tmp_path):
    run = emulate(ring(tmp_path), ring_launch(ctas=5), trace="cta 1,4", resident_ctas=2)
    assert set(run.trace.span["cta"]) == {1, 4}
    assert set(run.trace.arrive["cta"]) == {1, 4}
    first, last = (run.trace.span.where(cta=cta) for cta in (1, 4))
    assert first["end"].max() < last["start"].min()
    with pytest.raises(ValueError, match="CTAs 0 to 4"):
        emulate(ring(tmp_path), ring_launch(ctas=5), trace="cta 5")


def test_a_deadlock_leaves_what_happened_before(tmp_path):
    text = ring(tmp_path).replace(PRODUCER_ARRIVES, "")
    with pytest.raises(DeadlockError) as caught:
        emulate(text, ring_launch(), checks="off", trace=True)
    trace = caught.value.trace
    assert len(trace.span)
    last = trace.wait.where(end=trace.end)
    assert set(last.unique("on")) == {"ring.full", "ring.empty"}


def test_memory_stays_bounded(tmp_path, monkeypatch):
    module = sys.modules["fa4kernel.emulator.emulate"]  # the package's name is the function's
    monkeypatch.setattr(module, "Recorder", lambda selection: Recorder(selection, most=40))
    trace = emulate(ring(tmp_path), ring_launch(turns=50), trace=True).trace
    assert trace.meta["truncated_at_tick"] > 0
    assert trace.end <= trace.meta["truncated_at_tick"] + 1
    assert Selection.parse(True).ctas is None


def test_a_trace_is_written_and_read_like_any_other(traced, tmp_path):
    again = load(save(traced.trace, tmp_path / "run.npz"))
    assert np.array_equal(again.span.array, traced.trace.span.array)
    assert again.clock == "ticks"


def test_progress_is_told(tmp_path):
    told = []
    emulate(
        ring(tmp_path), ring_launch(ctas=4), resident_ctas=2,
        progress=lambda *numbers: told.append(numbers),
    )  # fmt: skip
    assert told[-1][:2] == (4, 4)
    assert [ended for ended, _, _ in told] == sorted(ended for ended, _, _ in told)
