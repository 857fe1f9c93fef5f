"""The site in a browser, from files, without any server or network."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from filelock import FileLock

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]


@pytest.fixture(scope="session")
def site(tmp_path_factory, worker_id) -> Path:
    """The site with its notebooks unexecuted, which is quick; `make docs` executes them.

    Processes that run tests side by side share it: the first that wants it builds it.
    """
    own = tmp_path_factory.getbasetemp()
    build = (own if worker_id == "master" else own.parent) / "shared-site"
    command = [sys.executable, str(ROOT / "docs/site/build.py"), "--no-run", "--to", str(build)]
    with FileLock(f"{build}.lock"):
        if not build.with_suffix(".built").exists():
            result = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
            assert result.returncode == 0, result.stderr[-3000:]
            build.with_suffix(".built").touch()
    return build / "html"


@pytest.fixture
def opened(chromium, site, tmp_path):
    """A page as the browser has it after its scripts have run, and what it complained of."""

    def open_page(page: str, *options: str) -> tuple[str, str]:
        result = subprocess.run(
            [
                *(chromium, "--headless=new", "--no-sandbox", "--disable-gpu", "--dump-dom"),
                *("--enable-logging=stderr", "--virtual-time-budget=8000"),
                *("--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={tmp_path}"),
                *(*options, (site / page.split("?")[0]).as_uri() + page[len(page.split("?")[0]) :]),
            ],
            capture_output=True,
            text=True,
            timeout=120,
        )  # fmt: skip
        assert result.returncode == 0
        complaints = [line for line in result.stderr.splitlines() if "CONSOLE" in line]
        return result.stdout, "\n".join(complaints)

    return open_page


@pytest.mark.parametrize(
    "page, words",
    [
        ("index.html", "Understand, see and check FlashAttention-4"),
        ("notebooks/01_life_of_a_tile.html", "The life of a tile"),
        ("docs/validation/b200.html", "Simulated against published"),
        ("docs/timeline.html", "A trace to zoom, walk and search in"),
        ("reference/fa4sim.html", "simulate("),
        ("reference/command-fa4kernel.html", "--schedule"),
    ],
)
def test_pages_open_without_complaint(opened, page, words):
    dom, complaints = opened(page)
    assert words in re.sub(r"<[^>]+>", "", dom)
    assert not complaints


def test_a_timeline_can_be_explored_on_the_page_about_it(opened):
    dom, _ = opened("docs/timeline.html")
    assert '<iframe src="../_static/timeline.html"' in dom
    inside, complaints = opened("_static/timeline.html")
    assert 'aria-roledescription="timeline"' in inside
    assert 'id="fa4-picture"' not in inside, "the script has taken the picture's place"
    assert not complaints


def test_notebooks_have_their_numbers_in_the_table_of_contents(opened):
    dom, _ = opened("docs/faq.html")
    numbers = re.findall(r'href="\.\./notebooks/(\d\d)_\w+\.html">(\d\d) \w', dom)
    notebooks = sorted(path.name[:2] for path in (ROOT / "notebooks").glob("[0-9]*.ipynb"))
    assert sorted({file for file, _ in numbers}) == notebooks
    assert all(file == said for file, said in numbers)


def test_a_picture_can_be_shown_on_the_whole_screen_from_the_keyboard(opened):
    dom, complaints = opened("index.html")
    picture = re.search(r'<img[^>]+src="[^"]*home\.png"[^>]*>', dom).group()
    assert 'tabindex="0"' in picture and "fill the screen" in picture
    assert not complaints


def test_search_works_without_a_network(opened):
    dom, _ = opened("search.html?q=transaction")  # from files it can't fetch excerpts, and says so
    assert "glossary.html" in dom.split('id="search-results"')[1]


#: Puts what an expression of a page's document is into the title of the page around it.
FRAME = """\
<iframe id="f" width="{width}" height="800" src="{page}"></iframe>
<script>
onload = () => {{ const page = f.contentDocument; document.title = "is " + {what}; }}
</script>
"""


@pytest.fixture
def on_a_phone(opened, site):
    """What a number about a page is where the window is as wide as a phone."""

    def ask(page: str, what: str, width: int = 400) -> int:
        frame = site / "frame.html"
        frame.write_text(FRAME.format(width=width, page=page, what=what), encoding="utf-8")
        dom, _ = opened("frame.html", "--allow-file-access-from-files")
        return int(re.search(r"<title>is (\d+)", dom).group(1))

    return ask


@pytest.mark.parametrize("page", ["index.html", "docs/validation/b200.html", "docs/faq.html"])
def test_a_phone_needs_no_sideways_scrolling(on_a_phone, page):
    assert on_a_phone(page, "page.documentElement.scrollWidth") <= 400


def test_rows_of_a_wide_table_stay_low_on_a_phone(on_a_phone):
    """A cell of "d128 causal 16384 b2 h16" has two or three lines, not five."""
    row = "[...page.querySelectorAll('td')].find((cell) => cell.textContent === '{}').offsetHeight"
    point = row.format("d128 causal 16384 b2 h16")
    assert 20 < on_a_phone("docs/validation/h200.html", f"Math.round({point})") < 95
