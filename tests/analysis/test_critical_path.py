"""The critical path: it covers the run without a hole, and it is critical."""

from itertools import pairwise

import pytest

from fa4sim import B200, Problem, simulate
from fa4sim.analysis import by_kind, chain, critical_path, format_path, steady_state
from fa4sim.trace import Trace
from tests.analysis.runs import CASES, TWO_TILES, run_of

EVERY = [*CASES, *TWO_TILES]


def assert_tiles(path, start, end):
    """The segments cover [start, end) one after the other."""
    assert path.segments[0].start == start and path.segments[-1].end == end
    assert all(a.end == b.start for a, b in pairwise(path.segments))
    assert all(segment.cycles > 0 for segment in path.segments)


@pytest.mark.parametrize("name", EVERY)
def test_the_path_tiles_the_whole_run(name):
    trace = run_of(name).trace
    path = critical_path(trace)
    assert_tiles(path, 0, trace.end)
    assert sum(path.totals().values()) == path.cycles == trace.end
    assert sum(by_kind(path.totals()).values()) == path.cycles


@pytest.mark.parametrize("name", EVERY)
def test_every_wait_on_the_path_has_a_cause(name):
    kinds = by_kind(critical_path(run_of(name).trace).totals())
    assert "not known" not in kinds


@pytest.mark.parametrize("name", EVERY)
def test_the_path_reaches_a_waiter_through_the_hand_off_that_woke_it(name):
    # Between the completing arrival and the waiter's next instruction lies the barrier's latency,
    # no more and no less: whatever else the path jumped to would not fit.
    run = run_of(name)
    for segment in critical_path(run.trace).segments:
        if segment.op.startswith("wake "):
            on = segment.op.removeprefix("wake ")
            named = on in ("TmemPtr", "Epilogue") or on.startswith("SoftmaxStatsW")
            machine = run.machine
            latency = machine.named_barrier_cycles if named else machine.mbarrier_resume_cycles
            assert segment.cycles == latency, segment


def test_the_path_is_the_same_every_time():
    trace = run_of("pair").trace
    assert critical_path(trace) == critical_path(trace)


@pytest.mark.parametrize("name", ["pair", "one CTA", "causal", "one Q tile", "d=64", "(192,128)"])
def test_per_block_it_adds_up_to_the_period(name):
    path = critical_path(run_of(name).trace)
    assert sum(path.per_block().values()) == pytest.approx(path.steady.period)


def test_with_one_q_tile_a_block_is_one_chain_from_scores_to_scores():
    path = critical_path(run_of("one Q tile").trace)
    assert path.per_block()["tensor", "QK"] >= 512
    text = format_path(path)
    links = ["tensor: QK", "wake S_full", "read S", "exp2", "wake P_full_O_rescaled", "PV"]
    places = [text.rindex(link) for link in links]
    assert places == sorted(places)


def test_in_a_pair_the_path_crosses_from_one_cta_to_the_other():
    path = critical_path(run_of("pair").trace)
    crossing = [s for s in path.segments if s.op == "arrive from the other CTA"]
    assert crossing
    assert {s.cycles for s in crossing} == {run_of("pair").machine.mbarrier_remote_cycles}


def test_cycles_more_in_each_hand_off_cost_a_block_as_many_as_the_path_has():
    problem = Problem(batch=1, heads=1, seqlen_q=128, seqlen_k=4096)
    # Without competition in the tensor pipe's way, what is left is the chain itself.
    machine = B200.with_constants(beside_mma_factor=1.0, smem_bytes_per_cycle=1024)
    run = simulate(problem, None, machine, scope="cta")
    path = critical_path(run.trace)
    latency, more = machine.mbarrier_resume_cycles, 5
    on_path = sum(cycles for (_, op), cycles in path.per_block().items() if op.startswith("wake "))
    crossings = on_path / latency
    assert crossings >= 2 and crossings == int(crossings)
    slower = machine.with_constants(
        mbarrier_resume_cycles=latency + more,
        tma_l2_latency_cycles=machine.tma_l2_latency_cycles + more,
    )
    again = simulate(problem, run.design, slower, scope="cta")
    assert steady_state(again.trace).period - path.steady.period == crossings * more


def test_what_is_not_on_the_path_can_be_slower_for_nothing():
    problem = Problem(batch=1, heads=1, seqlen_q=128, seqlen_k=4096)
    # (Elsewhere TMA writes share the shared-memory port with QK, so when they come does matter.)
    machine = B200.with_constants(smem_bytes_per_cycle=1024)
    run = simulate(problem, None, machine, scope="cta")
    ops = {op for _, op in critical_path(run.trace).per_block()}
    assert not ops & {"load K", "load V", "row sum"}
    slower = run.machine.with_constants(
        tma_l2_latency_cycles=run.machine.tma_l2_latency_cycles + 50
    )
    again = simulate(problem, run.design, slower, scope="cta")
    assert steady_state(again.trace).period == steady_state(run.trace).period


def test_a_short_ring_puts_loads_on_the_path():
    kinds = by_kind(critical_path(run_of("two ring slots, slow TMA").trace).per_block())
    assert next(iter(kinds)) == "load"


def test_queueing_for_a_unit_is_told_apart_from_using_it():
    path = critical_path(run_of("slow MUFU").trace)
    queued = sum(path.queued().values())
    assert 0 < queued < path.cycles
    used = [segment for segment in path.segments if segment.op == "exp2"]
    assert all(0 <= segment.queued <= segment.cycles for segment in used)
    assert any(segment.queued for segment in used)


def test_the_path_of_a_part_of_a_trace_covers_that_part():
    whole = run_of("pair").trace
    part = whole.window(9000, 20000)
    path = critical_path(part)
    first = min(part.span["start"].min(), part.wait["start"].min())
    assert_tiles(path, first, max(part.span["end"].max(), part.wait["end"].max()))
    cut = critical_path(whole).within(9000, 20000)
    assert (cut[0].start, cut[-1].end) == (9000, 20000)
    assert sum(segment.cycles for segment in cut) == 11000


def test_with_one_ring_of_causes_missing_the_path_still_covers_the_run():
    full = run_of("causal").trace
    silent = Trace(full.clock, full.meta)
    silent.strings, silent._codes = list(full.strings), dict(full._codes)
    for table in ("span", "wait"):
        for row in full.table(table).array.tolist():
            silent.append[table](row)
    path = critical_path(silent)
    assert_tiles(path, 0, max(full.span["end"].max(), full.wait["end"].max()))
    assert "not known" in by_kind(path.totals())


def test_an_empty_trace_has_an_empty_path():
    path = critical_path(Trace())
    assert path.segments == () and path.cycles == 0 and path.totals() == {}
    assert format_path(path) == "an empty trace has no critical path"


def test_without_a_steady_state_there_is_no_per_block():
    path = critical_path(run_of("pair, one block").trace)
    assert path.steady is None
    with pytest.raises(ValueError, match="no steady state to divide by"):
        path.per_block()
    assert "of path" in format_path(path) and "One K/V block" not in format_path(path)


def test_a_chain_names_the_other_cta_and_joins_equal_neighbours():
    path = critical_path(run_of("pair").trace)
    steady = path.steady
    text = chain(path.within(steady.start, steady.end))
    assert "of CTA 1" in text
    for link in text.split("\n→ "):
        ops = [part.rsplit(" ", 1)[0] for part in link.partition(": ")[2].split(", ")]
        assert all(a != b for a, b in pairwise(ops))
