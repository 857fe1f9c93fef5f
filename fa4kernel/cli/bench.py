"""``fa4kernel bench``: how fast our kernel is on the GPU that is here."""

from __future__ import annotations

import json
import time
from functools import partial
from pathlib import Path
from typing import Any

import click

import fa4kernel
import fa4sim
from fa4kernel import gpu
from fa4kernel.bench import kernels, misses, outputs, outputs_page, points, timelines_page
from fa4kernel.bench.empty import empty_ms
from fa4kernel.bench.measure import BASELINES, measure
from fa4kernel.bench.page import PAGE, PICTURE, draw, page
from fa4kernel.bench.predict import compare
from fa4kernel.bench.stored import measured
from fa4kernel.bench.stored_traces import stored_traces
from fa4kernel.bench.timelines import draw as draw_timelines
from fa4kernel.bench.timelines import timelines
from fa4kernel.device import run as run_on_gpu
from fa4kernel.kernels import ARCHITECTURES
from fa4sim.cli.errors import BadInput, refusals
from fa4sim.cli.options import examples, json_option, refuse_beside
from fa4sim.cli.output import check_target, note, print_json, say, write_whole


@click.command(
    epilog=examples(
        "fa4kernel bench --points few",
        "fa4kernel bench --compile-to kernels --architecture sm_90a    on any computer",
        "fa4kernel bench --kernels kernels -o measured.json            where the GPU is",
        "fa4kernel bench --write                                       renew the page",
    )
)
@click.option(
    "--points",
    "which",
    type=click.Choice(("few", "all", "outputs")),
    default="few",
    show_default=True,
    help="few: head dim 128, lengths 1k to 16k. all: the grid of docs/validation/h200.md. outputs: "
    "no times, but what a Hopper GPU gives for small problems, to be held against the emulator.",
)
@click.option("--baseline", "baselines", multiple=True, type=click.Choice(BASELINES),
              help="What to measure beside. [default: all]")  # fmt: skip
@click.option("--seconds", type=float, default=600, show_default=True, help="Stop after so long.")
@click.option("--kernels", "folder", metavar="FOLDER", help="Take compiled kernels from here.")
@click.option("--compile-to", "target", metavar="FOLDER", help="Only compile, into this folder.")
@click.option(
    "--architecture",
    type=click.Choice(ARCHITECTURES),
    help="For --compile-to. [default: that of the GPU here]",
)
@click.option(
    "--write",
    is_flag=True,
    help="Only renew docs/validation/h200.md in this repository, from what was measured on an "
    "H200, with the simulator's predictions and the emulator's outputs. Needs no GPU, but the DSL.",
)
@click.option(
    "-o", "--out", metavar="FILE", help="Write what was measured to this file; outputs to .npz."
)
@json_option()
def bench(
    as_json: bool,
    which: str,
    baselines: tuple[str, ...],
    seconds: float,
    folder: str | None,
    target: str | None,
    architecture: str | None,
    write: bool,
    out: str | None,
) -> None:
    """Time our forward kernel on this machine's GPU, beside PyTorch's cuDNN and
    FlashAttention-2, and FlashAttention-4 where `flash-attn-4` is installed.

    Hopper and Blackwell. Needs PyTorch for CUDA, and the CuTe DSL unless --kernels brings compiled
    kernels. Clocks are left as they are.
    """
    if write:
        refuse_beside("--write", instead="measures nothing")
        for path in renew():
            say(f"wrote {path}")
        return
    if which == "outputs":
        take_outputs(folder, target, out)
        return
    chosen = list(few() if which == "few" else points.grid())
    found = gpu.missing(compiler=folder is None)
    if target is not None:
        if architecture is None and found is not None:
            raise BadInput(f"{found}; say for which --architecture to compile")
        with refusals():
            count = kernels.write(
                Path(target), chosen, architecture or gpu.architecture(), tell=note
            )
        say(f"{count} kernels in {target}")
        return
    if found is not None:
        raise BadInput(
            f"{found}: there is nothing to measure. What an H200 gave stands in "
            "docs/validation/h200.md; `fa4kernel trace` shows a timeline of it"
        )
    if out is not None:
        check_target(out, (".json",))

    def kernel(point: points.Point) -> tuple[Any, str]:
        made = kernels.kernel_of(point, gpu.architecture())
        return made, made.ptx if folder is None else kernels.read(Path(folder), made)

    with refusals():
        rows = measure(
            chosen,
            kernel,
            baselines or BASELINES,
            tell=note if as_json else say,
            until=time.monotonic() + seconds,
        )
    facts = {
        "about": gpu.gpu().about(), "torch": _torch_version(),
        "empty_ms": round(empty_ms(gpu.gpu()), 5), "points": rows,
    }  # fmt: skip
    if out is not None:
        text = json.dumps(facts, indent=1)
        write_whole(Path(out), lambda path: path.write_text(text, encoding="utf-8"))
    if as_json:
        print_json(facts)


