"""``fa4kernel crosscheck``: what it prints, refuses and returns."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from fa4kernel.cli import crosscheck as module
from fa4kernel.cli import main
from fa4kernel.crosscheck.calls import check
from fa4kernel.crosscheck.cases import CASES, Case, cases_for
from fa4kernel.crosscheck.check import Crosscheck
from fa4kernel.crosscheck.costs import COST_MODEL, STEP_SLOTS
from fa4kernel.crosscheck.mix import AMOUNTS, OWN_RESCALES
from fa4kernel.crosscheck.numerics import SAME_BITS
from fa4kernel.crosscheck.page import page
from fa4kernel.crosscheck.verdict import Part
from fa4sim.specs import B200, Design, Problem


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["crosscheck", *arguments])


def verdict(problem: Problem, design: Design, *, wrong: str = "", hazard: str = "") -> Crosscheck:
    """A verdict as a run would give it; the part ``wrong`` differs."""
    parts = [
        Part(name, 10) for name in ("barriers", "order", "tile lifetimes", "instruction mix",
                                    "numerics")
    ]  # fmt: skip
    parts[3].figures = {name: {"simulator": 7, "kernel": 7} for name in AMOUNTS} | {OWN_RESCALES: 6}
    pair = {"rel_err": 2e-3, "max_abs_err": 1e-2, "lse_max_abs_err": 1e-6}
    parts[1].notes = ["load warps leave out their last arrival"]
    parts.append(Part(COST_MODEL, 13, figures={STEP_SLOTS: {"simulator": 515, "kernel": 492.0}}))
    parts[4].figures = {"a": pair, "b": pair, "c": pair, SAME_BITS: 0.9999}
    for part in parts:
        if part.name == wrong:
            part.equal("S_full[0] of CTA 0, who waits", "softmax0", "nobody")
    return Crosscheck(problem, design, "our kernel", parts, [hazard] if hazard else [], 1.5)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the command asks for; ``wrong`` and ``hazard`` in it decide on the verdict."""
    asked: dict[str, Any] = {"wrong": "", "hazard": ""}

    def crosscheck(problem: Problem, design: Design, machine: Any, **given: Any) -> Crosscheck:
        asked.update(problem=problem, design=design, machine=machine, **given)
        return verdict(problem, design, wrong=asked["wrong"], hazard=asked["hazard"])

    monkeypatch.setattr(module, "crosscheck", crosscheck)
    return asked


def test_a_problem_is_taken_from_the_options(made: dict[str, Any]) -> None:
    result = run("--causal", "--heads", "3", "--seqlen-k", "256", "--sms", "2", "--no-costs")
    assert result.exit_code == 0, result.output
    problem = made["problem"]
    assert (problem.causal, problem.heads, problem.seqlen_q, problem.seqlen_k) == (
        True, 3, 512, 256,
    )  # fmt: skip
    assert (made["machine"].sms, made["costs"], made["against"]) == (2, False, "ours")
    assert "barriers: agree (10 compared)" in result.output and "\nagree in 1.5 s" in result.output


def test_the_number_of_sms_can_be_set_like_any_constant(made: dict[str, Any]) -> None:
    run("--set", "machine.sms=6")
    assert made["machine"].sms == 6


def test_json_has_a_verdict_for_each_part(made: dict[str, Any]) -> None:
    facts = json.loads(run("--json", "--against", "official").output)
    assert facts["schema"] == 1 and facts["agree"] is True and made["against"] == "official"
    assert set(facts["parts"]) == {
        "barriers", "order", "tile lifetimes", "instruction mix", "numerics", "cost model",
    }  # fmt: skip
    assert facts["parts"]["order"]["agrees"] is True


def test_a_difference_is_told_with_exit_code_1(made: dict[str, Any]) -> None:
    made["wrong"] = "barriers"
    result = run("--json")
    assert result.exit_code == 1
    facts = json.loads(result.stdout)
    assert facts["agree"] is False and "differ in: barriers" in facts["error"]
    first = facts["parts"]["barriers"]["first_difference"]
    assert first == "S_full[0] of CTA 0, who waits: simulator softmax0, kernel nobody"


