"""What a softmax thread does with its row of scores, which lies in registers: four fragments of 32.

Scores are used in base 2: 2^((s - max) * scale_log2) needs no multiplication by log2(e) of its own.
"""

from __future__ import annotations

from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass import Constexpr, Float32

from fa4kernel.forward import exp2
from fa4kernel.forward.config import FRAGMENT, TILE, Config

INFINITY = float("inf")


def mask(cfg: Config, scores: list[Any], sight: tuple[Any, Any], block: Any) -> None:
    """Scores of keys that the row does not see become -infinity."""
    left, right = (key - block * TILE for key in sight)
    for number, fragment in enumerate(scores):
        for i in range(FRAGMENT):
            column = number * FRAGMENT + i
            seen = right > column
            if cfg.window_left:
                seen = seen & (left <= column)
            fragment[i] = cutlass.select_(seen, fragment[i], Float32(-INFINITY))


def maximum(scores: list[Any], top: Any) -> Any:
    """The row's maximum: four chains of three-input maxima, so that none waits for another."""
    chains = [fragment[0] for fragment in scores]
    for i in range(1, FRAGMENT - 1, 2):
        chains = [max3(c, f[i], f[i + 1]) for c, f in zip(chains, scores, strict=True)]
    chains = [cute.arch.fmax(c, f[FRAGMENT - 1]) for c, f in zip(chains, scores, strict=True)]
    return max3(max3(chains[0], chains[1], top), chains[2], chains[3])


def max3(a: Any, b: Any, c: Any) -> Any:
    """The largest of three, by one instruction."""
    return cute.arch.inline_ptx(
        "max.f32 {$w0}, {$r0}, {$r1}, {$r2};", write_only_types=[Float32], read_only_args=[a, b, c]
    )


@cute.jit
def rescaling(
    cfg: Constexpr, highest: Float32, top: Float32, scale: Float32, first: Constexpr
) -> tuple[Float32, Float32, Float32]:
    """Whether to move to the new maximum: factor for O and the sum, maximum in use, shift.

    As long as the maximum has grown by less than 2^threshold, the old one serves: P may exceed 1,
    O needs no rescaling, and the final division puts everything right. FP8's P is 2^offset times as
    large, which makes use of its range; so is the sum.
    """
    factor, shift = Float32(0.0), highest
    if highest == -INFINITY:  # nothing seen so far: any finite shift gives P = 0
        shift = Float32(0.0)
    if cutlass.const_expr(first):
        top = highest
    else:
        exponent = (top - shift) * scale
        factor = exp2.on_mufu(exponent)
        if exponent >= -cfg.rescale_threshold:
            factor, shift = Float32(1.0), top
        else:
            top = highest
    shift = shift * scale
    if cutlass.const_expr(cfg.max_offset):
        shift = shift - float(cfg.max_offset)
    return factor, top, shift


def exponentiate(cfg: Config, fragment: Any, number: int, scale: Any, shift: Any) -> None:
    """In place: 2^(s * scale - shift), on the MUFU or, for some columns, on the FMA units."""
    for i in range(0, FRAGMENT, 2):
        pair = cute.arch.fma_packed_f32x2(
            (fragment[i], fragment[i + 1]), (scale, scale), (-shift, -shift)
        )
        if cfg.emulated(number, i):
            pair = exp2.on_fma(pair, cfg.exp2_degree)
        else:
            pair = exp2.on_mufu(pair[0]), exp2.on_mufu(pair[1])
        fragment[i], fragment[i + 1] = pair


def row_sum(scores: list[Any], total: Any, first: bool) -> Any:
    """`total` plus the row's P, not rounded: four chains of two-wide additions."""
    chains = [(fragment[0], fragment[1]) for fragment in scores]
    if not first:
        chains[0] = cute.arch.add_packed_f32x2(chains[0], (total, 0.0))
    for i in range(2, FRAGMENT, 2):
        chains = [
            cute.arch.add_packed_f32x2(chain, (fragment[i], fragment[i + 1]))
            for chain, fragment in zip(chains, scores, strict=True)
        ]
    while len(chains) > 1:
        chains = [
            cute.arch.add_packed_f32x2(a, b) for a, b in zip(chains[::2], chains[1::2], strict=True)
        ]
    return chains[0][0] + chains[0][1]