def take_outputs(folder: str | None, target: str | None, out: str | None) -> None:
    """Compile the kernels of `fa4kernel.bench.outputs`, or run them on the GPU that is here."""
    if target is not None:
        with refusals():
            kept = ((case.name, case.kernel) for case in outputs.CASES)
            count = kernels.write_kernels(Path(target), kept, tell=note)
        say(f"{count} kernels in {target}")
        return
    found = gpu.missing(compiler=folder is None)
    if found is not None:
        raise BadInput(f"{found}: there is nothing to run on")
    if gpu.architecture() != "sm_90a":
        raise BadInput(f"these are outputs of the Hopper kernel; the GPU runs {gpu.architecture()}")
    if out is None:
        raise BadInput("say where to write the outputs: -o h200_outputs.npz")
    check_target(out, (".npz",))
    device, given, digests = gpu.gpu(), {}, {}
    with refusals():
        for case in outputs.CASES:
            kernel = case.kernel
            ptx = kernel.ptx if folder is None else kernels.read(Path(folder), kernel)
            given[case.name] = case.run(partial(run_on_gpu, device, ptx))
            digests[case.name] = outputs.digest(ptx)
            note(case.name)
    packed = outputs.pack(given, {**device.about(), "digests": digests})
    write_whole(Path(out), lambda path: path.write_bytes(packed))


def renew() -> list[Path]:
    """Write the page and its pictures; these files."""
    root = Path(fa4kernel.__file__).resolve().parents[1]
    targets = [root / PAGE, root / PICTURE, root / timelines_page.PICTURE]
    if not (root / "pyproject.toml").is_file():
        raise BadInput(f"{root} is not a copy of the repository")
    stored = measured()
    compared = compare(stored["points"], stored["empty_ms"])
    said = f"on {time.strftime('%Y-%m-%d')}, with fa4sim {fa4sim.__version__}"
    traces = list(stored_traces().values())
    held = [timelines(each) for each in traces]
    with refusals():
        emulated = outputs_page.held()
    sections = (
        timelines_page.section(held, traces[0].about),
        outputs_page.order_section(traces),
        outputs_page.outputs_section(emulated, outputs.stored_outputs()[1]),
        misses.clock_section(compared),
        misses.states_section(compared, traces),
    )
    text = page(stored, compared, said, sections)
    write_whole(targets[0], lambda path: path.write_text(text, encoding="utf-8"))
    write_whole(targets[1], lambda path: draw(compared, path))
    write_whole(targets[2], lambda path: draw_timelines(held[0], path))
    return targets


def few() -> list[points.Point]:
    """A first look."""
    return [
        points.standard(128, causal, seqlen) for causal in (False, True)
        for seqlen in (1024, 4096, 16_384)
    ]  # fmt: skip


def _torch_version() -> str:
    import torch

    return str(torch.__version__)
