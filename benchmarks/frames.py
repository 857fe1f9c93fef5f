"""Measure how smooth the interactive timeline is, and take a picture of it, for `docs/timeline.md`.

python -m benchmarks.frames              # about a minute; needs Chromium and Playwright
python -m benchmarks.frames --print      # the figures to standard output, and no file
python -m benchmarks.frames --picture    # the picture only
chrt --rr 10 python -m benchmarks.frames # on a machine that has other work, as root
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.speed import machine
from benchmarks.speed.perfetto import SLICES, run_with
from benchmarks.speed.stopwatch import ROOT
from fa4kernel.emulator.pages import put
from fa4sim import Problem, simulate
from fa4sim.views import write_interactive
from fa4sim.views.files import write_whole

PAGE = ROOT / "docs" / "timeline.md"
PICTURE = ROOT / "docs" / "timeline.png"
BEGIN = "<!-- Written by `python -m benchmarks.frames`; do not edit. -->"
END = "<!-- End of what `python -m benchmarks.frames` writes. -->"

#: Longest time between two frames that is wanted while the view moves, in milliseconds.
WANTED_MS = 33.0
FRAMES, REPEATS = 180, 3
WIDTH, HEIGHT = 1280, 860

#: What is looked at while the view moves: name, and what brings it there.
VIEWS: Mapping[str, str] = {
    "as it opens": "",
    "the whole run": "app.showAll(); app.view.zoom(0.7);",
    "the whole run, every warp's track open": "app.lines.filter(({node}) => node.kind === 'role')"
    ".forEach(({node}) => node.toggle(true)); app.relayout(); app.showAll(); app.view.zoom(0.7);",
}

# The pointer drags to and fro by six pixels a frame, as events of the browser's own kind.
DRAG = """async ([prepare, frames]) => {
  const app = document.getElementById("fa4-timeline").timeline;
  new Function("app", prepare)(app);
  const canvas = app.dom.trackCanvas;
  canvas.setPointerCapture = () => {};
  const box = canvas.getBoundingClientRect();
  const send = (type, x) => canvas.dispatchEvent(new PointerEvent(type, {
    pointerId: 1, pointerType: "mouse", clientX: box.x + x, clientY: box.y + 100,
    bubbles: true, button: type === "pointermove" ? -1 : 0 }));
  const frame = () => new Promise(requestAnimationFrame);
  for (let n = 0; n < 5; n++) await frame();
  let x = 400;
  send("pointerdown", x);
  const between = [];
  app.frames.drawn.length = 0;
  let last = await frame();
  for (let n = 0; n < frames; n++) {
    x += n % 80 < 40 ? 6 : -6;
    send("pointermove", x);
    const now = await frame();
    between.push(now - last);
    last = now;
  }
  send("pointerup", x);
  return { between, drawn: app.frames.drawn.slice(-frames) };
}"""

# What the picture shows: a wait of the MMA warp from the middle of the run, and its causes.
SCENE = """() => {
  const app = document.getElementById("fa4-timeline").timeline;
  const [run] = app.runs;
  const wait = [...run.x0.keys()].find((i) => run.name(i) === "P_full_O_rescaled"
    && run.x0[i] > app.view.t0 + 1500);
  app.select(run, wait, { reveal: true });
}"""


@dataclass(frozen=True)
class Panned:
    """Milliseconds of one repeat: from frame to frame, of drawing one by our script.

    ``cpu`` is what all of Chromium's processes spent per frame, whoever else was on the machine.
    """

    between: tuple[float, ...]
    drawn: tuple[float, ...]
    cpu: float


def chromium() -> str:
    """Where the system's Chromium is. Raises ``SystemExit`` without one."""
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        raise SystemExit("no Chromium found; on Debian: apt-get install chromium")
    return found


@contextmanager
def opened(path: Path) -> Iterator[tuple[Any, str]]:
    """The page of a file in headless Chromium, ready; and the browser's version."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium())
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        page.goto(path.as_uri())
        page.wait_for_function("document.getElementById('fa4-timeline').timeline")
        yield page, browser.version
        browser.close()


def pan(page: Any, prepare: str, frames: int = FRAMES) -> Panned:
    """Drag the view for some frames."""
    before = cpu_seconds()
    found = page.evaluate(DRAG, [prepare, frames])
    spent = cpu_seconds() - before
    return Panned(tuple(found["between"]), tuple(found["drawn"]), 1000 * spent / frames)


def cpu_seconds() -> float:
    """CPU time that this process's descendants have spent so far; 0 where there is no /proc."""
    spent: dict[int, float] = {}
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # it ended meanwhile
            continue
        number = int(stat.parent.name)
        children.setdefault(int(fields[1]), []).append(number)
        spent[number] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    total, left = 0.0, list(children.get(os.getpid(), []))
    while left:
        number = left.pop()
        total += spent[number]
        left += children.get(number, [])
    return total


