"""The page on inference: what it is made of, and what must hold whatever the figures are."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from fa4sim.specs import B200, Design, Problem
from fa4sim.validation import Inference, inference_page, write_inference_page
from fa4sim.validation.bandwidth import InFlight
from fa4sim.validation.inference import STEPS, inference_calls
from fa4sim.validation.inference_page import NEW
from fa4sim.validation.inference_runs import Call, Outcome, published, run_call

CALLS = dict(inference_calls())


def stand_in(call: Call) -> Outcome:
    """An outcome as quick as thought: time by queries and keys, less for more splits."""
    problem = call.problem
    design = Design.for_problem(problem, B200, **call.design)
    time = 5 + (problem.seqlen_k or 0) / 100 / min(design.num_splits, 20)
    time *= 0.9 if problem.dtype == "e4m3" else 1.0
    return Outcome(
        time, problem.flops / time / 1e6, 3e12, 0.8 * time, 0.1 * time, design.num_splits, 0.5,
        "HBM bandwidth is saturated: busy 95% of the time.", {"tensor": 0.2, "mufu": 0.5},
    )  # fmt: skip


@pytest.fixture(name="result", scope="module")
def _result() -> Inference:
    outcomes = {key: stand_in(call) for key, call in CALLS.items()}
    return Inference(outcomes, (), {(4, 32): 21.0}, 1.0)


def test_the_page_has_every_figure_and_no_hole(result: Inference) -> None:
    result = replace(result, rings=_some_rings())
    text = inference_page(result)
    assert "nan" not in text and "None" not in text
    for heading in ("Headline", "FP8", "Decode", "Bytes in flight", "splitting", "Batches",
                    "Sensitivity", "Constants"):  # fmt: skip
        assert re.search(rf"^## .*{heading}", text, re.MULTILINE), heading
    for row in published()["decode"]:
        assert row["name"] in text and f"{row['published_us']:,}" in text
    assert all(f"`{name}`" in text for name in NEW) and all(name in text for name in STEPS)
    assert "1.16 ×" in text and "4.37 ×" in text
    assert "fa4sim validate" not in inference_page(result, written=False)


def _some_rings() -> tuple[InFlight, ...]:

    return (InFlight("hbm", 1, 16, 13.8, 15.3),)


def test_the_page_is_written_whole_into_a_clone_only(result: Inference, tmp_path) -> None:
    result = replace(result, rings=_some_rings())
    with pytest.raises(ValueError, match="is not a copy of the fa4sim repository"):
        write_inference_page(result, tmp_path)
    (tmp_path / "pyproject.toml").touch()
    path = write_inference_page(result, tmp_path)
    assert path.read_text(encoding="utf-8").startswith("# Simulated against published: inference")
    assert [p.name for p in path.parent.iterdir()] == ["inference.md"]


def test_every_call_can_be_made() -> None:
    for call in CALLS.values():
        machine = B200.with_constants(**call.constants)
        Design.for_problem(call.problem, machine, **call.design)
    assert len({key[0] for key in CALLS}) == 10


def test_no_constant_is_another_than_in_the_forward_validation() -> None:
    for key, call in CALLS.items():
        assert not call.constants or key[0] in ("vary", "assume")
    assert all(B200.origins[name].kind == "assumed" for name in NEW)


def test_a_call_comes_to_what_the_simulation_says() -> None:
    problem = Problem(heads=8, kv_heads=2, seqlen_q=1, seqlen_k=8192, num_splits=0)
    outcome = run_call(Call(problem))
    assert outcome.splits == 64 and outcome.combine_us > 0
    assert outcome.attention_us + outcome.combine_us < outcome.time_us
    moved = 2 * 2 * 8192 * 128 * 2
    assert outcome.hbm * outcome.time_us * 1e-6 == pytest.approx(moved, rel=0.02)
    slow = run_call(Call(problem, constants={"hbm_bytes_per_second": 3e12}))
    assert slow.attention_us > 1.2 * outcome.attention_us
    assert outcome.busiest[0] in outcome.units


@pytest.mark.slow
def test_headline_ratios_come_out_within_a_tenth() -> None:
    def time(call: Call) -> float:
        return run_call(call).time_us

    fp8 = [CALLS["fp8", 128, False, 1024, dtype] for dtype in ("bf16", "e4m3")]
    split = [CALLS["long", 32, 256, splits] for splits in (1, 0)]
    data = published()["headlines"]
    assert time(fp8[0]) / time(fp8[1]) == pytest.approx(data["fp8"], rel=0.1)
    assert time(split[0]) / time(split[1]) == pytest.approx(data["split"], rel=0.1)
