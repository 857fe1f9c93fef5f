"""`fa4sim rescales`, `exp2` and `machines`: tables that measure or list."""

import pytest

from fa4sim.specs import MACHINES


def test_rescales_are_counted_with_the_threshold_and_without(fa4sim):
    options = ("--seqlen", 512, "--inputs", "normal, std 1", "--inputs", "rising by 16")
    outcome = fa4sim("rescales", *options, "--json")
    assert outcome.code == 0, outcome.err
    facts = outcome.json
    assert facts["schema"] == 1 and facts["threshold"] == 8
    assert [(row["inputs"], row["causal"]) for row in facts["rows"]] == [
        ("normal, std 1", False), ("normal, std 1", True),
        ("rising by 16", False), ("rising by 16", True),
    ]  # fmt: skip
    for row in facts["rows"]:
        assert row["warp_rescales"] <= row["warp_rescales_always"] <= row["votes"]
    assert facts["rows"][0]["warp_ratio"] is None, "none left: the ratio is infinite, not JSON"
    text = fa4sim("rescales", *options).out
    assert "always" in text and "threshold" in text and "rising by 16" in text


@pytest.mark.parametrize(
    "options, quoted",
    [
        (("--inputs", "abnormal"), "'abnormal'"),
        (("--seqlen", 0), "0"),
        (("--seqlen", 10**9), "1000000000"),
        (("--threshold", -1), "-1"),
        (("--threshold", "nan"), "nan"),
        (("--head-dim", 0), "0"),
    ],
)
def test_bad_rescale_inputs_are_refused(fa4sim, options, quoted):
    outcome = fa4sim("rescales", *options)
    assert outcome.code == 2 and quoted in outcome.err


def test_the_polynomial_errors_stand_beside_the_published_ones(fa4sim):
    facts = fa4sim("exp2", "--json").json
    assert facts["schema"] == 1
    rows = {row["method"]: row for row in facts["rows"]}
    assert list(rows) == ["MUFU", "degree 3", "degree 4", "degree 5"]
    for row in list(rows.values())[1:]:
        assert row["fp32_error"] == pytest.approx(row["published_fp32_error"], rel=0.01)
        assert row["bf16_error"] == pytest.approx(row["published_bf16_error"], rel=0.01)
    assert "8.77e-05" in fa4sim("exp2").out


def test_a_degree_that_is_not_published_has_no_published_error(fa4sim):
    outcome = fa4sim("exp2", "--bits", 8, "--degree", 1, "--json")
    assert outcome.json["rows"][1]["published_fp32_error"] is None


@pytest.mark.parametrize(
    "options, quoted", [(("--bits", 24), "24"), (("--degree", 6), "6"), (("--bits", "x"), "'x'")]
)
def test_bad_polynomials_are_refused(fa4sim, options, quoted):
    outcome = fa4sim("exp2", *options)
    assert outcome.code == 2 and quoted in outcome.err


def test_every_constant_of_every_machine_has_its_origin(fa4sim):
    facts = fa4sim("machines", "--json").json
    assert facts["schema"] == 1
    assert {machine["name"].lower() for machine in facts["machines"]} == set(MACHINES)
    for machine in facts["machines"]:
        for name, constant in machine["constants"].items():
            assert constant["kind"] in ("published", "measured", "fitted", "assumed"), name
            assert constant["source"], name
            if constant["kind"] in ("fitted", "assumed"):
                assert constant["low"] <= constant["high"], name


def test_one_machine_by_name(fa4sim):
    outcome = fa4sim("machines", "B300")
    assert outcome.code == 0
    assert "mufu_cycles_per_warp" in outcome.out and "published" in outcome.out
    assert "B200 (--machine" not in outcome.out and "B300 (--machine" in outcome.out


def test_an_unknown_machine_is_refused(fa4sim):
    outcome = fa4sim("machines", "b100")
    assert outcome.code == 2 and "'b100'" in outcome.err and "b200" in outcome.err
