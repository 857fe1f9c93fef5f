"""``fa4kernel trace``: when each role of our Hopper kernel did what, beside the simulator's."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

from fa4kernel import gpu
from fa4kernel.bench import kernels
from fa4kernel.bench.points import Point
from fa4kernel.bench.stored_traces import Measured, stored_traces
from fa4kernel.bench.timelines import LABELS, Timelines, rows_of, simulated_trace, timelines
from fa4kernel.device import GpuError
from fa4kernel.device import run as run_on_gpu
from fa4kernel.hopper.compile import compile_ptx
from fa4kernel.hopper.config import Config
from fa4kernel.hopper.design import config_for
from fa4kernel.hopper.recording import in_emulator, record
from fa4kernel.hopper.traced import to_trace
from fa4sim.cli import options
from fa4sim.cli.check import check_size
from fa4sim.cli.describe import problem_words
from fa4sim.cli.errors import BadInput, refusals
from fa4sim.cli.output import check_target, print_json, say, table, write_whole
from fa4sim.cli.trace_files import (
    ENDINGS,
    first_line,
    hint,
    holds_everything,
    load_views,
    write_trace,
)
from fa4sim.specs import Problem
from fa4sim.trace import Trace

BACKENDS = ("stored", "emulator", "gpu")
ARCHITECTURE = "sm_90a"  # only the Hopper kernel can be traced
DEFAULTS = {"batch": 8, "heads": 16, "seqlen_q": 4096}
#: In the emulator one work tile; it shows an order of events, not time.
SMALL = {"batch": 1, "heads": 1, "seqlen_q": 128, "seqlen_k": 1024}


@click.command(
    epilog=options.examples(
        "fa4kernel trace -o timeline.png                      measured once on an H200",
        "fa4kernel trace -o timeline.html                     to zoom, walk and search in",
        "fa4kernel trace --causal -o causal.pftrace           in Perfetto",
        "fa4kernel trace --set ping_pong=false -o turns.png   the kernel without turns",
        "fa4kernel trace --backend emulator -o order.png      needs the extra `kernel`, no GPU",
        "fa4kernel trace --backend gpu --seqlen-q 2048 -o mine.png   where there is a Hopper GPU",
    )
)
@options.problem_options(DEFAULTS)
@options.set_option()
@options.seed_option()
@click.option(
    "--backend",
    type=click.Choice(BACKENDS),
    default="stored",
    show_default=True,
    help="stored: what was measured on an H200, for a few problems. emulator: our kernel's PTX, "
    "run here; one work tile unless told otherwise. gpu: the Hopper GPU of this machine.",
)
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    help="Both timelines as a picture (.png, .svg) or an interactive page (.html), or the kernel's "
    "as a Perfetto trace (.pftrace) or as it is (.npz).",
)
@click.option(
    "--kernels",
    "folder",
    metavar="FOLDER",
    help="For gpu: take the compiled kernel from here; then the DSL is not needed.",
)
@click.option(
    "--compile-to",
    "into",
    metavar="FOLDER",
    help="Only compile the traced kernel, into this folder. Needs no GPU.",
)
@options.json_option()
def trace(
    as_json: bool,
    seed: int,
    backend: str,
    output: str | None,
    folder: str | None,
    into: str | None,
    **given: Any,
) -> None:
    """Trace our Hopper kernel and hold its timeline against the simulator's.

    A picture shows about two K/V blocks of one CTA, the kernel above, the simulator below and
    stretched so that each product is issued where the kernel issues it. Measured cycles of every
    phase are printed beside simulated ones. A traced kernel is slower than the kernel, and its
    stamps pin the source's order: see docs/validation/h200.md.
    """
    if into is not None:
        _compile(options.Request.of({**given, "machine": "h200"}, DEFAULTS), Path(into))
        return
    if output is None:
        raise BadInput("say where to write the timeline: -o timeline.png")
    target = check_target(output, ENDINGS)
    request = options.Request.of({**given, "machine": "h200"}, DEFAULTS)
    if request.settings.machine:
        raise BadInput(
            f"--set machine.{next(iter(request.settings.machine))}: a trace is of the kernel; it "
            "is held against the simulator's H200 as it is"
        )
    if backend == "emulator":
        _emulator(given, seed, target, as_json)
        return
    found = _stored(request) if backend == "stored" else _on_gpu(request, seed, folder)
    with refusals():
        held = timelines(found)
    shown = write(held.measured, held.simulated, target, LABELS)
    facts = {
        "file": str(target), "shows": shown, "backend": backend, "point": held.name,
        **dict(found.about), **phase_facts(held),
    }  # fmt: skip
    if as_json:
        print_json(facts)
        return
    say(f"{found.about['device']}, {found.about['date']}: {held.name}\n")
    say(table(["role", "phase", "measured", "simulated"], rows_of(held), ["role", "phase"]))
    say("\nMean cycles per K/V block. " + _caution(held))
    _wrote(target, shown)


def _caution(held: Timelines) -> str:
    """What not to read from the numbers."""
    text = "Stamps cost time and pin the source's order"
    if held.untraced is not None:
        text += f"; without them a block takes {held.untraced:,.0f} cycles, all told"
    return text + "."


def phase_facts(held: Timelines) -> dict[str, Any]:
    """Cycles of the phases and shares, as plain data."""
    return {
        "phases": [
            {"role": p.role, "phase": p.name, "what": p.words, "measured": p.measured,
             "simulated": p.simulated}
            for p in held.phases
        ],
        **{f"{label}_block_cycles": held.block(label) for label in LABELS},
        "wait_share": dict(zip(LABELS, held.waits, strict=True)),
        "shared_softmax": dict(zip(LABELS, held.shared, strict=True)),
        "untraced_block_cycles": held.untraced,
    }  # fmt: skip


def _stored(request: options.Request) -> Measured:
    """The first stored trace that is as asked for.

    Raises:
        BadInput: there is none.
    """
    asked = {**request.fixed.problem, **request.settings.problem}
    for found in stored_traces().values():
        problem, cfg = found.point.problem, found.cfg
        if all(getattr(problem, name) == value for name, value in asked.items()) and all(
            getattr(cfg, name, None) == value for name, value in request.settings.design.items()
        ):
            return found
    given = ", ".join(f"{k}={v!r}" for k, v in {**asked, **request.settings.design}.items())
    known = "; ".join(stored_traces())
    raise BadInput(
        f"no trace of {given} is stored. Stored are: {known}. Choose one by --causal, --head-dim "
        "64, --set overlap=false or --set ping_pong=false; or trace it yourself: --backend "
        "emulator anywhere (in ticks, an order of events), --backend gpu on a Hopper GPU"
    )


def _on_gpu(request: options.Request, seed: int, folder: str | None) -> Measured:
    """Run the traced kernel, compiled here or taken from a folder, on the GPU of this machine."""
    missing = gpu.missing(compiler=folder is None)
    if missing is not None:
        raise BadInput(f"{missing}; --backend stored shows what was measured on an H200")
    if gpu.architecture() != ARCHITECTURE:
        raise BadInput(
            f"this GPU runs {gpu.architecture()} code, and only the Hopper kernel ({ARCHITECTURE}) "
            "writes a trace; --backend stored shows what was measured on an H200"
        )
    point = point_of(request)
    with refusals():
        kernel = kernels.kernel_of(traced(point), ARCHITECTURE)
        ptx = kernel.ptx if folder is None else kernels.read(Path(folder), kernel)
    cfg = kernel.design
    assert isinstance(cfg, Config)
    device = gpu.gpu()
    try:
        stamps, _ = record(
            cfg, point.problem, device.sms, lambda launch: run_on_gpu(device, ptx, launch), seed
        )
    except GpuError as error:
        raise BadInput(str(error)) from None
    about = {**device.about(), "date": time.strftime("%Y-%m-%d"), "seed": seed}
    return Measured.of(point, stamps, about)


def _compile(request: options.Request, folder: Path) -> None:
    """Compile the traced kernel into a folder."""
    with refusals():
        kernels.write(folder, [traced(point_of(request))], ARCHITECTURE)
    say(f"1 kernel in {folder}")


def traced(point: Point) -> Point:
    """The same with a kernel that writes stamps."""
    return replace(point, changes={**point.changes, "trace": True})


def point_of(request: options.Request) -> Point:
    """Problem and changes of the kernel as one point.

    Raises:
        BadInput: a problem of another kind than the points that are measured.
    """
    problem, changes = _built(request)
    assert problem.kv_heads is not None
    point = Point(
        problem.head_dim, problem.causal, problem.seqlen_q, problem.batch, problem.heads,
        problem.kv_heads, "changed" if changes else "", changes,
    )  # fmt: skip
    if point.problem != problem:
        raise BadInput(
            f"a trace on a GPU is of bf16, one head dim, as many keys as queries, full or causal; "
            f"not of {problem_words(problem)}"
        )
    return point


def _built(request: options.Request) -> tuple[Problem, dict[str, Any]]:
    """The problem and what is changed of the kernel, both checked."""
    setup = request.build()
    changes = dict(request.settings.design)
    with refusals():
        config_for(setup.problem, **changes)
    return setup.problem, changes


def _emulator(given: Mapping[str, Any], seed: int, target: Path, as_json: bool) -> None:
    """Trace in the emulator: an order of events, in ticks."""
    problem, changes = _built(options.Request.of({**given, "machine": "h200"}, SMALL))
    check_size(problem)
    if find_spec("cutlass") is None:
        raise BadInput("the emulator needs the kernel's PTX: pip install 'fa4sim[kernel]'")
    with refusals():
        cfg = config_for(problem, trace=True, **changes)
        ptx = compile_ptx(cfg, problem.head_dim, problem.dim_v)
        stamps, _ = record(cfg, problem, 1, in_emulator(ptx), seed)
        kernel = to_trace(cfg, stamps, clock="ticks")
        model = simulated_trace(problem, cfg)
    shown = write(kernel, model, target, ("emulator", "simulator"))
    if as_json:
        print_json({"file": str(target), "shows": shown, "backend": "emulator", "seed": seed})
        return
    say(f"emulator: {problem_words(problem)}; ticks are an order of events, not time")
    _wrote(target, shown)


def write(kernel: Trace, model: Trace, target: Path, labels: tuple[str, str]) -> str:
    """The file; what it shows, in words."""
    if target.suffix.lower() == ".html":
        return write_trace(kernel, target, other=model, labels=labels)
    if holds_everything(target):
        return write_trace(kernel, target)
    views = load_views()
    with refusals():
        figure = views.aligned_timelines(kernel, model, labels)
        write_whole(target, lambda path: views.save(figure, path))
    return first_line(str(views.alt_text(figure)))


def _wrote(target: Path, shown: str) -> None:
    say(f"wrote {target}: {shown}")
    if holds_everything(target):
        say(hint(target))
