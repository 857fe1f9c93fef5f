"""Words of the notebooks lead to the glossary."""

import importlib.util
import json
import re
from pathlib import Path

import pytest

from fa4sim import Problem, simulate
from fa4sim.analysis.meanings import barrier_means
from fa4sim.pipelines.fa4.barriers import barrier_table
from fa4sim.specs import Design

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


def test_the_barriers_are_told_as_reports_tell_them():
    text = (ROOT / "docs/glossary.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `(\w+)` \| ([^|]+) \|$", text, re.MULTILINE))
    used = [name for name, spec in barrier_table(Design()).items() if spec.used]
    assert rows == {name.rstrip("0123456789"): barrier_means(name) for name in used}


def test_the_roles_have_the_warps_of_the_simulated_kernel():
    text = (ROOT / "docs/glossary.md").read_text(encoding="utf-8")
    notebook = "\n".join(prose(ROOT / "notebooks/01_life_of_a_tile.ipynb"))
    trace = simulate(Problem(seqlen_q=256), scope="cta").trace
    for role, warps in (
        ("*load*", "14"), ("*mma*", "12"), ("*softmax0*, *softmax1*", "0 to 3, 4 to 7"),
        ("*correction*", "8 to 11"), ("*epilogue*", "13"),
    ):  # fmt: skip
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", notebook)
        assert f"| {role} | {warps} |" in text and f"| {role} | {warps} |" in plain
        numbers = [
            range(int(a), int(b or a) + 1) for a, b in re.findall(r"(\d+)(?: to (\d+))?", warps)
        ]
        for name, expected in zip(role.replace("*", "").split(", "), numbers, strict=True):
            assert set(trace.span.where(role=name)["warp"].tolist()) == set(expected)


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
