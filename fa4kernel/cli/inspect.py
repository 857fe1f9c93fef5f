"""``fa4kernel inspect``: what the text of a kernel tells before it runs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from fa4kernel.cli.files import naming, read_ptx
from fa4kernel.cli.kernels import kernel_facts, kernel_words
from fa4kernel.emulator.inspection.report import Kernel
from fa4kernel.emulator.inspection.report import inspect as look
from fa4kernel.emulator.inspection.template import template
from fa4sim.cli.errors import BadInput, CheckFailed, refusals
from fa4sim.cli.options import examples, json_option
from fa4sim.cli.output import check_target, print_json, say, write_whole


@click.command(
    epilog=examples(
        "fa4kernel inspect kernel.ptx",
        "fa4kernel inspect kernel.ptx --template launch.py",
        "CUTE_DSL_ARCH=sm_100a CUTE_DSL_LINEINFO=1 CUTE_DSL_KEEP=ptx python kernel.py    makes one",
    )
)
@click.argument("file", metavar="FILE.ptx")
@click.option("--entry", metavar="NAME", help="Only this kernel. [default: all]")
@click.option(
    "--template",
    "template_file",
    metavar="FILE.py",
    help="Write a launch description to start from. An existing file is left alone.",
)
@json_option()
def inspect(as_json: bool, file: str, entry: str | None, template_file: str | None) -> None:
    """Tell what is in a PTX file.

    Entry points; parameters and what reads them; threads, shared and tensor memory; barriers with
    their counts and who waits and arrives; roles by warp; the mix of instructions; and every
    instruction that the emulator does not execute (exit code 1 if there is one).
    """
    target = None if template_file is None else _target(template_file)
    with refusals(), naming(file):
        kernels = look(read_ptx(file))
    kernels = _chosen(kernels, entry, file)
    facts: dict[str, Any] = {"file": file, "kernels": [kernel_facts(k) for k in kernels]}
    if not as_json:
        say("\n\n".join(kernel_words(k) for k in kernels))
    if target is not None:
        if len(kernels) != 1:
            names = ", ".join(kernel.name for kernel in kernels)
            raise BadInput(f"a template is for one kernel: choose one by --entry ({names})")
        with refusals():
            write_whole(target, lambda path: path.write_text(template(kernels[0])))
        facts["template"] = str(target)
        if not as_json:
            say(f"\nwrote {target}: complete it, then "
                f"`fa4kernel emulate {file} --launch {target}`")  # fmt: skip
    refused = sum(len(kernel.refused) for kernel in kernels)
    if refused:
        plural = "s are" if refused != 1 else " is"
        raise CheckFailed(f"{refused} instruction{plural} not supported", facts)
    if as_json:
        print_json(facts)


def _chosen(kernels: list[Kernel], entry: str | None, file: str) -> list[Kernel]:
    found = [kernel for kernel in kernels if entry in (None, kernel.name)]
    if not found:
        names = ", ".join(kernel.name for kernel in kernels)
        raise BadInput(f"{file!r} has no kernel {entry!r}; it has {names}")
    return found


def _target(path: str) -> Path:
    target = check_target(path, (".py",))
    if os.path.lexists(target):
        raise BadInput(f"{path!r} exists already; give another name, or remove it first")
    return target
