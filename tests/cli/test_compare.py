"""`fa4sim compare`: two variants, what was changed, what differs."""

import pytest

ONE = ("--batch", "1", "--heads", "2", "--seqlen-q", "1024")


def test_two_designs_side_by_side(fa4sim):
    outcome = fa4sim(
        "compare", *ONE, "--set", "cta_group=1", "--set-a", "kv_stages=2", "--set-b", "kv_stages=3",
        "--json",
    )  # fmt: skip
    assert outcome.code == 0, outcome.err
    facts = outcome.json
    assert facts["schema"] == 1
    assert facts["changed"] == {"kv_stages": {"a": 2, "b": 3}}
    assert facts["a"]["design"]["cta_group"] == facts["b"]["design"]["cta_group"] == 1
    rows = {row["quantity"]: row for row in facts["differences"]}
    time = rows["time_us"]
    assert time["a"] == facts["a"]["time_us"] and time["b"] == facts["b"]["time_us"]
    assert time["ratio"] == pytest.approx(time["b"] / time["a"])
    assert time["difference"] == pytest.approx(time["b"] - time["a"])
    assert facts["speedup"] == pytest.approx(time["a"] / time["b"])
    assert {"tflops", "cycles", "units.tensor", "units.mufu"} <= set(rows)
    assert any(name.startswith("waits.mma.") for name in rows)


def test_two_machines_side_by_side(fa4sim):
    facts = fa4sim("compare", *ONE, "--machine-b", "b300", "--json").json
    assert facts["a"]["machine"]["name"] == "B200" and facts["b"]["machine"]["name"] == "B300"
    assert facts["changed"]["machine.mufu_cycles_per_warp"] == {"a": 8.0, "b": 4.0}
    assert facts["b"]["design"]["exp2_period"] == 0, "the kernel's choice follows the machine"
    assert "exp2_period" in facts["changed"]


def test_what_follows_from_a_change_is_listed_too(fa4sim):
    outcome = fa4sim("compare", *ONE, "--set-a", "cta_group=1")
    assert outcome.code == 0
    assert "cta_group 1 → 2" in outcome.out
    assert "kv_stages" in outcome.out
    for words in ("time, µs", "TFLOP/s", "tensor busy", "waits for", "times"):
        assert words in outcome.out


def test_two_problems_are_compared_by_throughput(fa4sim):
    options = ("--batch", 1, "--heads", 2, "--set-a", "seqlen_q=512", "--set-b", "seqlen_q=2048")
    facts = fa4sim("compare", *options, "--json").json
    assert facts["speedup"] == pytest.approx(facts["b"]["tflops"] / facts["a"]["tflops"])
    assert "by throughput" in fa4sim("compare", *options).out


@pytest.mark.parametrize(
    "options, said",
    [
        ((), "A and B are the same"),
        (("--set-b", "kv_stages=2", "--set-a", "kv_stages=2"), "A and B are the same"),
        (("--set-b", "kv_stages=200"), "200"),
        (("--set-b", "no_field=2"), "'no_field'"),
        (("--machine-b", "b100"), "'b100'"),
        (("--set-b", "seqlen_q=512"), "given twice"),
    ],
)
def test_a_comparison_that_cannot_be_made_is_refused(fa4sim, options, said):
    outcome = fa4sim("compare", *ONE, *options)
    assert outcome.code == 2 and said in outcome.err


def test_a_setting_that_changes_nothing_is_said_to(fa4sim):
    options = ("--batch", 1, "--heads", 1, "--seqlen-q", 128, "--set-b", "page_pointers=naive")
    outcome = fa4sim("compare", *options)
    assert outcome.code == 0
    assert "page_pointers has no effect here: K and V come by TMA" in outcome.out
    facts = fa4sim("compare", *options, "--json").json
    assert list(facts["idle"]) == ["page_pointers"] and facts["speedup"] == 1
    paged = fa4sim("compare", *options, "--page-size", 16, "--json").json
    assert paged["idle"] == {} and paged["speedup"] < 1


def test_one_side_that_uses_a_setting_is_enough(fa4sim):
    options = ("--batch", 1, "--heads", 1, "--seqlen-q", 128, "--set-a", "exp2_period=0")
    both = fa4sim("compare", *options, "--set-b", "exp2_emulated=6", "--json").json
    assert both["idle"] == {} and both["speedup"] != 1
    off = fa4sim("compare", *options, "--set-b", "exp2_period=0", "--set", "exp2_emulated=6",
                 "--set-b", "kv_stages=2", "--json").json  # fmt: skip
    assert list(off["idle"]) == ["exp2_emulated"]
