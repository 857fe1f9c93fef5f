"""Correct kernels under many schedules: ``python -m fa4kernel.emulator.soak SUBJECT ...``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from fa4kernel.emulator.emulate import CHECKS
from fa4kernel.emulator.soak.report import section, write
from fa4kernel.emulator.soak.runs import Run, soak
from fa4kernel.emulator.soak.subject import all_of

#: Modules with subjects, in a checkout of this repository.
MODULES = (
    "tests.emulator.soak.examples", "tests.emulator.soak.ours", "tests.emulator.soak.official",
)  # fmt: skip
COMMAND = "python -m fa4kernel.emulator.soak"


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(
        prog=COMMAND,
        description="Run correct kernels in many orders of events. Nothing may be reported, and "
        "the outputs must be the same to the last bit.",
    )
    add = made.add_argument
    add("subjects", nargs="*", metavar="SUBJECT",
        help="package.module:name, or package.module for all of its subjects; default: the "
        "examples, our kernel and the official kernels, from a checkout with flash-attn-4 "
        "installed (or FA4_PYTHON set)")  # fmt: skip
    add("--schedules", type=int, default=100, help="for each (default: %(default)s)")
    add("--checks", default="default", choices=CHECKS, help="default: %(default)s")
    add("--jobs", type=int, default=1, help="processes (default: %(default)s)")
    add("--page", type=Path, help="write the section into this Markdown page")
    return made


def main(arguments: list[str] | None = None) -> int:
    """Run the command; 1 if anything was reported or the outputs differ."""
    given = parser().parse_args(arguments)
    subjects = [
        one
        for where in given.subjects or MODULES
        for one in ([where] if ":" in where else all_of(where))
    ]

    def progress(where: str, run: Run) -> None:
        if run.wrong:
            print(f"{where}, schedule {run.schedule}:", *run.wrong, sep="\n", flush=True)

    found = []
    for where in subjects:
        (one,) = soak([where], given.schedules, given.jobs, given.checks, progress)
        found.append(one)
        reported = sum(bool(run.wrong) for run in one.runs)
        print(
            f"{one.name}: {len(one.runs)} schedules, {reported} with reports, {one.outputs} "
            f"output{'s' if one.outputs != 1 else ''}, {dict(one.known)} known, "
            f"{one.seconds:.0f} s",
            flush=True,
        )
    if given.page:
        words = sys.argv[1:] if arguments is None else arguments
        write(given.page, section(found, " ".join([COMMAND, *words]), given.checks))
    return 0 if all(one.good for one in found) else 1


if __name__ == "__main__":
    sys.exit(main())
