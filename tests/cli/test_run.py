"""`fa4sim run`: its report and its JSON contract."""

import pytest

import fa4sim as library
from fa4sim.specs import B200, Design, Problem

UNITS = {"tensor", "mufu", "fma", "alu", "issue", "smem", "tmem", "hbm"}


def test_the_json_of_a_run_has_the_promised_fields(fa4sim, tiny):
    facts = fa4sim("run", *tiny, "--json").json
    assert facts["schema"] == 1
    assert facts["time_us"] > facts["launch_us"] > 0
    assert facts["tflops"] > 0
    assert isinstance(facts["cycles"], int) and facts["cycles"] > 0
    assert isinstance(facts["bottleneck"], str) and facts["bottleneck"]
    assert set(facts["units"]) >= UNITS
    assert all(0 <= busy <= 1 for busy in facts["units"].values())
    assert facts["waits"]
    for wait in facts["waits"]:
        assert set(wait) >= {"role", "barrier", "cycles", "share"}
        assert 0 <= wait["share"] <= 1
    assert isinstance(facts["events"], int) and facts["events"] > 0
    assert facts["wall_s"] > 0
    assert facts["hazards"] == []


def test_the_json_says_what_was_run(fa4sim, tiny):
    facts = fa4sim("run", *tiny, "--causal", "--set", "kv_stages=2", "--json").json
    assert facts["problem"]["seqlen_q"] == facts["problem"]["seqlen_k"] == 256
    assert facts["problem"]["causal"] is True
    assert facts["design"]["kv_stages"] == 2
    assert facts["machine"]["name"] == "B200"
    assert facts["machine"]["sms"] == B200.sms


def test_the_command_says_what_the_library_says(fa4sim):
    facts = fa4sim(
        "run", "--batch", 2, "--heads", 4, "--kv-heads", 2, "--seqlen-q", 700, "--seqlen-k", 900,
        "--head-dim", 64, "--dtype", "fp16", "--window", "256,0", "--softcap", 20, "--seed", 3,
        "--json",
    ).json  # fmt: skip
    problem = Problem(
        batch=2, heads=4, kv_heads=2, seqlen_q=700, seqlen_k=900, head_dim=64, dtype="fp16",
        window=(256, 0), softcap=20.0,
    )  # fmt: skip
    report = library.simulate(problem, seed=3).report
    assert facts["cycles"] == report.cycles
    assert facts["time_us"] == pytest.approx(report.time_us)
    assert facts["units"] == pytest.approx(report.units)


def test_a_run_with_pages_says_so(fa4sim):
    outcome = fa4sim("run", "--heads", 2, "--seqlen-q", 1, "--seqlen-k", 2048, "--page-size", 1)
    assert outcome.code == 0
    assert "pages of 1" in outcome.out and "cp.async with transposed pointers" in outcome.out
    facts = fa4sim("run", "--heads", 1, "--seqlen-q", 8, "--page-size", 128, "--json").json
    assert facts["problem"]["page_size"] == 128 and facts["design"]["kv_load"] == "tma"
    refused = fa4sim("run", "--heads", 1, "--seqlen-q", 8, "--page-size", 0)
    assert refused.code == 2 and "page_size=0 must be at least 1" in refused.err


def test_the_text_of_a_run_has_the_figures(fa4sim, tiny):
    outcome = fa4sim("run", *tiny)
    assert outcome.code == 0 and outcome.err == ""
    for words in ("TFLOP/s", "cycles", "launch", "tensor", "busy", "waits for", "bottleneck:",
                  "events", "design:"):  # fmt: skip
        assert words in outcome.out


def test_the_design_is_the_kernels_own_unless_it_is_set(fa4sim, tiny):
    facts = fa4sim("run", *tiny, "--json").json
    chosen = Design.for_problem(Problem(seqlen_q=256), B200)
    assert facts["design"]["kv_stages"] == chosen.kv_stages
    assert facts["design"]["exp2_period"] == chosen.exp2_period


