"""A pipeline that is broken on purpose: exit code 3, and who is to blame."""

import pytest

from fa4sim.cli.errors import Failure
from fa4sim.cli.faults import parse_fault, parse_faults
from fa4sim.specs import Design, Fault

ONE = ("--batch", "1", "--heads", "1", "--seqlen-q", "512", "--causal")


def test_a_dropped_arrival_deadlocks_and_names_who_waits(fa4sim):
    outcome = fa4sim("run", *ONE, "--break", "drop_arrival:S_full", "--json")
    assert outcome.code == 3
    facts = outcome.json
    assert "deadlock" in facts["error"]
    assert facts["exit_code"] == 3
    deadlock = facts["deadlock"]
    assert deadlock["at"] > 0
    assert "S_full" in deadlock["suspects"]
    assert deadlock["ring"]
    (first, *_) = [who for who in deadlock["waiting"] if who["barrier"] == "S_full"]
    assert first["role"].startswith("softmax")
    assert first["arrivals"] < first["expected"]
    assert any("tensor" in who for who in first["missing_from"])
    assert {"stage", "phase", "since", "warp", "cta"} <= set(first)


def test_a_deadlock_is_told_in_words_without_a_traceback(fa4sim):
    outcome = fa4sim("run", *ONE, "--break", "drop_arrival:S_full:0")
    assert outcome.code == 3
    assert outcome.err.startswith("Error: deadlock at cycle")
    for words in (
        "suspect: S_full",
        "they wait in a circle: ",
        "softmax0 (warps 0 to 3, CTA 0) waits for S_full[0]",
    ):
        assert words in outcome.err
    assert "Traceback" not in outcome.err


def test_a_dropped_wait_is_a_hazard_and_the_report_is_still_printed(fa4sim):
    outcome = fa4sim("run", *ONE, "--break", "drop_wait:S_full", "--json")
    assert outcome.code == 3
    facts = outcome.json
    assert "hazard" in facts["error"]
    assert any(hazard["barrier"] == "S_full" for hazard in facts["hazards"])
    assert facts["cycles"] > 0
    in_words = fa4sim("run", *ONE, "--break", "drop_wait:S_full")
    assert in_words.code == 3
    assert "bottleneck:" in in_words.out and "BROKEN: drop_wait at S_full" in in_words.out
    assert "hazard" in in_words.err


def test_swapped_ring_slots_give_wrong_numbers_and_a_hazard(fa4sim):
    outcome = fa4sim("check", *ONE, "--break", "swap_slots:load_KV_full", "--json")
    assert outcome.code == 3
    facts = outcome.json
    assert facts["ok"] is False
    assert facts["equals_blockwise"] is False
    assert facts["hazards"]


def test_a_broken_timeline_is_drawn_all_the_same(fa4sim, tmp_path):
    target = tmp_path / "broken.png"
    outcome = fa4sim("timeline", *ONE, "--break", "drop_wait:S_full", "-o", target)
    assert outcome.code == 3
    assert target.exists()


def test_several_faults_at_once(fa4sim):
    outcome = fa4sim(
        "run", *ONE, "--break", "drop_wait:S_full", "--break", "drop_wait:load_KV_full", "--json"
    )
    assert {fault["barrier"] for fault in outcome.json["design"]["faults"]} == {
        "S_full", "load_KV_full",
    }  # fmt: skip


@pytest.mark.parametrize(
    "text, fault",
    [
        ("drop_arrival:S_full", Fault("drop_arrival", "S_full")),
        ("drop_arrival:S_full:1", Fault("drop_arrival", "S_full", 1)),
        ("drop_wait:S_full:0:softmax0", Fault("drop_wait", "S_full", 0, "softmax0")),
        ("drop_arrival:P_full_O_rescaled::correction",
         Fault("drop_arrival", "P_full_O_rescaled", None, "correction")),
        ("count_plus_one:O_full", Fault("count_plus_one", "O_full")),
    ],
)  # fmt: skip
def test_a_fault_is_kind_barrier_stage_and_role(text, fault):
    assert parse_fault(text) == fault
    assert parse_faults([text], Design()) == (fault,)


@pytest.mark.parametrize(
    "text, said",
    [
        ("S_full", "KIND:BARRIER"),
        ("drop_arrival:", "KIND:BARRIER"),
        ("drop_arrival:S_full:0:softmax0:more", "KIND:BARRIER"),
        ("explode:S_full", "'explode'"),
        ("drop_arrival:no_such", "'no_such'"),
        ("drop_arrival:S_full:two", "'two'"),
        ("drop_arrival:S_full:7", "7"),
        ("drop_arrival:S_full:0:load", "'load' does not arrive at S_full"),
        ("drop_wait:S_full:0:load", "'load' does not wait for S_full"),
        ("drop_wait:S_full:1:softmax0", "'softmax0' does not wait for S_full"),
        ("count_plus_one:S_full:0:load", "'load'"),
        ("swap_slots:S_full", "'S_full'"),
    ],
)
def test_a_fault_that_would_break_nothing_is_refused(text, said):
    with pytest.raises(Failure) as refused:
        parse_faults([text], Design())
    assert said in str(refused.value)
    assert refused.value.exit_code == 2


def test_a_ring_of_two_slots_has_none_to_swap():
    with pytest.raises(Failure, match="kv_stages=2"):
        parse_faults(["swap_slots:load_KV_full"], Design(kv_stages=2))


def test_a_wait_left_out_is_told_in_a_sentence(fa4sim):
    outcome = fa4sim("run", *ONE, "--break", "drop_wait:O_full")
    assert outcome.code == 3
    assert "correction (warp 8) never waited for phase 1 of 1" in outcome.err
    assert "nothing kept it from using O[0] too early" in outcome.err
