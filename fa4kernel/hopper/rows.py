"""What a consumer thread does with its scores, which lie in registers.

wgmma gives each thread of a warpgroup, of every 8 columns, 2 columns of each of 2 rows: numbers
0, 1 of row `16 warp + lane // 4`, numbers 2, 3 of the row 8 below, columns `2 (lane % 4)` and the
next. Four neighbouring lanes share a row.
"""

from __future__ import annotations

from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass import Float32

from fa4kernel.forward.exp2 import on_mufu
from fa4kernel.hopper.config import Config

INFINITY = float("inf")
HALVES = (0, 1)  # the two rows of a thread


def of_half(scores: Any, half: int) -> list[int]:
    """The places of one row's scores in a thread's registers."""
    return [i for i in range(cute.size(scores)) if i // 2 % 2 == half]


def mask(cfg: Config, scores: Any, half: int, sight: tuple[Any, Any], first: Any) -> None:
    """Scores of keys that the row does not see become -infinity.

    Args:
        sight: keys that the row sees, from and to.
        first: key of this thread's first column.
    """
    left, right = (key - first for key in sight)
    for i in of_half(scores, half):
        column = i // 4 * 8 + i % 2
        seen = right > column
        if cfg.window_left:
            seen = seen & (left <= column)
        scores[i] = cutlass.select_(seen, scores[i], Float32(-INFINITY))


def maximum(scores: Any, half: int, top: Any) -> Any:
    """A row's maximum, `top` included, over the four lanes that share it."""
    places = of_half(scores, half)
    chains = [scores[i] for i in places[:4]]
    for number, i in enumerate(places[4:]):
        chains[number % 4] = cute.arch.fmax(chains[number % 4], scores[i])
    first, second = cute.arch.fmax(chains[0], chains[1]), cute.arch.fmax(chains[2], chains[3])
    highest = cute.arch.fmax(cute.arch.fmax(first, second), top)
    for distance in (1, 2):
        other = cute.arch.shuffle_sync_bfly(highest, offset=distance)
        highest = cute.arch.fmax(highest, other)
    return highest


def exponentiate(scores: Any, half: int, scale: Any, shift: Any) -> None:
    """In place: 2^(s * scale - shift)."""
    for i in of_half(scores, half):
        scores[i] = on_mufu(scores[i] * scale - shift)


def total(scores: Any, half: int, start: Any) -> Any:
    """`start` plus this thread's part of a row."""
    places = of_half(scores, half)
    chains = [start, Float32(0.0)]
    for number, i in enumerate(places):
        chains[number % 2] = chains[number % 2] + scores[i]
    return chains[0] + chains[1]


def over_lanes(value: Any) -> Any:
    """The sum over the four lanes that share a row."""
    for distance in (1, 2):
        value = value + cute.arch.shuffle_sync_bfly(value, offset=distance)
    return value


def scale_rows(values: Any, factors: Any) -> None:
    """In place: each row times its factor."""
    for i in range(cute.size(values)):
        values[i] = values[i] * factors[i // 2 % 2]
