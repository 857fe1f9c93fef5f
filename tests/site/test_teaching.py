"""The teacher's page has a note for every exercise and names every notebook."""

import re
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "teaching.md").read_text(encoding="utf-8")
NOTEBOOKS = sorted((ROOT / "notebooks").glob("[0-9]*.ipynb"))


def test_no_notebook_has_two_notes():
    titles = re.findall(r"^### (.+)$", PAGE, re.MULTILINE)
    assert len(titles) == len(set(titles))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_exercise_has_a_note(path):
    notebook = nbformat.read(path, as_version=4)
    text = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    title = re.search(r"^# (.+)$", text, re.MULTILINE).group(1).split(":")[0]
    exercises = re.findall(r"^## (Exercise \d[^\n]*)$", text, re.MULTILINE)
    assert path.name in PAGE, "no plan uses this notebook"
    if exercises:
        note = PAGE.split(f"### {path.name[:2]} {title}\n")[1].split("\n###")[0]
        assert re.findall(r"^\*\*(Exercise \d.*?[^.])\.?\*\*", note, re.MULTILINE) == exercises


def sections(path):
    """Numbers of a notebook's sections."""
    notebook = nbformat.read(path, as_version=4)
    text = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    return {int(number) for number in re.findall(r"^## (\d+)\. ", text, re.MULTILINE)}


PARTS = re.findall(r"notebooks/(\w+\.ipynb)\), sections? ([\d, ]+(?:(?:and|to) \d+)?)", PAGE)


@pytest.mark.parametrize("name, numbers", PARTS)
def test_plans_name_sections_that_exist(name, numbers):
    assert {int(each) for each in re.findall(r"\d+", numbers)} <= sections(
        NOTEBOOKS[0].parent / name
    )


def test_most_plans_name_sections():
    assert len(PARTS) > 10