def picture(target: Path) -> None:
    """Write a picture of the page of a small work tile, with one wait selected."""
    trace = simulate(Problem(seqlen_q=1024, causal=True), scope="cta").trace
    with tempfile.TemporaryDirectory() as folder:
        path = write_interactive(trace, Path(folder) / "timeline.html")
        with opened(path) as (page, _):
            page.evaluate(SCENE)
            page.wait_for_timeout(300)
            data = page.screenshot(clip={"x": 0, "y": 0, "width": WIDTH, "height": 640})
    write_whole(target, data)


def priority() -> str:
    """How this process, and with it the browser, stands against others on the machine."""
    if hasattr(os, "sched_getscheduler") and os.sched_getscheduler(0) != os.SCHED_OTHER:
        return "run with real-time priority, before other work"
    return f"run with niceness {os.nice(0)}"


def percentile(values: Sequence[float], percent: int) -> float:
    """The value that ``percent`` of the values do not exceed.

    >>> percentile([3.0, 1.0, 2.0, 4.0], 50)
    2.0
    """
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)]


def measure(least: int = SLICES, repeats: int = REPEATS, frames: int = FRAMES) -> str:
    """Make a page of one long work tile, move its views, and say how that went in Markdown."""
    facts = machine.facts()
    trace = run_with(least).trace
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "timeline.html"
        started = time.perf_counter()
        write_interactive(trace, target)
        made, size = time.perf_counter() - started, target.stat().st_size
        with opened(target) as (page, version):
            slices = page.evaluate("document.getElementById('fa4-timeline').timeline.runs[0].count")
            panned = {
                name: [pan(page, prepare, frames) for _ in range(repeats)]
                for name, prepare in VIEWS.items()
            }
    return section(facts, version, slices, made, size, panned)


def section(
    facts: Mapping[str, str], version: str, slices: int, made: float, size: int,
    panned: Mapping[str, Sequence[Panned]],
) -> str:  # fmt: skip
    """The figures as a section of the page."""
    rows = []
    for name, repeats in panned.items():
        between = [value for each in repeats for value in each.between]
        drawn = [value for each in repeats for value in each.drawn]
        high = percentile(between, 95)
        late = sum(value > WANTED_MS for value in between) / len(between)
        rows.append(
            f"| {name} | {statistics.median(between):.1f} ms | {high:.1f} ms | "
            f"{max(between):.0f} ms | {late:.1%} | "
            f"{statistics.median(each.cpu for each in repeats):.1f} ms | "
            f"{statistics.median(drawn):.1f} ms | "
            f"{'met' if high <= WANTED_MS else '**missed**'} |"
        )
    frames = sum(len(each.between) for each in next(iter(panned.values())))
    return "\n".join([
        BEGIN, "",
        f"One work tile of {slices:,} slices on a page of {size / 1e6:.2f} MB, made in "
        f"{made:.1f} s (simulating not included). Headless Chromium {version}, drawing by the CPU, "
        f"{WIDTH} × {HEIGHT} pixels; the pointer drags the view {frames:,} frames long. Wanted: at "
        f"most {WANTED_MS:.0f} ms from one frame to the next, in 95 of 100. A screen of 60 Hz "
        "shows one every 16.7 ms.", "",
        "| view | from frame to frame, median | 95 of 100 | longest | above 33 ms "
        "| CPU time of a frame | of it our drawing | wanted |",
        "|---|---|---|---|---|---|---|---|", *rows, "",
        "CPU time is that of all of Chromium's processes, on however many cores; it tells what a "
        "frame costs when other work on the machine makes frames late.", "",
        f"{facts['CPU']}, {facts['cores']} cores, {facts['load at the start']} at the start, "
        f"{priority()}, {platform.system()}, {facts['date']}, commit {facts['commit']}.",
        "", END, "",
    ])  # fmt: skip


def main(given: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.frames", description=__doc__)
    parser.add_argument("--print", action="store_true", help="print the section, change no file")
    parser.add_argument("--picture", action="store_true", help="write the picture only")
    options = parser.parse_args(given)
    if not options.print:
        picture(PICTURE)
    if options.picture:
        return
    text = measure()
    if options.print:
        print(text, end="")
    else:
        put(PAGE, text, BEGIN, END)


if __name__ == "__main__":
    main()
