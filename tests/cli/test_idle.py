"""Every command that takes ``--set`` says which of the settings have no effect."""

import pytest

SAID = "page_pointers has no effect here: K and V come by TMA, which needs no pointers to rows"
IDLE = ("--set", "page_pointers=naive")


def test_run_says_it_below_the_design(fa4sim, tiny):
    assert f"epilogue\n{SAID}\n\ntime" in fa4sim("run", *tiny, *IDLE).out
    assert list(fa4sim("run", *tiny, *IDLE, "--json").json["idle"]) == ["page_pointers"]
    assert "no effect" not in fa4sim("run", *tiny, *IDLE, "--page-size", 16).out
    assert fa4sim("run", *tiny, "--set", "kv_stages=2", "--json").json["idle"] == {}


def test_a_scale_changes_values_which_run_has_not_and_check_has(fa4sim, tiny):
    scale = ("--set", "softmax_scale=0.1", *IDLE)
    assert list(fa4sim("run", *tiny, *scale, "--json").json["idle"]) == [
        "page_pointers",
        "softmax_scale",
    ]
    assert list(fa4sim("check", *tiny, *scale, "--json").json["idle"]) == ["page_pointers"]
    assert SAID in fa4sim("check", *tiny, *scale).out


def test_a_sweep_says_it_if_no_variant_minds(fa4sim, tiny):
    swept = ("--set", "page_pointers=naive,looped", "--jobs", 1)
    assert fa4sim("sweep", *tiny, *swept).out.endswith(f"\n{SAID}\n")
    assert list(fa4sim("sweep", *tiny, *swept, "--json").json["idle"]) == ["page_pointers"]
    some = ("--set", "exp2_period=0,16", "--set", "exp2_emulated=2,4", "--jobs", 1)
    assert fa4sim("sweep", *tiny, *some, "--json").json["idle"] == {}


def test_timelines_say_it_of_either_run(fa4sim, tiny, tmp_path):
    pytest.importorskip("matplotlib")
    target = ("-o", tmp_path / "t.npz")
    assert SAID in fa4sim("timeline", *tiny, *IDLE, *target).out
    facts = fa4sim("timeline", *tiny, *IDLE, *target, "--json").json
    assert list(facts["idle"]) == ["page_pointers"]
    two = fa4sim("timeline", *tiny, "--beside", "page_pointers=naive", "-o", tmp_path / "t.png")
    assert two.code == 0 and SAID in two.err
