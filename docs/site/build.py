"""Build the site: ``python docs/site/build.py`` writes ``build/site/html``.

The sources are gathered in one folder that looks like the repository (``docs/`` and ``notebooks/``
side by side), so that links between pages are the same on the site and in a clone. Notebooks are
executed; results are kept in ``build/site/executed`` and used again until a notebook or the
packages change. Warnings are errors.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import sys
from pathlib import Path

from reference import write_reference
from sphinx.cmd.build import main as sphinx

from fa4sim import Problem, simulate
from fa4sim.views import alt_text, timeline, write_interactive

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
BUILD = ROOT / "build" / "site"
# Not pages: what makes the site.
LEFT_OUT = shutil.ignore_patterns("site", "__pycache__", ".ipynb_checkpoints", "*.pyc")
# Pages that list others, which become their parents in the table of contents.
LISTS = {"docs/decisions/README.md": "0*", "notebooks/solutions/README.md": "[01]*"}


def gather(source: Path) -> None:
    """Lay the pages out as Sphinx wants them, in an empty folder."""
    shutil.rmtree(source, ignore_errors=True)
    source.mkdir(parents=True)
    for folder in ("docs", "notebooks"):
        shutil.copytree(ROOT / folder, source / folder, ignore=LEFT_OUT)
    for page in ("CHANGELOG.md", "CONTRIBUTING.md"):
        shutil.copy(ROOT / page, source)
    shutil.copy(HERE / "conf.py", source)
    shutil.copytree(HERE / "static", source / "_static")
    home(source)
    explorable(source)
    for page, pages in LISTS.items():
        with (source / page).open("a", encoding="utf-8") as file:
            file.write(f"\n```{{toctree}}\n:hidden:\n:glob:\n\n{pages}\n```\n")
    write_reference(source / "reference")


def home(source: Path) -> None:
    """Write the first page, with a picture of two K/V blocks on their way through a CTA."""
    run = simulate(Problem(seqlen_q=256, seqlen_k=1024), scope="cta")
    picture = timeline(run.trace)
    picture.save(source / "_static" / "home.png")
    text = (HERE / "index.md").read_text(encoding="utf-8")
    text = text.replace("{alt}", alt_text(picture)).replace("{course}", course(source))
    (source / "index.md").write_text(text, encoding="utf-8")


def course(source: Path) -> str:
    """The notebooks' lines in the table of contents, with the numbers by which texts call them."""
    lines = []
    for path in sorted((source / "notebooks").glob("[0-9]*.ipynb")):
        first = json.loads(path.read_text(encoding="utf-8"))["cells"][0]["source"]
        title = "".join(first).splitlines()[0].removeprefix("# ")
        lines.append(f"{path.name[:2]} {title} <notebooks/{path.stem}>")
    return "\n".join(lines)


#: How the site shows a page in a page; a clone's reader makes it by the command above it.
FRAME = """\
```{raw} html
<iframe src="../_static/timeline.html" title="An interactive timeline of a work tile" loading="lazy"
 style="width: 100%; height: 700px; border: 1px solid #8888; border-radius: 6px"></iframe>
<p><a href="../_static/timeline.html">The timeline on a page of its own</a>, as for a projector.</p>
```
"""


def explorable(source: Path) -> None:
    """Put an interactive timeline on the page about it."""
    trace = simulate(Problem(seqlen_q=256, seqlen_k=1024), scope="cta").trace
    write_interactive(trace, source / "_static" / "timeline.html")
    page = source / "docs" / "timeline.md"
    text, pictures = re.subn(
        r"!\[[^]]*\]\(timeline\.png\)\n", FRAME, page.read_text(encoding="utf-8")
    )
    assert pictures == 1, "where a clone shows a picture of the timeline, the site has the timeline"
    page.write_text(text, encoding="utf-8")


def fingerprint() -> str:
    """Of everything that a notebook's outputs depend on, beside the notebook itself."""
    digest = hashlib.sha256(sys.version.encode())
    folders = (ROOT / "fa4sim", ROOT / "fa4kernel", ROOT / "notebooks")
    for path in sorted(path for folder in folders for path in folder.rglob("*.py")):
        digest.update(path.relative_to(ROOT).as_posix().encode() + b"\0" + path.read_bytes())
    digest.update((ROOT / "constraints.txt").read_bytes())
    return digest.hexdigest()[:16]


def kept_outputs() -> Path:
    """The folder of executed notebooks that fit the packages as they are now; others go."""
    kept = BUILD / "executed" / fingerprint()
    for other in kept.parent.glob("*"):
        if other != kept:
            shutil.rmtree(other)
    kept.mkdir(parents=True, exist_ok=True)
    return kept


def main() -> int:
    """Build, and return Sphinx's exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--no-run", action="store_true", help="leave the notebooks unexecuted: quick, no pictures"
    )
    parser.add_argument("--to", type=Path, default=BUILD, help="a folder for all that is made")
    options = parser.parse_args()
    source, html = options.to / "source", options.to / "html"
    gather(source)
    os.environ["FA4SIM_SITE_OUTPUTS"] = "" if options.no_run else str(kept_outputs())
    os.environ["PYTHONPATH"] = os.pathsep.join(
        filter(None, (str(ROOT), os.environ.get("PYTHONPATH")))
    )
    shutil.rmtree(html, ignore_errors=True)
    flags = ("-b", "html", "-W", "--keep-going", "-q", "-j", "2")
    code = sphinx([*flags, "-d", str(options.to / "doctrees"), str(source), str(html)])
    if code == 0:
        print(f"{html / 'index.html'}: open it, or run `make site`")
    return code


if __name__ == "__main__":
    sys.exit(main())
