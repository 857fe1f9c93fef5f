"""Check the built site: links, anchors, alternative texts, and that nothing comes from elsewhere.

``python docs/site/check.py [FOLDER]`` prints what is wrong and returns 1 if anything is. Links to
other sites are not followed: a check that needs the network would fail without a reason of ours.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

HTML = Path(__file__).resolve().parents[2] / "build" / "site" / "html"
#: What a page loads by itself, so that it must lie on the site.
LOADED = {"script": "src", "img": "src", "iframe": "src", "link": "href", "source": "src"}
ELSEWHERE = ("http", "https")


@dataclass
class Page(HTMLParser):
    """What one page has and asks for."""

    ids: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    loaded: list[str] = field(default_factory=list)
    unnamed: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what a tag has and asks for."""
        given = dict(attrs)
        self.ids.update(filter(None, (given.get("id"), given.get("name"))))
        if tag == "a" and given.get("href"):
            self.links.append(given["href"] or "")
        source = given.get(LOADED.get(tag, ""))
        if source and given.get("rel") != "canonical":
            self.loaded.append(source)
        if tag == "img" and not (given.get("alt") or "").strip():
            self.unnamed.append((source or "an image")[:60])
        if tag == "iframe" and not (given.get("title") or "").strip():
            self.unnamed.append(source or "a frame")


def read(path: Path) -> Page:
    """Look through one page."""
    page = Page()
    page.feed(path.read_text(encoding="utf-8"))
    return page


def faults(folder: Path) -> Iterator[str]:
    """What is wrong with the site in ``folder``, one line each."""
    pages = {path: read(path) for path in sorted(folder.rglob("*.html"))}
    if not pages:
        yield f"there are no pages in {folder}"
    for path, page in pages.items():
        name = path.relative_to(folder).as_posix()
        yield from (f"{name}: {each} has no alternative text" for each in page.unnamed)
        for source in page.loaded:
            if urlsplit(source).scheme in ELSEWHERE or source.startswith("//"):
                yield f"{name}: loads {source} from elsewhere"
        for link in [*page.links, *page.loaded]:
            fault = _fault(link, path, pages)
            if fault:
                yield f"{name}: {fault}"


def _fault(link: str, path: Path, pages: dict[Path, Page]) -> str | None:
    """What is wrong with a link of the page at ``path``."""
    parts = urlsplit(link)
    if parts.scheme or link.startswith("//"):
        return None
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if not target.exists():
        return f"links to {link}, which is not there"
    anchor = unquote(parts.fragment)
    if anchor and target in pages and anchor not in pages[target].ids:
        return f"links to {link}, and that page has no such place"
    return None


def main() -> int:
    """Print the faults; 1 if there are any."""
    folder = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else HTML
    found = list(faults(folder))
    print(
        "\n".join(found) if found else f"{folder}: links, anchors and alternative texts are right"
    )
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
