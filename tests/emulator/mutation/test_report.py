"""The page and the file that a campaign writes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fa4kernel.emulator.mutation import campaign as campaigns
from fa4kernel.emulator.mutation.__main__ import main
from fa4kernel.emulator.mutation.campaign import Campaign, Options, choose, run
from fa4kernel.emulator.mutation.known import key, known
from fa4kernel.emulator.mutation.mutant import Mutant
from fa4kernel.emulator.mutation.mutants import mutants_of
from fa4kernel.emulator.mutation.problem import load
from fa4kernel.emulator.mutation.report import BEGIN, END, save, section, to_json, write
from fa4kernel.emulator.mutation.trial import Original, Outcome
from fa4kernel.emulator.ptx import parse
from tests.emulator.mutation.ring import PTX

RING = "tests.emulator.mutation.ring:ring"


@pytest.fixture(scope="module")
def campaign() -> Campaign:
    return run(RING, Options(schedules=("lockstep",), jobs=1))


def test_scores_are_parts_of_the_mutants(campaign: Campaign) -> None:
    total = len(campaign.tried)
    assert total == len(mutants_of(parse(PTX).entry()))
    assert campaign.detected + campaign.excluded + len(campaign.survivors) == total
    assert campaign.raw == campaign.detected / total <= campaign.adjusted <= 1
    assert campaign.detected > 0.85 * total
    assert campaign.uncovered == []
    assert len({key(tried.mutant) for tried in campaign.tried}) == total


def test_section_names_every_survivor_and_every_kind(campaign: Campaign) -> None:
    text = section([campaign], "the command")
    assert "`the command`" in text
    for tried in campaign.survivors:
        assert tried.mutant.name in text
    for tried in campaign.tried:
        assert f"| {tried.mutant.kind} |" in text
    assert f"{100 * campaign.raw:.1f} %" in text
    assert f"{100 * campaign.adjusted:.1f} %" in text


def test_section_takes_the_place_of_the_old_one(campaign: Campaign, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    begin, end = BEGIN.format(""), END.format("")
    page.write_text(f"# Title\n\nbefore\n\n{begin}\nold\n{end}\n\nafter\n")
    text = section([campaign], "command")
    write(page, text)
    assert page.read_text() == f"# Title\n\nbefore\n\n{text}\nafter\n"
    write(page, text)
    assert page.read_text() == f"# Title\n\nbefore\n\n{text}\nafter\n"


def test_section_is_added_to_a_page_without_one(campaign: Campaign, tmp_path: Path) -> None:
    page = tmp_path / "docs" / "page.md"
    write(page, section([campaign], "command"))
    assert page.read_text().startswith("# ") and page.read_text().endswith("end -->\n")


def test_sections_with_names_stand_side_by_side(campaign: Campaign, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    texts = {name: section([campaign], "command", name) for name in ("", "of old", "of late")}
    for name in ("", "of old", "of late", "of old"):
        write(page, texts[name], name)
    found = page.read_text()
    assert all(found.count(text) == 1 for text in texts.values())
    assert found.count("## Mutation score: of late\n") == found.count("## Mutation score\n") == 1


def test_json_holds_every_mutant(campaign: Campaign) -> None:
    (found,) = json.loads(json.dumps(to_json([campaign])))["campaigns"]
    assert len(found["mutants"]) == len(campaign.tried)
    assert {m["result"] for m in found["mutants"]} >= {"deadlock", "hazard", "invalid state"}


def test_what_a_file_knows_is_not_tried_again(
    campaign: Campaign, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "all.json"
    save(file, [campaign], keep=False)
    monkeypatch.setattr(campaigns, "attempt", None)  # would be called
    again = run(RING, campaign.options, earlier=file)
    assert [(t.mutant, t.outcome, t.rule) for t in again.tried] == [
        (t.mutant, t.outcome, t.rule) for t in campaign.tried
    ]
    assert again.seconds > sum(t.seconds for t in again.tried)


def test_with_more_schedules_only_survivors_are_tried_again(
    campaign: Campaign, tmp_path: Path
) -> None:
    file = tmp_path / "all.json"
    save(file, [campaign], keep=False)
    survived = {key(t.mutant) for t in campaign.tried if not t.outcome.detected}
    everything = {key(t.mutant) for t in campaign.tried}
    more, other = Options(("lockstep", 1), jobs=1), Options((1,), jobs=1)
    assert survived and known(file, campaign.problem, campaign.options).keys() == everything
    assert known(file, campaign.problem, more).keys() == everything - survived
    assert not known(file, campaign.problem, other)


@pytest.mark.parametrize("change", ["kernel", "seconds", "mutants"])
def test_what_was_found_otherwise_is_tried_again(
    campaign: Campaign, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    file = tmp_path / "all.json"
    facts = to_json([campaign])
    (found,) = facts["campaigns"]
    if change == "kernel":
        found["digest"] = "of another text"
    elif change == "seconds":
        found["options"]["seconds"] += 1
    else:
        del found["mutants"][3:]
    file.write_text(json.dumps(facts))
    tried: list[Mutant] = []

    def attempted(original: Original, mutant: Mutant, *rest: Any, **more: Any) -> Outcome:
        tried.append(mutant)
        return Outcome("deadlock", "lockstep")

    monkeypatch.setattr(campaigns, "attempt", attempted)
    again = run(RING, campaign.options, earlier=file)
    assert len(tried) == len(again.tried) - 3 * (change == "mutants")


def test_a_file_keeps_what_it_knows_of_other_problems(campaign: Campaign, tmp_path: Path) -> None:
    file, other = tmp_path / "all.json", replace(campaign.problem, name="another")
    save(file, [replace(campaign, problem=other)], keep=True)
    save(file, [campaign], keep=True)
    assert _names(file) == ["ring", "another"]
    save(file, [campaign], keep=False)
    assert _names(file) == ["ring"]


def _names(file: Path) -> list[str]:
    return [one["name"] for one in json.loads(file.read_text())["campaigns"]]


def test_to_resume_without_a_file_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([RING, "--resume"])
    assert "--json" in capsys.readouterr().err


def test_sample_is_drawn_from_a_seed() -> None:
    mutants = mutants_of(parse(PTX).entry())
    first = choose(mutants, Options(sample=7, seed=1))
    assert (
        first
        == choose(mutants, Options(sample=7, seed=1))
        != choose(mutants, Options(sample=7, seed=2))
    )
    assert len(first) == 7 and choose(mutants, Options()) == mutants


@pytest.mark.slow
def test_command_writes_page_and_file_with_two_processes(tmp_path: Path) -> None:
    page, file = tmp_path / "page.md", tmp_path / "all.json"
    arguments = ["--sample", "9", "--schedules", "1", "--json", str(file), "--page", str(page)]
    assert main([RING, *arguments]) == 0
    assert "Mutation score" in page.read_text()
    assert len(json.loads(file.read_text())["campaigns"][0]["mutants"]) == 9


def test_problem_must_be_named_as_module_and_function() -> None:
    with pytest.raises(ValueError, match="give a problem as"):
        load("tests.emulator.mutation.ring")
    with pytest.raises(ValueError, match="not a Problem"):
        load("tests.emulator.mutation.ring:expected")
