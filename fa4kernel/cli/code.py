"""``fa4kernel code``: the compiled kernel beside the official one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

import fa4kernel
from fa4kernel.code.comparison import Code, Tools, facts, look, wishes
from fa4kernel.code.kernels import KERNELS
from fa4kernel.code.page import PAGE, Report, page
from fa4kernel.code.shapes import SHAPES, Shape
from fa4kernel.emulator import EmulationError
from fa4sim.cli.errors import BadInput, CheckFailed, PipelineBroken, refusals
from fa4sim.cli.options import examples, json_option
from fa4sim.cli.output import Steps, print_json, say, write_whole


@click.command(
    epilog=examples(
        "fa4kernel code",
        "fa4kernel code --shape full-128 --kernel official --json",
        f"fa4kernel code --write                 renew {PAGE}",
    )
)
@click.option(
    "--shape",
    "shapes",
    multiple=True,
    type=click.Choice(list(SHAPES)),
    help="Only this shape; may be given several times. [default: all]",
)
@click.option(
    "--kernel",
    "kernels",
    multiple=True,
    type=click.Choice(list(KERNELS)),
    help="Only this kernel. [default: all]",
)
@click.option("--write", is_flag=True, help=f"Write the page {PAGE} too, in this repository.")
@json_option()
def code(as_json: bool, shapes: tuple[str, ...], kernels: tuple[str, ...], write: bool) -> None:
    """Hold the compiled kernel against the official one.

    Registers and spills, shared memory, instructions by unit that each role executes for a block
    of keys and for a tile, and issue slots. About 15 seconds for a kernel on a shape. Needs the
    CuTe DSL and, for the official kernel, an interpreter with flash-attn-4 (FA4_PYTHON); registers
    and spills need ptxas (PTXAS).
    """
    target = _target() if write else None
    tools = Tools.found()
    chosen = [SHAPES[name] for name in shapes or SHAPES]
    names = kernels or tuple(KERNELS)
    codes: dict[Shape, dict[str, Code]] = {shape: {} for shape in chosen}
    with Steps("running the kernels") as steps, refusals():
        for number, shape in enumerate(chosen):
            for other, name in enumerate(names):
                codes[shape][name] = _looked(name, shape, tools)
                steps(number * len(names) + other + 1, len(chosen) * len(names))
    report = Report(codes, tools)
    found = _facts(report)
    if target is not None:
        with refusals():
            write_whole(target, lambda path: path.write_text(page(report), encoding="utf-8"))
        found["file"] = str(target)
    if not as_json:
        say(page(report, written=False))
        if target is not None:
            say(f"wrote {target}")
    if not found["ok"]:
        raise CheckFailed("something that is wanted of the kernel is missed", found)
    if as_json:
        print_json(found)


def _looked(name: str, shape: Shape, tools: Tools) -> Code:
    try:
        return look(KERNELS[name](shape), shape, tools)
    except EmulationError as error:
        raise PipelineBroken(f"{name}, {shape.title}: {error}") from None
    except RuntimeError as error:  # a compiler's words
        raise BadInput(f"{name}, {shape.title}: {error}") from None


def _facts(report: Report) -> dict[str, Any]:
    shapes: dict[str, Any] = {}
    ok = True
    for shape, codes in report.codes.items():
        shapes[shape.name] = {"title": shape.title, **{n: facts(c) for n, c in codes.items()}}
        if {"ours", "official"} <= set(codes):
            wanted = wishes(codes["ours"], codes["official"])
            shapes[shape.name]["wanted"] = [vars(wish) for wish in wanted]
            ok = ok and all(wish.met is not False for wish in wanted)
    return {"ok": ok, "ptxas": report.tools.ptxas, "shapes": shapes}


def _target() -> Path:
    root = Path(fa4kernel.__file__).resolve().parents[1]
    target = root / PAGE
    if not (root / "pyproject.toml").is_file() or not target.parent.is_dir():
        raise BadInput(f"{root} is not a copy of the repository; print the page without --write")
    if not os.access(target.parent, os.W_OK):
        raise BadInput(f"the folder of {str(target)!r} cannot be written")
    return target
