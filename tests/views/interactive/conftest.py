"""Pages in a real browser: one Chromium for a module's tests, and what a page must not do."""

import shutil
from contextlib import contextmanager

import pytest

from fa4sim import Problem, simulate
from fa4sim.trace import Trace
from fa4sim.views import write_interactive

#: Names that would break out of an attribute, a script or a text if they were not escaped.
EVIL = (
    '<img src=x onerror="window.broken=1">',
    "</script><script>window.broken=2</script>",
    "'\"><svg onload=window.broken=3>",
    "<!--<script>",
)


@pytest.fixture(scope="session")
def causal_trace() -> Trace:
    """One CTA of eight K/V blocks."""
    return simulate(Problem(seqlen_q=1024, causal=True), scope="cta").trace


def evil_trace() -> Trace:
    """Every name that a trace can carry is an attack."""
    trace = Trace("cycles", {"machine": EVIL[0], EVIL[1]: EVIL[2]})
    for i, name in enumerate(EVIL):
        who = dict(sm=0, cta=0, role=name, warp=i)
        trace.add("span", **who, unit=name, op=name, start=100 * i, end=100 * i + 60, tile=0)
        trace.add("wait", **who, on=name, kind=name, reason=name, stage=0, phase=1,
                  start=100 * i + 60, end=100 * i + 90, tile=0)  # fmt: skip
        trace.add("arrive", sm=0, cta=0, barrier=name, stage=0, phase=0, count=1, tx_bytes=0,
                  by=name, from_cta=0, warp=(i + 1) % 4, time=100 * i + 70)  # fmt: skip
        trace.add("life", sm=0, cta=0, tensor=name, tile=0, stage=0, space=name, slot=name,
                  birth=0, first_use=1, last_use=2, death=3)  # fmt: skip
        trace.add("counter", sm=0, cta=0, name=f"bytes {name}", time=10 * i, value=i)
    trace.add("flow", source=0, target=1, what=EVIL[0])
    return trace


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api")
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    with playwright.sync_playwright() as driver:
        running = driver.chromium.launch(executable_path=path)
        yield running
        running.close()


@contextmanager
def watched(browser, **options):
    """A page of which every error and every request is noted; it may load its own file only."""
    context = browser.new_context(**{"viewport": {"width": 1280, "height": 860}, **options})
    page = context.new_page()
    complaints, requests = [], []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
    page.on("request", lambda request: requests.append(request.url))
    yield page
    context.close()
    assert complaints == []
    assert [url for url in requests if not url.startswith(("file:", "data:", "blob:"))] == []


@contextmanager
def shown(browser, path, **options):
    """A page that shows the timeline in ``path``, ready to be used."""
    with watched(browser, **options) as page:
        page.goto(path.as_uri())
        page.wait_for_function("document.getElementById('fa4-timeline').timeline")
        yield page


def app(page, code, argument=None):
    """Evaluate an expression in which ``app`` is the timeline and ``run`` its first run."""
    return page.evaluate(
        "(argument) => { const app = document.getElementById('fa4-timeline').timeline;"
        f" const [run] = app.runs; return {code}; }}",
        argument,
    )


def select(page, role, op, nth=0):
    """Select the n-th slice of a role and op (or of what is waited for), and return its number."""
    return app(
        page,
        """(() => {
          const [role, op, nth] = argument;
          const found = [];
          for (let i = 0; i < run.count; i++)
            if (run.track(i).role === role && run.name(i) === op) found.push(i);
          app.select(run, found[nth], {reveal: true});
          return found[nth];
        })()""",
        [role, op, nth],
    )


def selected(page):
    """The selected slice as (name, role, start, end, slice, run), or None."""
    found = app(
        page,
        "app.selected && (({run, i}) => [run.name(i), run.track(i).role, run.slice.start[i],"
        " run.endOf(i), i, run.number])(app.selected)",
    )
    return tuple(found) if found else None


@pytest.fixture(scope="session")
def causal_page(causal_trace, tmp_path_factory):
    return write_interactive(causal_trace, tmp_path_factory.mktemp("page") / "causal.html")
