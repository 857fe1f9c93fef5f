"""The table of waits against the traces it is made of."""

import numpy as np
import pytest

from fa4sim.analysis import format_waits, wait_shares, wait_table
from fa4sim.analysis.records import role_lives
from fa4sim.pipelines.fa4.cluster import Surroundings
from fa4sim.pipelines.fa4.detail import simulate_cluster
from fa4sim.pipelines.fa4.gpu import make_plan
from fa4sim.trace import NONE, Trace
from tests.analysis.runs import CASES, run_of


@pytest.mark.parametrize("name", CASES)
def test_a_role_works_or_waits_all_its_life(name):
    trace = run_of(name).trace
    span = trace.span.where(trace.span["warp"] != NONE)
    worked = dict.fromkeys(span.unique("role"), 0)
    for role in worked:
        mine = span.where(role=role)
        worked[role] = int((mine["end"] - mine["start"]).sum())
    waited = dict.fromkeys(worked, 0)
    for row in wait_table(trace):
        waited[row.role] += row.cycles
    assert {role: worked[role] + waited[role] for role in worked} == role_lives(trace)


@pytest.mark.parametrize("name", CASES)
def test_shares_are_parts_of_a_life(name):
    rows = wait_table(run_of(name).trace)
    by_role = dict.fromkeys((row.role for row in rows), 0.0)
    for row in rows:
        assert row.count >= 1 and 0 < row.longest <= row.cycles <= row.count * row.longest
        by_role[row.role] += row.share
    assert all(0 < share <= 1 for share in by_role.values())
    assert [row.share for row in rows] == sorted((row.share for row in rows), reverse=True)


def test_a_compact_trace_has_the_waits_of_the_trace_written_out():
    run = run_of("causal")
    plan = make_plan(run.problem, run.design, run.machine)
    compact = simulate_cluster(
        run.problem, run.design, run.machine, plan.tiles[:1], Surroundings(16)
    ).trace
    whole = compact.expand()
    assert compact.repeats and compact.size("wait") < whole.size("wait")
    assert wait_table(compact) == wait_table(whole)
    assert role_lives(compact) == role_lives(whole)


def test_the_second_cta_of_a_pair_has_an_mma_warp_that_waits_for_the_end():
    trace = run_of("pair").trace
    leader, peer = (
        {row.on: row.share for row in wait_table(trace, cta) if row.role == "mma"} for cta in (0, 1)
    )
    assert peer["TmemPtr"] > 0.9
    assert leader["P_full_O_rescaled"] > leader["TmemPtr"]


def test_the_mma_warp_waits_for_softmax_more_than_for_anything_else():
    shares = wait_shares(wait_table(run_of("causal").trace))
    mma = {on: share for (role, on), share in shares.items() if role == "mma"}
    assert max(mma, key=mma.get) == "P_full_O_rescaled"


def test_reasons_of_one_barrier_are_told_apart_and_add_up():
    rows = wait_table(run_of("pair").trace)
    mine = [row for row in rows if (row.role, row.on) == ("load", "load_KV_empty")]
    assert {row.reason for row in mine} == {"slot free", "drain"}
    total = wait_shares(rows)["load", "load_KV_empty"]
    assert total == pytest.approx(sum(row.share for row in mine))


def test_a_cta_that_is_not_there_is_refused():
    with pytest.raises(ValueError, match=r"cta=7 is not in this trace; it has \[0\]"):
        wait_table(run_of("causal").trace, cta=7)


def test_an_empty_trace_has_no_waits():
    assert wait_table(Trace()) == []


def test_the_text_shows_the_largest_and_counts_the_rest():
    rows = wait_table(run_of("causal").trace)
    text = format_waits(rows, most=3)
    assert len(text.splitlines()) == 1 + 3 + 1
    assert rows[0].on in text and f"{rows[0].share:.1%}" in text
    assert text.endswith(f"… and {len(rows) - 3} smaller ones")
    assert np.all([len(line) <= 100 for line in text.splitlines()])
