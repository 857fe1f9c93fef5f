"""The page and the file that a campaign writes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fa4kernel.emulator.mutation.__main__ import main
from fa4kernel.emulator.mutation.campaign import Campaign, Options, choose, run
from fa4kernel.emulator.mutation.mutants import mutants_of
from fa4kernel.emulator.mutation.problem import load
from fa4kernel.emulator.mutation.report import BEGIN, END, section, to_json, write
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
    page.write_text(f"# Title\n\nbefore\n\n{BEGIN}\nold\n{END}\n\nafter\n")
    text = section([campaign], "command")
    write(page, text)
    assert page.read_text() == f"# Title\n\nbefore\n\n{text}\nafter\n"
    write(page, text)
    assert page.read_text() == f"# Title\n\nbefore\n\n{text}\nafter\n"


def test_section_is_added_to_a_page_without_one(campaign: Campaign, tmp_path: Path) -> None:
    page = tmp_path / "docs" / "page.md"
    write(page, section([campaign], "command"))
    assert page.read_text().startswith("# ") and page.read_text().endswith(f"{END}\n")


def test_json_holds_every_mutant(campaign: Campaign) -> None:
    (found,) = json.loads(json.dumps(to_json([campaign])))["campaigns"]
    assert len(found["mutants"]) == len(campaign.tried)
    assert {m["result"] for m in found["mutants"]} >= {"deadlock", "hazard", "invalid state"}


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
