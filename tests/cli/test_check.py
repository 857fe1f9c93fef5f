"""`fa4sim check`: numbers through the pipeline, held against both references."""

import numpy as np
import pytest

from fa4sim.cli import check as module
from fa4sim.specs import Problem

FIELDS = {"schema", "max_abs_err", "rel_err", "lse_max_abs_err", "equals_blockwise", "ok"}


def test_the_json_of_a_check_has_the_promised_fields(fa4sim, tiny):
    outcome = fa4sim("check", *tiny, "--json")
    assert outcome.code == 0
    facts = outcome.json
    assert set(facts) >= FIELDS
    assert facts["schema"] == 1
    assert facts["ok"] is True and facts["equals_blockwise"] is True
    assert 0 < facts["rel_err"] < 4e-3
    assert 0 < facts["max_abs_err"] < 0.1
    assert 0 <= facts["lse_max_abs_err"] < 1e-4
    assert facts["votes"] > 0 and facts["rescales"] >= 0
    assert facts["hazards"] == []


def test_a_check_tells_its_verdict_in_words(fa4sim, tiny):
    outcome = fa4sim("check", *tiny)
    assert outcome.code == 0 and outcome.err == ""
    for words in ("equal, bit for bit", "float64 reference", "rescales", "hazards: none", "ok in"):
        assert words in outcome.out


@pytest.mark.parametrize(
    "options",
    [
        ("--seqlen-q", 300, "--seqlen-k", 700, "--heads", 4, "--kv-heads", 2, "--causal"),
        ("--seqlen-q", 200, "--heads", 1, "--dtype", "fp16", "--softcap", 20),
        ("--seqlen-q", 300, "--heads", 2, "--window", "100,", "--sink"),
        ("--seqlen-q", 300, "--seqlen-k", 130, "--heads", 1, "--causal"),
        ("--seqlen-q", 256, "--heads", 1, "--head-dim", 192, "--head-dim-v", 128),
        ("--seqlen-q", 512, "--heads", 1, "--set", "tile_n=64", "--set", "cta_group=1"),
        ("--seqlen-q", 256, "--heads", 1, "--set", "p_first_columns=128"),
        ("--seqlen-q", 256, "--heads", 1, "--set", "exp2_degree=4", "--set", "exp2_emulated=8"),
        ("--seqlen-q", 256, "--heads", 1, "--set", "rescale_threshold=0"),
        ("--seqlen-q", 1, "--seqlen-k", 1, "--heads", 1),
        ("--seqlen-q", 70, "--seqlen-k", 300, "--heads", 1, "--batch", 2, "--page-size", 3),
        ("--seqlen-q", 30, "--seqlen-k", 200, "--heads", 1, "--page-size", 128),
        ("--seqlen-q", 1, "--seqlen-k", 900, "--heads", 4, "--kv-heads", 2, "--num-splits", 3),
        ("--seqlen-q", 9, "--seqlen-k", 500, "--heads", 2, "--page-size", 5, "--num-splits", 2),
        ("--seqlen-q", 200, "--heads", 4, "--kv-heads", 2, "--batch", 2, "--dtype", "e4m3"),
        ("--seqlen-q", 8, "--seqlen-k", 900, "--dtype", "e5m2", "--num-splits", 0, "--causal"),
        ("--seqlen-q", 150, "--heads", 2, "--dtype", "e4m3", "--softcap", 9, "--window", "80,"),
    ],
    ids=lambda options: " ".join(map(str, options)),
)
def test_the_reference_follows_the_design(fa4sim, options):
    outcome = fa4sim("check", *options, "--json")
    assert outcome.code == 0, outcome.err
    assert outcome.json["ok"]


def test_rows_that_see_no_key_make_no_infinite_errors(fa4sim):
    facts = fa4sim("check", "--heads", 1, "--seqlen-q", 300, "--seqlen-k", 20, "--causal", "--json")
    assert facts.code == 0
    assert facts.json["lse_max_abs_err"] < 1e-4


def test_no_keys_at_all_give_zeros(fa4sim):
    outcome = fa4sim("check", "--heads", 1, "--seqlen-q", 8, "--seqlen-k", 0, "--json")
    assert outcome.code == 0
    assert outcome.json["max_abs_err"] == outcome.json["rel_err"] == 0


def test_the_seed_decides_the_inputs(fa4sim, tiny):
    first, again, other = (
        fa4sim("check", *tiny, "--seed", seed, "--json").json["max_abs_err"] for seed in (1, 1, 2)
    )
    assert first == again != other


