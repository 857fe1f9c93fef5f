"""What every notebook has: a head, short cells, predictions, two exercises, links that lead on."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"
PATHS = sorted(NOTEBOOKS.glob("[0-9]*.ipynb"))

every_notebook = pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)


def cells(path: Path, kind: str) -> list[str]:
    notebook = nbformat.read(path, as_version=4)
    return [cell.source for cell in notebook.cells if cell.cell_type == kind]


def test_the_notebooks_are_there() -> None:
    assert [path.stem[:2] for path in PATHS] == [
        "01",
        "02",
        "03",
        "04",
        "05",
        "06",
        "07",
        "08",
        "09",
        "10",
        "11",
        "12",
        "13",
        "14",
        "15",
    ]


@every_notebook
def test_the_head_says_what_for_whom_and_how_long(path: Path) -> None:
    head = cells(path, "markdown")[0]
    assert head.startswith("# ")
    assert all(f"**{word}" in head for word in ("You will learn", "You need", "Time:"))
    assert re.search(r"\d+ minutes", head)


@every_notebook
def test_it_can_be_worked_through_in_one_sitting(path: Path) -> None:
    code, text = cells(path, "code"), cells(path, "markdown")
    assert 10 <= len(code) + len(text) <= 25
    assert max(len(source.splitlines()) for source in code) <= 15
    assert sum("**Predict.**" in source for source in text) >= 4


@every_notebook
def test_it_installs_itself_and_runs_anywhere(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    assert notebook.metadata.kernelspec.name == "python3"
    assert '# %pip install --quiet "../.[notebooks]"' in cells(path, "code")[0]


@every_notebook
def test_two_exercises_each_with_a_check(path: Path) -> None:
    headings = re.findall(r"^## Exercise (\d)", "\n".join(cells(path, "markdown")), re.MULTILINE)
    assert headings == ["1", "2"]
    calls = [s for s in cells(path, "code") if re.search(r"^check_\w+\(", s, re.MULTILINE)]
    assert len(calls) == 2


@every_notebook
def test_it_ends_with_numbers(path: Path) -> None:
    assert cells(path, "markdown")[-1].startswith("## In numbers")
    assert "table(" in cells(path, "code")[-1]


@pytest.mark.parametrize("path", [*PATHS, NOTEBOOKS / "README.md"], ids=lambda path: path.name)
def test_its_links_lead_somewhere(path: Path) -> None:
    text = (
        "\n".join(cells(path, "markdown")) if path.suffix == ".ipynb" else path.read_text("utf-8")
    )
    links = [link for link in re.findall(r"\]\(([^)]+)\)", text) if not link.startswith("https://")]
    assert links
    assert [link for link in links if not (NOTEBOOKS / link.split("#")[0]).exists()] == []
