"""Link the first mention of each term in a notebook to the glossary.

``python docs/site/link_terms.py`` changes the notebooks; with ``--check`` it only names the terms
that lack a link, and returns 1 if there are any. Headings, code, links and parts of longer words
are left alone.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GLOSSARY = ROOT / "docs" / "glossary.md"
NOTEBOOKS = ROOT / "notebooks"
#: Terms that are no words to search for, or that also mean something else in running text.
NOT_SEARCHED = {
    "q-k-v-s-p-o",
    "full-and-empty",
    "occupancy",
    "bank",
    "bf16",
    "commit",
    "gemm",
    "issue",
    "launch",
    "register",
    "roofline",
    "span",
    "wave",
}
#: What must not be touched: code, links, headings, and HTML.
KEPT = re.compile(
    r"```.*?```|`[^`\n]*`|!?\[[^\]]*\]\([^)\n]*\)|^#.*?$|<[^>\n]+>", re.DOTALL | re.MULTILINE
)


def terms() -> dict[str, re.Pattern[str]]:
    """Of each term that is searched for: its place in the glossary, and how it is written."""
    found = {}
    for heading in re.findall(r"^### (.+)$", GLOSSARY.read_text(encoding="utf-8"), re.MULTILINE):
        anchor = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        if anchor in NOT_SEARCHED:
            continue
        acronym = heading.upper() == heading or not heading[0].isupper() or heading[1:2].isupper()
        flags = 0 if acronym else re.IGNORECASE
        found[anchor] = re.compile(rf"(?<![\w/-]){re.escape(heading)}(?:s|es)?(?![\w-])", flags)
    return found


def unlinked(cells: list[str]) -> Iterator[tuple[str, int, int, int]]:
    """Terms without a link: place in the glossary, cell, and from where to where in it."""
    whole = "\n".join(cells)
    for anchor, pattern in terms().items():
        if f"glossary.md#{anchor})" in whole:
            continue
        for number, text in enumerate(cells):
            kept = [match.span() for match in KEPT.finditer(text)]
            match = next(
                (
                    match
                    for match in pattern.finditer(text)
                    if not any(a <= match.start() < b for a, b in kept)
                ),
                None,
            )
            if match:
                yield anchor, number, *match.span()
                break


def link(cells: list[str]) -> int:
    """Put the links that are missing into ``cells``; how many."""
    count = 0
    while found := next(unlinked(cells), None):
        anchor, number, start, end = found
        text = cells[number]
        word = f"[{text[start:end]}](../docs/glossary.md#{anchor})"
        cells[number] = text[:start] + word + text[end:]
        count += 1
    return count


def main() -> int:
    """Link, or check."""
    check = "--check" in sys.argv[1:]
    missing = 0
    for path in sorted(NOTEBOOKS.glob("[0-9]*.ipynb")):
        notebook = json.loads(path.read_text(encoding="utf-8"))
        prose = [cell for cell in notebook["cells"] if cell["cell_type"] == "markdown"]
        cells = ["".join(cell["source"]) for cell in prose]
        if check:
            lacking = [anchor for anchor, *_ in unlinked(cells)]
            missing += len(lacking)
            if lacking:
                print(f"{path.name}: no link to the glossary for {', '.join(lacking)}")
            continue
        if not link(cells):
            continue
        for cell, text in zip(prose, cells, strict=True):
            as_text = isinstance(cell["source"], str)
            cell["source"] = text if as_text else text.splitlines(keepends=True)
        text = json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"
        path.write_text(text, encoding="utf-8")
        print(f"{path.name}: linked")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
