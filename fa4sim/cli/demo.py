"""``fa4sim demo``: the main job in one command, with pictures to look at."""

from __future__ import annotations

import time
from pathlib import Path
from textwrap import indent
from typing import Any

import click

from fa4sim.cli import options
from fa4sim.cli.check import compare_with_references, failed_because
from fa4sim.cli.describe import design_words, problem_words, report_words
from fa4sim.cli.errors import BadInput, CheckFailed, hazardous, refusals
from fa4sim.cli.output import print_json, say, write_whole
from fa4sim.cli.run import run_facts
from fa4sim.cli.timeline import write_picture
from fa4sim.cli.trace_files import hint, load_views, write_trace
from fa4sim.simulate import Run, simulate
from fa4sim.specs import B200, Design, Problem

#: What is simulated: batch 4, 16 heads, 8192 x 8192, head dim 128, bf16.
MAIN = Problem(batch=4, heads=16, seqlen_q=8192)
#: What is computed with real arrays: every score of it.
WITH_ARRAYS = Problem(heads=4, kv_heads=2, seqlen_q=768, causal=True)
#: Which pictures of the first work tile it draws.
PICTURES_SHOWN = ("timeline", "life-of-k", "memory", "units")
#: The last words: where the words and pictures are explained, in the repository, and what to try.
WHERE_TO_GO = """The words are explained in docs/glossary.md, the pictures in
notebooks/01_life_of_a_tile.ipynb. Next: fa4sim run --help, fa4sim sweep --set kv_stages=2:6"""


@click.command(epilog=options.examples("fa4sim demo", "fa4sim demo --out somewhere"))
@click.option(
    "--out",
    "folder",
    default="out",
    show_default=True,
    metavar="DIR",
    help="Where to write; made if it does not exist.",
)
@options.json_option()
def demo(as_json: bool, folder: str) -> None:
    """Simulate a B200, check numbers, write pictures.

    It simulates FlashAttention-4 forward at batch 4, 16 heads, 8192 × 8192, head dim 128, bf16,
    then sends real arrays of a smaller problem through the pipeline and compares the output with
    the references, and writes pictures (who works and waits, the life of a tile, what lies where,
    busy units, which SM did what) and a Perfetto trace into DIR.
    """
    started = time.perf_counter()
    views = load_views()
    out = make_folder(folder)

    def tell(text: str = "") -> None:
        if not as_json:
            say(text)

    setup = options.Setup(MAIN, Design.for_problem(MAIN, B200), B200)
    tell(f"1  {B200.name}: {problem_words(MAIN)}")
    tell(f"   design: {design_words(setup.design)}\n")
    with refusals():
        run = simulate(MAIN, setup.design, B200, on_hazard="record")
    tell(indent(report_words(run.report, B200, run.problem), "   "))

    small = options.Setup(WITH_ARRAYS, Design.for_problem(WITH_ARRAYS, B200), B200)
    tell(f"\n2  real arrays through the pipeline: {problem_words(WITH_ARRAYS)}\n")
    verdict = compare_with_references(small, seed=0)
    tell(indent(verdict.words(), "   "))
    tell(f"   {'ok: what comes out is attention' if verdict.ok else 'FAILED'}")

    files = write_files(run, views, out)
    tell(f"\n3  to look at, in {out}:\n")
    for path, what in files.items():
        tell(f"   {path.name:16} {what}")
    seconds = time.perf_counter() - started
    tell(f"\n{seconds:.1f} s in all. {WHERE_TO_GO}")

    facts: dict[str, Any] = {
        "run": run_facts(run, setup),
        "check": verdict.facts(),
        "files": [str(path) for path in files],
        "wall_s": seconds,
    }
    hazards = (*run.hazards, *verdict.run.hazards)
    if hazards:
        raise hazardous(hazards, facts)
    if not verdict.ok:
        raise CheckFailed(f"check failed: {failed_because(verdict)}", facts)
    if as_json:
        print_json(facts)


def make_folder(name: str) -> Path:
    """The folder, made if need be. Raises a usage failure if that cannot be."""
    folder = Path(name)
    if folder.exists() and not folder.is_dir():
        raise BadInput(f"--out {name!r} is a file; give a folder")
    with refusals():
        folder.mkdir(parents=True, exist_ok=True)
    return folder


def write_files(run: Run, views: Any, out: Path) -> dict[Path, str]:
    """Draw and export the first work tile of ``run``; returns what each file is for."""
    with refusals():
        one = simulate(run.problem, run.design, run.machine, scope="cta")
    files: dict[Path, str] = {}
    for show in PICTURES_SHOWN:
        path = out / f"{show}.png"
        files[path] = f"open in any viewer. {write_picture(one.trace, path, None, None, show)}"
    with refusals():
        figure = views.sm_occupancy(run.occupancy, run.machine.clock_hz, run.machine.sms)
        write_whole(out / "sm_occupancy.png", lambda path: views.save(figure, path))
    files[out / "sm_occupancy.png"] = "open in any viewer. Which SM did what, when"
    for path in (out / "timeline.html", out / "trace.pftrace"):
        what = write_trace(one.trace, path)
        files[path] = f"{hint(path)}: {what}"
    return files