def test_a_hazard_is_told_with_exit_code_3(made: dict[str, Any]) -> None:
    made["hazard"] = "our kernel: hazard read-before-write"
    result = run()
    assert result.exit_code == 3 and "read-before-write" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--seqlen-q", "65536", "--seqlen-k", "65536"], "a cross-check takes 2,000 at most"),
        (["--set", "scheduler=dynamic"], "scheduler='dynamic' is not cross-checked"),
        (["--against", "theirs"], "'theirs' is not one of 'ours', 'official'"),
    ],
)
def test_what_is_not_covered_is_refused(arguments: list[str], words: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2, result.output
    assert words in result.output


def test_tiles_that_are_handed_out_are_refused_with_what_to_use() -> None:
    problem = Problem(heads=2, seqlens_q=(9, 9), seqlens_k=(900, 300), num_splits=2)
    design = Design.for_problem(problem, B200)
    with pytest.raises(ValueError, match="use --set scheduler=single_tile_varlen"):
        check(problem, design)
    check(problem, Design.for_problem(problem, B200, scheduler="single_tile_varlen"))


def test_without_the_official_package_it_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for python in (str(tmp_path / "python"), sys.executable):
        monkeypatch.setenv("FA4_PYTHON", python)
        monkeypatch.setattr("fa4kernel.official.compile.PACKAGES", ("no-such-package",))
        result = run("--against", "official")
        assert result.exit_code == 2
        assert "fa4sim[official]" in result.output and "FA4_PYTHON" in result.output


def test_the_page_has_a_row_for_each_problem_and_every_first_difference() -> None:
    right = [(case, verdict(case.problem, case.design)) for case in CASES[:2]]
    text = page({"ours": right})
    assert text.startswith("# Simulator, kernel and reference, cross-checked")
    assert "**2 of 2 runs agree in every part**" in text and "**differ**" not in text
    for case, _ in right:
        assert text.count(f"| {case.name} |") == 4
        assert f"| {case.name} | 515 | 492 |" in text
    assert text.count("- load warps leave out their last arrival") == 1
    case = CASES[2]
    wrong = [*right, (case, verdict(case.problem, case.design, wrong="order", hazard="a hazard"))]
    text = page({"ours": wrong})
    assert "**2 of 3 runs" in text and "| **differ** |" in text
    assert f"- {case.name}, order: S_full[0] of CTA 0, who waits" in text
    assert f"- {case.name}: a hazard" in text


def test_the_page_says_which_problems_a_kernel_does_not_run_and_why() -> None:
    right = [(case, verdict(case.problem, case.design)) for case in CASES[:1]]
    official = [
        (case, dataclasses.replace(check, kernel="official kernel")) for case, check in right
    ]
    (left_out,) = (case for case in CASES if case.ours_only)
    line = f"- left out: {left_out.name}; {left_out.ours_only}"
    assert line not in page({"ours": right})
    assert page({"ours": right, "official": official}).count(line) == 1


def test_the_pages_problems_are_what_the_issue_asks_for() -> None:
    def some(wanted: Any) -> list[Case]:
        return [case for case in CASES if wanted(case)]

    assert some(lambda c: c.problem.causal) and some(lambda c: c.problem.window)
    assert {64, 128, 192} <= {case.problem.head_dim for case in CASES}
    assert some(lambda c: c.design.pack_gqa) and some(lambda c: c.problem.seqlens_q)
    assert some(lambda c: c.design.kv_load == "cp_async" and c.design.q_stages == 1)
    assert some(lambda c: c.design.kv_load == "cp_async" and c.design.uneven_kv_ring)
    assert some(lambda c: c.problem.page_size == 128)
    assert some(lambda c: c.design.q_load == "cp_async" and c.design.kv_load == "tma")
    assert some(lambda c: c.design.q_load == "cp_async" and c.design.q_stages == 1)
    assert some(lambda c: c.problem.seqlens_q and c.design.num_splits > 1)
    assert some(lambda c: c.problem.page_size and c.design.num_splits > 1)
    assert cases_for("ours") == CASES
    left_out = some(lambda c: c.ours_only)
    assert [case for case in CASES if case not in left_out] == [*cases_for("official")]
    assert all(case.design.q_load == "cp_async" for case in left_out)
    assert some(lambda c: c.design.cta_group == 2) and some(lambda c: c.design.uneven_kv_ring)
    assert len({case.name for case in CASES}) == len(CASES)


def test_the_page_has_its_own_problems_and_refuses_others(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(module, "_write", lambda *given: asked.append(given))
    outcome = run("--write", "--causal", "--no-costs")
    assert outcome.exit_code == 2 and "ignores --causal, --no-costs;" in outcome.stderr
    assert not asked
    assert run("--write", "--against", "ours", "--seed", "3", "--json").exit_code == 0
    assert asked == [(True, "ours", 3)]
