"""Sweep, draw and write `docs/maps.md`.

python -m benchmarks.maps.run                # all maps: sweep, draw, write; some minutes
python -m benchmarks.maps.run --only fp8     # sweep that one again; the others' rows are kept
python -m benchmarks.maps.run --draw         # draw and write from the rows that are stored
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from benchmarks.maps import fp8, pages, splits
from benchmarks.maps.grids import GRIDS
from benchmarks.maps.section import Section
from benchmarks.maps.stored import Row, read
from fa4sim.sweeps import sweep
from fa4sim.views.files import write_whole

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "maps.md"
ROWS = ROOT / "docs" / "maps"

SECTIONS: Mapping[str, Callable[[Sequence[Row]], Section]] = {
    "splits": splits.section,
    "pages": pages.section,
    "fp8": fp8.section,
}

HEAD = """\
# Maps

What the simulator says of a B200 over whole ranges of problems and designs. Each map is a
[sweep](sweeps.md); its rows lie beside the picture. They are a model's, not measured. How far it
is off where somebody has measured: [validation](validation/b200.md),
[deviations](validation/deviations.md).

<!-- Written by `python -m benchmarks.maps.run`; do not edit. -->
"""


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """The command's options."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.maps.run",
        description="Sweep, draw, and write the page of maps.",
        epilog="A sweep that was stopped goes on when it is run again.",
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--only", action="append", choices=list(GRIDS), help="sweep only this")
    what.add_argument("--draw", action="store_true", help="sweep nothing; draw what is stored")
    parser.add_argument("--jobs", type=int, metavar="N", help="processes (one per core)")
    parser.add_argument("--dask", metavar="ADDRESS", help="run on this Dask cluster")
    return parser.parse_args(given)


def main(given: Sequence[str] | None = None) -> None:
    """Run the command."""
    options = arguments(given)
    ROWS.mkdir(exist_ok=True)
    for name in () if options.draw else options.only or GRIDS:
        print(f"{name}: {len(GRIDS[name])} points", file=sys.stderr, flush=True)
        sweep(GRIDS[name], output=ROWS / f"{name}.csv", jobs=options.jobs, cluster=options.dask)
    write(ROWS, PAGE)
    print(f"wrote {PAGE.relative_to(ROOT)}", file=sys.stderr)


def write(rows: Path, page: Path) -> None:
    """Draw every map from its stored rows, and write the page."""
    parts = [HEAD]
    for name, make in SECTIONS.items():
        section = make(read(rows / f"{name}.csv"))
        section.picture.save(rows / f"{name}.png")
        folder = rows.relative_to(page.parent)
        parts += [
            f"## {section.title}\n", section.before + "\n",
            f"![{section.shown}]({folder.as_posix()}/{name}.png)\n", section.after + "\n",
            f"Rows: [{name}.csv]({folder.as_posix()}/{name}.csv). Again: "
            f"`python -m benchmarks.maps.run --only {name}`.\n",
        ]  # fmt: skip
    write_whole(page, "\n".join(parts).encode())


if __name__ == "__main__":
    main()