def test_inputs_are_values_of_the_dtype():
    inputs = module.random_inputs(Problem(heads=4, kv_heads=2, seqlen_q=8, sink=True), seed=0)
    assert inputs.q.shape == (1, 8, 4, 128) and inputs.k.shape == (1, 8, 2, 128)
    assert inputs.sink is not None and inputs.sink.shape == (4,)
    assert not np.any(inputs.q.view(np.uint32) & 0xFFFF)  # bf16: the upper half of a float32


def test_pages_lie_in_any_order_among_others():
    problem = Problem(batch=3, heads=2, seqlen_q=1, seqlen_k=40, page_size=16)
    inputs = module.random_inputs(problem, seed=0)
    assert inputs.page_table is not None and inputs.page_table.shape == (3, 3)
    assert len(set(inputs.page_table.ravel().tolist())) == 9 < len(inputs.k)
    assert inputs.k.shape[1:] == (16, 2, 128)
    assert inputs.in_one_piece(problem).k.shape == (3, 40, 2, 128)


def test_numbers_that_are_too_far_fail_with_code_1(fa4sim, tiny, monkeypatch):
    monkeypatch.setitem(module.LIMITS, "bf16", 1e-6)
    outcome = fa4sim("check", *tiny, "--json")
    assert outcome.code == 1
    facts = outcome.json
    assert facts["ok"] is False and facts["equals_blockwise"] is True
    assert "check failed" in facts["error"] and "relative error" in outcome.err


def test_a_coarse_polynomial_is_too_far_from_attention(fa4sim, tiny):
    options = ("--set", "exp2_degree=1", "--set", "exp2_period=4", "--set", "exp2_first_fragment=0")
    outcome = fa4sim("check", *tiny, *options, "--json")
    assert outcome.code == 1
    facts = outcome.json
    assert facts["equals_blockwise"] is True, "the pipeline does compute what it was told"
    assert facts["rel_err"] > 4e-3


def test_output_that_differs_from_the_reference_fails_with_code_1(fa4sim, tiny, monkeypatch):
    exact = module.blockwise

    def off_by_one_bit(problem, design, inputs):
        out, lse = exact(problem, design, inputs)
        out[0, 0, 0, 0] = np.nextafter(out[0, 0, 0, 0], np.float32(9))
        return out, lse

    monkeypatch.setattr(module, "blockwise", off_by_one_bit)
    outcome = fa4sim("check", *tiny, "--json")
    assert outcome.code == 1
    assert outcome.json["equals_blockwise"] is False
    assert "differs from the blockwise reference" in outcome.err


@pytest.mark.parametrize(
    "options, quoted",
    [
        (("--seqlen-q", 65536), "65536"),
        (("--batch", 100, "--heads", 64), "64 heads"),
        (("--seqlen-q", 1, "--seqlen-k", 2**25), "33554432"),
    ],
)
def test_a_check_of_something_gigantic_is_refused(fa4sim, options, quoted):
    outcome = fa4sim("check", *options)
    assert outcome.code == 2
    assert quoted in outcome.err and "Lower" in outcome.err


def test_pages_that_would_fill_the_memory_are_refused(fa4sim):
    small = ("--seqlen-q", 1, "--seqlen-k", 10, "--heads", 1)
    outcome = fa4sim("check", *small, "--page-size", 10**8)
    assert outcome.code == 2
    assert "page_size=100000000: random pages would hold 102,400,000,000 elements" in outcome.err


def test_a_sink_that_splits_lose_is_told(fa4sim):
    rows_without_keys = ("--seqlen-q", 600, "--seqlen-k", 100, "--heads", 1, "--causal", "--sink")
    assert "LSE NOT" not in fa4sim("check", *rows_without_keys).out
    outcome = fa4sim("check", *rows_without_keys, "--num-splits", 3)
    assert "LSE NOT A NUMBER (tiles of splits that see no key lose their sink" in outcome.out


def test_an_lse_that_is_no_number_is_not_called_exact():
    exact = np.array([1.0, 2.0, -np.inf])
    assert module.lse_error(np.float32([1.0, 2.0, -np.inf]), exact) == 0.0
    assert module.lse_error(np.float32([1.0, 2.5, -np.inf]), exact) == 0.5
    for garbage in ([np.nan, 2.0, -np.inf], [np.inf, 2.0, -np.inf], [1.0, 2.0, 0.0]):
        assert np.isnan(module.lse_error(np.float32(garbage), exact))


def test_the_reference_takes_the_thresholds_that_a_design_may_have(fa4sim, tiny):
    outcome = fa4sim("check", *tiny, "--set", "rescale_threshold=20", "--json")
    assert outcome.code == 0 and outcome.json["equals_blockwise"] is True
