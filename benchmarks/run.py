"""Measure how fast the simulator and the emulator are and write `docs/benchmarks.md`.

python -m benchmarks.run                     # everything; some minutes on two cores
python -m benchmarks.run --only demo         # one measurement, its page to stdout
python -m benchmarks.run -o elsewhere.md     # another file
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from benchmarks.emulator import against_triton, memory, single
from benchmarks.speed import demo, events, exact, imports, large, machine, perfetto, tile
from benchmarks.speed.measurement import Measurement
from benchmarks.speed.page import page
from benchmarks.speed.stopwatch import ROOT
from benchmarks.speed.words import shown
from fa4sim.views.files import write_whole

PAGE = ROOT / "docs" / "benchmarks.md"

MEASUREMENTS: Mapping[str, Callable[[], Measurement]] = {
    "events": events.measure,
    "demo": demo.measure,
    "tile": tile.measure,
    "import": imports.measure,
    "perfetto": perfetto.measure,
    "exact": exact.measure,
    "large": large.measure,
    "official": against_triton.measure,
    "emulator": single.measure,
    "memory": memory.measure,
}


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """The command's options. A file that cannot be written is refused before anything is run."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.run",
        description="Measure how fast the simulator and the emulator are, and write the page that "
        "says so.",
        epilog="Targets that are missed are published and are no failure of the command.",
    )
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="where to write (docs/benchmarks.md)"
    )
    parser.add_argument(
        "--only",
        action="append",
        choices=list(MEASUREMENTS),
        metavar="NAME",
        help=f"measure only this and print it unless -o is given; may be repeated. One of: "
        f"{', '.join(MEASUREMENTS)}",
    )
    options = parser.parse_args(given)
    if options.output is not None:
        folder = options.output.resolve().parent
        if not folder.is_dir():
            parser.error(f"-o {str(options.output)!r}: there is no folder {str(folder)!r}")
        if options.output.is_dir():
            parser.error(f"-o {str(options.output)!r} is a folder; give a file")
    elif not options.only:
        options.output = PAGE
    return options


def tell(text: str) -> None:
    """A line of progress."""
    print(text, file=sys.stderr, flush=True)


def measure(names: Sequence[str]) -> list[Measurement]:
    """Run the measurements, with a line before each and its figures after."""
    found = []
    for number, name in enumerate(names, 1):
        tell(f"[{number}/{len(names)}] {name}")
        started = time.perf_counter()
        measurement = MEASUREMENTS[name]()
        for figure in measurement.figures:
            verdict = "met" if figure.met else "missed"
            tell(f"      {figure.what}: {shown(figure.value, figure.unit)}, {verdict}")
        tell(f"      measured in {time.perf_counter() - started:.0f} s")
        found.append(measurement)
    return found


def main(given: Sequence[str] | None = None) -> None:
    options = arguments(given)
    facts = machine.facts()  # before the measurements put load on the machine
    names = [name for name in MEASUREMENTS if not options.only or name in options.only]
    text = page(facts, measure(names))
    if options.output is None:
        print(text, end="")
    else:
        write_whole(options.output, text.encode())
        tell(f"wrote {os.path.relpath(options.output)}")


if __name__ == "__main__":
    main()