def test_exact_mode_simulates_every_cta(fa4sim):
    options = ("--batch", 1, "--heads", 8, "--seqlen-q", 1024, "--causal", "--json")
    reused, exact = (fa4sim("run", *options, *more).json for more in ((), ("--exact",)))
    assert exact["events"] >= reused["events"]
    assert exact["cycles"] == pytest.approx(reused["cycles"], rel=0.01)


def test_a_slower_clock_takes_longer(fa4sim, tiny):
    usual = fa4sim("run", *tiny, "--json").json
    slow = fa4sim("run", *tiny, "--set", "machine.clock_hz=0.925e9", "--json").json
    assert slow["machine"]["clock_hz"] == 0.925e9
    assert slow["time_us"] > 1.5 * usual["time_us"]


def test_b300_has_faster_exponentials(fa4sim, tiny):
    assert fa4sim("run", *tiny, "--machine", "B300", "--json").json["machine"]["name"] == "B300"


def test_no_keys_at_all_take_the_launch_only(fa4sim):
    facts = fa4sim("run", "--batch", 1, "--heads", 1, "--seqlen-q", 8, "--seqlen-k", 0, "--json")
    assert facts.code == 0
    assert facts.json["cycles"] == 0
    assert facts.json["time_us"] == pytest.approx(facts.json["launch_us"])


def test_settings_can_name_fields_of_the_problem(fa4sim, tiny):
    facts = fa4sim("run", *tiny, "--set", "softmax_scale=0.5", "--json").json
    assert facts["problem"]["softmax_scale"] == 0.5


@pytest.mark.parametrize(
    "options, quoted",
    [
        (("--seqlen-q", 2_000_000_000), "2000000000"),
        (("--seqlen-q", 256, "--seqlen-k", 10**9), "1000000000"),
        (("--batch", 10**9), "1000000000"),
    ],
)
def test_a_gigantic_problem_is_refused_and_says_what_to_lower(fa4sim, options, quoted):
    outcome = fa4sim("run", *options)
    assert outcome.code == 2
    assert quoted in outcome.err and "lower" in outcome.err


def test_a_causal_run_of_unequal_lengths_says_what_it_counts(fa4sim):
    lengths = ("--heads", 1, "--batch", 1, "--seqlen-q", 256, "--seqlen-k", 1024, "--causal")
    outcome = fa4sim("run", *lengths)
    assert "causal counts half of queries x keys" in outcome.out
    facts = fa4sim("run", *lengths, "--json").json
    assert facts["tflops_visible"] > 1.5 * facts["tflops"]
    assert f"{facts['tflops_visible']:,.0f} TFLOP/s" in outcome.out
    square = fa4sim("run", "--heads", 1, "--batch", 1, "--seqlen-q", 256, "--causal")
    assert "counts half" not in square.out


DECODE = ("--batch", 1, "--heads", 8, "--kv-heads", 1, "--seqlen-q", 1, "--seqlen-k", 20000)


def test_split_keys_are_two_kernels(fa4sim):
    outcome = fa4sim("run", *DECODE, "--num-splits", 0, "--dtype", "e4m3", "--json")
    assert outcome.code == 0
    facts = outcome.json
    attention, combine = facts["kernels"]
    assert (attention["name"], combine["name"]) == ("attention", "combine")
    assert facts["design"]["num_splits"] == attention["ctas"] == 128
    assert facts["useful_rows"] == 8 / 128
    words = fa4sim("run", *DECODE, "--num-splits", 0).out
    assert "splits by heuristic" in words and "keys in 128 splits" in words
    assert "combine " in words and "6.2% of the rows multiplied are the problem's" in words


def test_without_splits_there_is_one_kernel_and_no_word_of_it(fa4sim):
    outcome = fa4sim("run", *DECODE, "--json")
    assert [kernel["name"] for kernel in outcome.json["kernels"]] == ["attention"]
    words = fa4sim("run", *DECODE).out
    assert " splits" not in words and "combine" not in words
