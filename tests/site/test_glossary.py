"""Words of the notebooks lead to the glossary."""

import importlib.util
import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("[0-9]*.ipynb"))


@pytest.fixture(scope="module")
def link_terms():
    path = ROOT / "docs" / "site" / "link_terms.py"
    spec = importlib.util.spec_from_file_location("link_terms", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def prose(path: Path) -> list[str]:
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_term_is_linked_once(link_terms, path):
    lacking = [anchor for anchor, *_ in link_terms.unlinked(prose(path))]
    assert not lacking, "run python docs/site/link_terms.py"


def test_every_link_leads_to_a_term():
    headings = re.findall(r"^### (.+)$", (ROOT / "docs/glossary.md").read_text(), re.MULTILINE)
    places = {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings}
    links = {
        link
        for path in NOTEBOOKS
        for cell in prose(path)
        for link in re.findall(r"glossary\.md#([^)]*)\)", cell)
    }
    assert len(links) > 30
    assert links <= places


@pytest.mark.parametrize(
    "text, after",
    [
        ("A warp waits.", "A [warp](../docs/glossary.md#warp) waits."),
        ("# A warp\n`warp` and warping", "# A warp\n`warp` and warping"),
        ("[a warp](x.md)", "[a warp](x.md)"),
        ("[a lazy\nwarp](x.md)", "[a lazy\nwarp](x.md)"),
        ("Warps, warps", "[Warps](../docs/glossary.md#warp), warps"),
        ("smem is not SMEM", "smem is not [SMEM](../docs/glossary.md#smem)"),
    ],
)
def test_what_is_linked(link_terms, text, after):
    cells = [text]
    link_terms.link(cells)
    assert cells == [after]
    assert link_terms.link(cells) == 0
