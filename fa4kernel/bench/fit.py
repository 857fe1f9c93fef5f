"""How the two fitted constants of the H200 were found: `python -m fa4kernel.bench.fit`.

Each pair on a grid is tried on six stated points, and the pair with the smallest mean error is
taken. All other points of docs/validation/h200.md are predictions.

- `beside_mma_mufu_issue_factor`: how much of the register file's ports an exponential takes from
  others beside wgmma. Measured is only a mixture, which bounds it.
- `share_burst_bytes`: how far an SM runs ahead of its fair share of L2 and HBM.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from itertools import product

from fa4kernel.bench.predict import Compared, point_of, simulated_cycles
from fa4kernel.bench.stored import measured

CONSTANTS = ("beside_mma_mufu_issue_factor", "share_burst_bytes")
#: The first constant is felt where exponentials bind: with two consumers, with three, without
#: turns; the second where tiles are short.
POINTS = (
    "d128 full 4096 b8 h16", "d64 full 4096 b8 h32", "d128 full 4096 b8 h16, no ping-pong",
    "d128 causal 512 b64 h16", "d64 causal 512 b64 h32", "d128 causal 1024 b32 h16",
)  # fmt: skip
GRID = ((4.0, 4.5, 5.0, 5.5, 6.0, 6.5), (4096, 8192, 12_288, 16_384))


def tried() -> Iterator[tuple[tuple[float, int], float]]:
    """Every pair of the grid with its mean error on the six points."""
    stored = measured()
    rows = [row for row in stored["points"] if row["name"] in POINTS]
    for pair in product(*GRID):
        changes = dict(zip(CONSTANTS, pair, strict=True))
        found = [
            Compared(point_of(row), row, simulated_cycles(row, **changes), stored["empty_ms"])
            for row in rows
        ]
        yield pair, statistics.mean(abs(each.error) for each in found)


if __name__ == "__main__":
    for pair, error in sorted(tried(), key=lambda each: each[1]):
        print(f"{error:.2%}", dict(zip(CONSTANTS, pair, strict=True)))
