"""A soak finds what is not right in every order, and writes its section of a page."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fa4kernel.emulator.soak import runs
from fa4kernel.emulator.soak.__main__ import main
from fa4kernel.emulator.soak.orders import schedules
from fa4kernel.emulator.soak.report import BEGIN, END, section, write
from fa4kernel.emulator.soak.subject import all_of, load

RACES = "tests.emulator.soak.races"


def test_a_right_kernel_is_good_under_all() -> None:
    (found,) = runs.soak([f"{RACES}:right"], 40)
    assert found.good
    assert len(found.runs) == 40
    assert {run.schedule for run in found.runs} >= {"lockstep", "delay warp 1", "hurry tma", "0"}


def test_a_race_is_reported_and_gives_several_outputs() -> None:
    (found,) = runs.soak([f"{RACES}:unordered"], 40)
    assert not found.good
    assert found.outputs == 2
    texts = [text for _, text in found.wrong]
    assert any("read-before-write" in text for text in texts)
    assert any("0, not 7" in text for text in texts)


def test_what_is_known_is_counted_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    subject = replace(load(f"{RACES}:unordered"), known={"read-before-write": "It is a race."})
    monkeypatch.setattr(runs, "_loaded", lambda where: subject)
    monkeypatch.setattr(runs, "load", lambda where: subject)
    (found,) = runs.soak([f"{RACES}:unordered"], 10)
    assert 0 < found.known["read-before-write"] <= 10
    assert not any("read-before-write" in text for _, text in found.wrong)
    assert "It is a race." in section([found], "the command", "default")


def test_wrong_outputs_and_deadlocks_are_reported() -> None:
    wrong, stuck = runs.soak([f"{RACES}:unread", f"{RACES}:stuck"], 3)
    assert wrong.wrong == [(run.schedule, "8, not 7") for run in wrong.runs]
    assert all("deadlock" in text for _, text in stuck.wrong)
    text = section([wrong, stuck], "the command", "default")
    assert "| unread | two warps, unread | 3 | 3 | 1 |" in text
    assert "deadlock" in text


def test_the_command_writes_its_section_and_leaves_the_rest(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"# Page\n\nbefore\n\n{BEGIN}\nold\n{END}\n\nafter\n")
    assert main([f"{RACES}:right", "--schedules", "3", "--page", str(page)]) == 0
    text = page.read_text()
    assert text.startswith("# Page\n\nbefore\n")
    assert text.endswith("\nafter\n")
    assert "old" not in text
    assert "| right | two warps, right | 3 | 0 | 1 |" in text
    assert f"{RACES}:right --schedules 3" in text
    write(page, text[text.index(BEGIN) : text.index(END) + len(END)] + "\n")
    assert page.read_text() == text
    assert main([f"{RACES}:unordered", "--schedules", "8"]) == 1


def test_processes_give_the_same(tmp_path: Path) -> None:
    (one,), (two,) = (runs.soak([f"{RACES}:right"], 6, jobs) for jobs in (1, 2))
    assert [(r.schedule, r.outputs) for r in one.runs] == [
        (r.schedule, r.outputs) for r in two.runs
    ]


@pytest.mark.parametrize("wrong", ["", "module", "module:", ":name"])
def test_a_subject_has_a_module_and_a_name(wrong: str) -> None:
    with pytest.raises(ValueError, match=r"package\.module:name"):
        load(wrong)


@pytest.mark.parametrize("count, warps, ctas", [(100, 16, 8), (100, 16, 1), (20, 1, 1), (1, 4, 4)])
def test_there_are_as_many_orders_as_wanted_and_all_differ(
    count: int, warps: int, ctas: int
) -> None:
    found = schedules(count, warps, ctas)
    assert len(found) == len(set(found)) == count
    assert found[0] == "lockstep"


def test_subjects_of_the_command_exist() -> None:
    pytest.importorskip("fa4kernel.examples", reason="needs the CuTe DSL")
    assert len(all_of("tests.emulator.soak.examples")) == 4
    assert len(all_of("tests.emulator.soak.ours")) == 13
    assert len(all_of("tests.emulator.soak.official")) >= 12


@pytest.mark.parametrize("name", ["tma_copy", "gemm", "gemm_pair", "ring"])
def test_the_examples_are_good_under_some_orders(name: str) -> None:
    pytest.importorskip("fa4kernel.examples", reason="needs the CuTe DSL")
    (found,) = runs.soak([f"tests.emulator.soak.examples:{name}"], 6)
    assert found.wrong == []
    assert found.outputs == 1


@pytest.mark.slow
@pytest.mark.sample(1)
@pytest.mark.parametrize("where", all_of("tests.emulator.soak.ours"))
def test_our_kernel_is_good_under_some_orders(where: str) -> None:
    pytest.importorskip("fa4kernel.examples", reason="needs the CuTe DSL")
    (found,) = runs.soak([where], 8)
    assert found.wrong == []
    assert found.outputs == 1
