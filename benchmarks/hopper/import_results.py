"""Check a result file and install it as the data that the simulator reads.

    python -m benchmarks.hopper.import_results results.json
    python -m benchmarks.hopper.report

The second command brings the page up to date.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from benchmarks.hopper import catalogue, results_file

DATA = Path(__file__).resolve().parents[2] / "fa4sim" / "specs" / "data"
MEASURED = DATA / "h200_measured.json"
DEVICE = "NVIDIA H200"


def to_text(data: dict[str, Any]) -> str:
    """The file's text: one line per row, so that a new measurement shows as a readable diff."""
    head = {key: value for key, value in data.items() if key != "rows"}
    lines = [f" {json.dumps(key)}: {json.dumps(value)}," for key, value in head.items()]
    rows = ",\n".join("  " + json.dumps(row) for row in data["rows"])
    return "\n".join(["{", *lines, ' "rows": [', rows, " ]", "}"]) + "\n"


def install(source: Path, target: Path = MEASURED) -> dict[str, Any]:
    """Check `source` and write it to `target`, whole or not at all; returns the data.

    Raises:
        ResultFileError: the file is invalid, of another device, lacks a figure that the simulator
            may need, or holds one that is physically impossible.
    """
    data = results_file.read(source)
    if data["device"] != DEVICE:
        raise results_file.ResultFileError(
            f"{source} was measured on {data['device']!r}; {target.name} is for an {DEVICE!r}"
        )
    found = catalogue.complaints(results_file.values(data))
    if found:
        raise results_file.ResultFileError(f"{source} is not credible:\n  " + "\n  ".join(found))
    temporary = target.with_name(target.name + ".partial")
    temporary.write_text(to_text(data), encoding="utf-8")
    temporary.replace(target)
    return data


def main(arguments: list[str]) -> int:
    """Run the command; returns its exit status."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("file", type=Path)
    options = parser.parse_args(arguments)
    try:
        data = install(options.file)
    except (OSError, results_file.ResultFileError) as error:
        print(f"import_results: {error}", file=sys.stderr)
        return 1
    print(f"{len(data['rows'])} rows of {data['device']}, {data['date']}, written to {MEASURED}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
