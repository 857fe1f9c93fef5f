"""`fa4kernel run`: its report, its JSON contract, how it ends."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("cutlass", reason="needs the CuTe DSL: pip install 'fa4sim[kernel]'")

from fa4kernel import api
from fa4kernel.cli import run as command
from fa4kernel.cli.pages import with_traps
from fa4kernel.emulator import DeadlockError, Emulation, EmulationError
from fa4kernel.emulator.checks.hazard import Hazard, Party
from fa4sim.cli.check import random_inputs
from fa4sim.numerics import attention_float64, round_to
from fa4sim.specs import Problem

#: The problem of `test_attention`, so that its kernel serves here, too.
TINY = ("--heads", 1, "--seqlen-q", 100, "--head-dim", 64, "--causal", "--backend", "emulator")
PROMISED = {"rel_err", "max_abs_err", "lse_max_abs_err", "hazards", "wall_s", "ok"}


@pytest.fixture
def pretended(monkeypatch):
    """No kernel runs: the output is float64 attention, changed by a function, and hazards."""

    def pretend(change=lambda out: out, hazards=(), error=None):
        def run_problem(problem, inputs, **how):
            if error is not None:
                raise error
            out, lse = attention_float64(
                inputs.q, inputs.k, inputs.v, causal=problem.causal, seqlens_q=problem.seqlens_q,
                seqlens_k=problem.seqlens_k,
            )  # fmt: skip
            emulation = Emulation(1, 1, 0.1, 0.1, tuple(hazards))
            out = round_to(change(out).astype(np.float32), problem.dtype)
            return api.Result(out, lse, "emulator", problem, None, 0.1, emulation)

        monkeypatch.setattr(command, "run_problem", run_problem)

    return pretend


def test_the_json_of_a_run_has_the_promised_fields(fa4kernel):
    outcome = fa4kernel("run", *TINY, "--json")
    assert outcome.code == 0 and outcome.err == ""
    facts = outcome.json
    assert facts["schema"] == 1 and set(facts) >= PROMISED
    assert facts["ok"] is True and facts["hazards"] == []
    assert 0 < facts["rel_err"] <= facts["rel_err_limit"] < 0.02
    assert 0 < facts["max_abs_err"] <= facts["max_abs_err_limit"]
    assert 0 <= facts["lse_max_abs_err"] <= 1e-3 and facts["wall_s"] > 0
    assert facts["backend"] == "emulator" and facts["seed"] == 0
    assert facts["problem"]["seqlen_q"] == 100 and facts["design"]["scheduler"] == "lpt"


def test_the_text_has_the_figures(fa4kernel):
    outcome = fa4kernel("run", *TINY)
    assert outcome.code == 0
    for words in ("backend: emulator", "float64 reference: relative error", "LSE: largest error",
                  "hazards: none", "ok in"):  # fmt: skip
        assert words in outcome.out


def test_a_wrong_output_ends_with_1(fa4kernel, pretended):
    pretended(lambda out: 1.05 * out)
    outcome = fa4kernel("run", *TINY, "--json")
    assert outcome.code == 1
    assert outcome.json["ok"] is False and outcome.json["rel_err"] > outcome.json["rel_err_limit"]
    assert "further off than it may be" in outcome.json["error"]


def test_one_wrong_element_ends_with_1(fa4kernel, pretended):
    def change(out):
        out[0, 50, 0, 7] += 0.5
        return out

    pretended(change)
    assert fa4kernel("run", *TINY, "--json").code == 1


def test_an_output_that_is_no_number_ends_with_1_and_is_still_json(fa4kernel, pretended):
    pretended(lambda out: np.full_like(out, np.nan))
    outcome = fa4kernel("run", *TINY, "--json")
    assert outcome.code == 1 and outcome.json["ok"] is False


def test_a_hazard_ends_with_3(fa4kernel, pretended):
    reader = Party("warp 0 of CTA 0", None, 9)
    pretended(hazards=[Hazard("read-before-write", "it reads too early", None, reader)])
    outcome = fa4kernel("run", *TINY, "--json")
    assert outcome.code == 3
    assert outcome.json["ok"] is False and "1 hazard" in outcome.json["error"]
    assert outcome.json["hazards"][0]["kind"] == "read-before-write"


def test_an_advisory_is_told_and_ends_with_0(fa4kernel, pretended):
    reader = Party("warp 0 of CTA 0", None, 9)
    pretended(hazards=[Hazard("tmem-fence", "a fence is missing", None, reader, None, "emulate()")])
    outcome = fa4kernel("run", *TINY)
    assert outcome.code == 0 and "ok in" in outcome.out
    assert "1 report (1 advisory) by the checks" in outcome.out
    assert "replay" not in outcome.out  # nobody here has called emulate()


def test_a_fault_of_the_kernel_ends_with_3(fa4kernel, pretended):
    pretended(error=EmulationError("too many arrivals", kind="arrival-underflow"))
    outcome = fa4kernel("run", *TINY, "--json")
    assert outcome.code == 3 and outcome.json["fault"] == "arrival-underflow"


def test_a_deadlock_ends_with_3_and_tells_who_waits(fa4kernel, monkeypatch):
    emulate = api.emulate

    def stuck(ptx, launch, **options):
        """The kernel whose MMA warp never hears of K."""
        lines = ptx.split("\n")
        at = next(i for i, line in enumerate(lines) if "mbarrier.arrive.expect_tx" in line)
        return emulate("\n".join(lines[:at] + lines[at + 1 :]), launch, **options)

    monkeypatch.setattr(api, "emulate", stuck)
    outcome = fa4kernel("run", *TINY, "--json")
    assert outcome.code == 3 and "load_KV_full" in outcome.out
    arrays = [np.zeros((1, 100, 1, 64), np.float32)] * 3
    with pytest.raises(DeadlockError):
        api.run(*arrays, causal=True, dtype="bf16", backend="emulator")


def test_sequences_are_padded_for_the_comparison():
    problem = Problem(heads=2, seqlens_q=(3, 0, 5), seqlens_k=(4, 1, 2), head_dim=64)
    inputs = random_inputs(problem, 0)
    given = command.arguments(problem, inputs)
    assert given["q"].shape == (8, 2, 64) and given["k"].shape == (7, 2, 64)
    assert np.array_equal(given["q"][3:], inputs.q[2, :5])
    assert given["cu_seqlens_q"].tolist() == [0, 3, 3, 8]
    assert given["cu_seqlens_k"].tolist() == [0, 4, 5, 7]
    whole = command.padded(problem, given["q"])
    assert np.array_equal(whole[2], inputs.q[2]) and not whole[1].any() and not whole[0, 3:].any()
    lse = command.padded_lse(problem, np.arange(16, dtype=np.float32).reshape(2, 8))
    assert lse.shape == (3, 2, 5)
    assert lse[0, 1].tolist() == [8, 9, 10, -np.inf, -np.inf] and (lse[1] == -np.inf).all()


@pytest.mark.slow
def test_sequences_of_different_length(fa4kernel, tmp_path):
    lengths = tmp_path / "lengths.json"
    lengths.write_text('{"q": [100, 0, 30], "k": [50, 10, 300]}')
    outcome = fa4kernel(
        "run", "--heads", 1, "--head-dim", 64, "--seqlens", lengths, "--json", "--backend",
        "emulator",
    )  # fmt: skip
    assert outcome.code == 0 and outcome.json["ok"] is True
    assert outcome.json["problem"]["seqlens_q"] == [100, 0, 30]
    assert outcome.json["design"]["scheduler"] == "single_tile_varlen"


def test_a_file_of_lengths_that_is_not_there_is_bad_input(fa4kernel, tmp_path):
    outcome = fa4kernel("run", "--seqlens", tmp_path / "none.json", "--json")
    assert outcome.code == 2 and "none.json" in outcome.json["error"]


@pytest.mark.parametrize(
    "options, quoted",
    [
        (("--softcap", 5), "softcap=5.0: the forward kernel has none"),
        (("--dtype", "fp8"), "fp8"),
        (("--num-splits", 257), "num_splits=257"),
        (
            ("--num-splits", 2, "--head-dim", 192, "--head-dim-v", 128),
            "num_splits=2 with head dims",
        ),
        (("--descale",), "descale=True with dtype='bf16': only FP8 is descaled"),
        (("--head-dim", 60), "60"),
        (("--schedule", "backwards"), "schedule='backwards'"),
        (("--set", "scheduler=dynamic"), "scheduler='dynamic'"),
        (("--set", "kv_stages=40"), "kv_stages=40"),
        (("--heads", 3, "--kv-heads", 1, "--set", "q_load=tma"), "q_load"),
        (("--seqlen-q", 10**6), "1000000"),
        (("--backend", "tpu"), "tpu"),
        (("--machine", "h200"), "this command runs the Blackwell kernel"),
    ],
)
def test_refusals_end_with_2_before_anything_runs(fa4kernel, options, quoted):
    outcome = fa4kernel("run", "--heads", 1, *options, "--json")
    assert outcome.code == 2 and quoted in outcome.out + outcome.err


def test_a_compiler_that_is_not_there_is_bad_input(fa4kernel, monkeypatch):
    monkeypatch.setattr("fa4kernel.compiling.find_spec", lambda name: None)
    outcome = fa4kernel("run", "--heads", 1, "--seqlen-q", 1, "--seqlen-k", 64)
    assert outcome.code == 2 and "pip install 'fa4sim[kernel]'" in outcome.err


def test_a_gpu_that_is_not_there_is_bad_input(fa4kernel, monkeypatch):
    monkeypatch.setattr("fa4kernel.gpu.missing", lambda: "PyTorch finds no CUDA GPU")
    outcome = fa4kernel("run", "--heads", 1, "--seqlen-q", 100, "--backend", "gpu")
    assert outcome.code == 2 and "backend='gpu', but PyTorch finds no CUDA GPU" in outcome.err


def test_pages_of_a_run_have_traps_where_no_sequence_has_a_key(fa4kernel):
    outcome = fa4kernel(
        "run", "--heads", 4, "--kv-heads", 2, "--batch", 2, "--seqlen-q", 1, "--seqlen-k", 300,
        "--page-size", 16, "--head-dim", 64, "--backend", "emulator", "--json",
    )  # fmt: skip
    assert outcome.code == 0 and outcome.json["ok"] is True
    assert outcome.json["problem"]["page_size"] == 16
    assert outcome.json["design"]["kv_load"] == "cp_async"


@pytest.mark.parametrize("size, left", [(16, np.nan), (128, 300.0)])
def test_what_lies_in_pages_beside_the_keys(size, left):
    problem = Problem(batch=2, seqlen_q=1, seqlens_k=(size + 1, 0), page_size=size)
    inputs = random_inputs(problem, 0)
    given = with_traps(problem, inputs)
    first, last = given["page_table"][0, :2]
    assert (given["page_table"][1] == -1).all()
    assert given["seqused_k"].tolist() == [size + 1, 0]
    for name in ("k", "v"):
        pages, before = given[name], getattr(inputs, name)
        assert (pages[first] == before[first]).all() and (pages[last, 0] == before[last, 0]).all()
        np.testing.assert_array_equal(pages[last, 1:], left)
        others = np.delete(pages, [first, last], axis=0)
        assert len(others) and np.isnan(others).all()
