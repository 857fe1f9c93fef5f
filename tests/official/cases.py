"""The matrix of problems the official kernel is run on, as data.

A case is a variant and sizes. They are small, but each makes the kernel do what its group says:
the K/V ring wraps (``W``), a CTA works on more than one tile (``T``), O is rescaled in TMEM
because later scores are larger (``R``), or lengths end inside a tile.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fa4kernel.official.variant import KV_HEADS, Variant

Window = tuple[int | None, int | None]


@dataclass(frozen=True)
class Case:
    """A problem to run.

    Attributes:
        name: for the test's report.
        variant: what is compiled.
        seqlens_q, seqlens_k: of each sequence.
        kv_heads: key heads; query heads are ``variant.ratio`` times as many.
        window: keys to the left and right, None for unbounded.
        page: keys of a page.
        splits: of the keys.
        sms: multiprocessors of the imagined GPU: few make CTAs work on several tiles.
        rising: scores grow towards the first keys, which are processed last.
        reports: kinds of hazard that the official kernel really has here.
    """

    name: str
    variant: Variant
    seqlens_q: tuple[int, ...]
    seqlens_k: tuple[int, ...]
    kv_heads: int = 1
    window: Window = (None, None)
    page: int = 0
    splits: int = 1
    sms: int = 148
    rising: bool = False
    reports: tuple[str, ...] = ()


def _case(
    name: str,
    q: int | tuple[int, ...],
    k: int | tuple[int, ...],
    *,
    kv_heads: int | None = None,
    window: Window = (None, None),
    page: int = 0,
    splits: int = 1,
    sms: int = 148,
    rising: bool = False,
    reports: tuple[str, ...] = (),
    **variant: Any,
) -> Case:
    """A case whose variant has the number of tiles and blocks that its lengths need."""
    lengths_q = (q,) if isinstance(q, int) else q
    lengths_k = (k,) if isinstance(k, int) else k
    if kv_heads is None:
        kv_heads = KV_HEADS if splits > 1 else 1
    made = Variant(**variant)
    rows = max(lengths_q) * (made.ratio if made.packed else 1)
    number = "one tile" if rows <= 128 else "two tiles" if rows <= 256 else "many"
    made = Variant(
        **variant,
        rows=number,
        long=max(lengths_k) > 63 * 128,
        window_left=window[0] is not None,
        window_right=window[1] is not None,
        split=splits > 1,
        pages=None if not page else "tile" if page == 128 else "other",
    )
    return Case(
        name, made, lengths_q, lengths_k, kv_heads, window, page, splits, sms, rising, reports
    )


FORWARD = (
    _case("pair", 512, 384),
    _case("pair-WTR", 1024, 1024, kv_heads=2, sms=4, rising=True),
    _case("pair-fp16-lse", 1024, 512, dtype="fp16", lse=True),
    _case("pair-d192", 512, 896, head_dim=192, kv_heads=2, sms=2, lse=True),
    _case("single-WTR", 512, 768, pair=False, kv_heads=2, sms=2, rising=True, lse=True),
    _case("single-fp16", 512, 512, pair=False, dtype="fp16"),
    _case("single-d192", 512, 1024, pair=False, head_dim=192, kv_heads=2, sms=1, lse=True),
    _case("d64", 512, 1536, head_dim=64, head_dim_v=64, lse=True),
    _case("d96", 512, 896, head_dim=96, head_dim_v=96, kv_heads=2, sms=2, lse=True),
    _case("d96-fp16", 512, 384, head_dim=96, head_dim_v=96, dtype="fp16"),
    _case("causal-WR", 1024, 1024, causal=True, kv_heads=2, rising=True, lse=True),
    _case("causal-fp16", 768, 768, causal=True, dtype="fp16"),
    _case("causal-d64", 768, 768, causal=True, head_dim=64, head_dim_v=64, kv_heads=3),
    _case("causal-d96", 512, 512, causal=True, head_dim=96, head_dim_v=96),
    _case("causal-d192-W", 768, 1024, causal=True, head_dim=192, lse=True),
    _case("causal-clc", 1024, 512, causal=True, clc=True, kv_heads=2, sms=2, lse=True),
    _case("window-left-right", 768, 768, window=(200, 0), lse=True),
    _case("window-both", 700, 900, window=(130, 70), kv_heads=2, lse=True),
    _case("window-left", 512, 640, window=(100, None), lse=True),
    _case("window-right", 512, 640, window=(None, 33), lse=True),
    _case("window-d64-fp16", 512, 640, window=(64, 64), head_dim=64, head_dim_v=64, dtype="fp16"),
)

# Without TMA, rows beyond the last query are not loaded, nor set to zero. A Q tile that lies wholly
# beyond it is multiplied as it is found in shared memory, and the product is dropped.
_ODD = {"ratio": 3, "lse": True, "reports": ("uninitialised-read",)}
GROUPED = (
    _case("packed-4", 256, 512, ratio=4, lse=True),
    _case("packed-4-causal", 300, 420, ratio=4, causal=True, kv_heads=2, lse=True),
    _case("packed-2-window", 400, 400, ratio=2, window=(99, 1), lse=True),
    _case("packed-3-odd", 200, 300, **_ODD),
    _case("packed-3-odd-causal", 200, 300, causal=True, **_ODD),
    _case("unpacked-4", 512, 512, ratio=4, pack=False, lse=True),
    _case("unpacked-4-causal", 320, 448, ratio=4, pack=False, causal=True, lse=True),
)

LENGTHS = (
    _case("pair-ragged", 713, 333, kv_heads=2, lse=True),
    _case("single-ragged", (517, 517), (1001, 1001), pair=False, sms=3, lse=True),
    _case("causal-short-keys", 700, 333, causal=True, lse=True),
    _case("causal-long-keys", 333, 777, causal=True, kv_heads=2, lse=True),
    _case("one-tile", 100, 100, lse=True),
    _case("one-tile-causal", 128, 1000, causal=True, lse=True),
    _case("two-tiles", 129, 130, lse=True),
    _case("two-tiles-causal", 256, 520, causal=True, kv_heads=2, lse=True),
    _case("d96-ragged", 300, 450, head_dim=96, head_dim_v=96, lse=True),
    _case("d80", 300, 300, head_dim=80, head_dim_v=80, lse=True),
    _case("d32", 300, 600, head_dim=32, head_dim_v=32, lse=True),
    _case("d16", 300, 600, head_dim=16, head_dim_v=16, lse=True),
    _case("three-keys", 300, 3, lse=True),
)

_VARLEN = {"varlen_q": True, "varlen_k": True, "lse": True}
VARIABLE = (
    _case("varlen", (300, 17, 512, 130), (300, 250, 100, 384), kv_heads=2, **_VARLEN),
    _case("varlen-causal", (400, 1, 300), (400, 200, 333), causal=True, kv_heads=2, **_VARLEN),
    _case("varlen-empty", (300, 0, 140), (200, 100, 0), **_VARLEN),
    _case("varlen-window", (300, 200), (350, 200), window=(64, 10), **_VARLEN),
    _case("varlen-packed", (150, 60, 33), (300, 60, 500), ratio=4, causal=True, **_VARLEN),
    _case("varlen-packed-odd", (150, 60, 33), (300, 60, 500), **_VARLEN | _ODD),
    _case("varlen-one-tile", (100, 128, 3), (100, 300, 257), **_VARLEN),
    _case("varlen-d64-fp16", (300, 50), (99, 500), head_dim=64, head_dim_v=64, dtype="fp16",
          **_VARLEN),
    _case("varlen-q-only", (300, 150), (256, 256), varlen_q=True, lse=True),
    _case("varlen-k-only", (300, 300), (256, 77), varlen_k=True, lse=True),
    _case("used-k", (512, 512), (300, 511), used_k=True, lse=True),
    _case("used-both", (500, 77), (300, 511), used_q=True, used_k=True, causal=True, lse=True),
    _case("varlen-clc", (300, 200), (300, 200), ratio=2, clc=True, sms=2, causal=True, **_VARLEN),
)  # fmt: skip

OPTIONS = (
    _case("sink", 512, 300, sink=True, ratio=2, lse=True),
    _case("sink-causal", 500, 333, sink=True, causal=True, kv_heads=2, lse=True),
    _case("softcap", 512, 512, softcap=20.0, lse=True),
    _case("softcap-causal", 400, 400, softcap=5.0, causal=True, lse=True),
)

_E4M3 = {"dtype": "e4m3", "descale": True, "lse": True}
INFERENCE = (
    _case("e4m3-pair", 512, 768, kv_heads=2, sms=4, **_E4M3),
    _case("e4m3-causal", 512, 512, causal=True, **_E4M3),
    _case("e4m3-d64", 300, 500, head_dim=64, head_dim_v=64, **_E4M3),
    _case("e4m3-plain", 512, 512, dtype="e4m3"),
    _case("e5m2-pair", 512, 512, dtype="e5m2", descale=True, lse=True),
    _case("e5m2-causal", 300, 500, dtype="e5m2", causal=True),
    _case("decode", (1, 1), (700, 700), ratio=8, kv_heads=2, lse=True),
    _case("decode-4-tokens", (4, 4), (700, 700), ratio=8, causal=True, lse=True),
    _case("decode-e4m3", (1, 1), (700, 700), ratio=8, **_E4M3),
    _case("split", (1, 1), (1500, 1500), ratio=8, splits=4, lse=True),
    _case("split-prefill", 300, 1000, splits=3, lse=True),
    _case("split-causal", 400, 600, splits=4, causal=True, lse=True),
    _case("split-d64", 300, 1000, splits=3, head_dim=64, head_dim_v=64),
    _case("split-d192-long", (1, 1), (8200, 8200), ratio=8, splits=5, head_dim=192, lse=True),
    _case("split-empty", 100, 200, splits=8, lse=True),
    _case("split-e4m3", (1, 1), (1500, 1500), ratio=8, splits=4, **_E4M3),
    _case("split-varlen", (100, 300, 30), (900, 200, 500), splits=4, sms=3, **_VARLEN),
    _case("split-varlen-causal", (100, 300), (900, 300), splits=4, sms=3, causal=True, **_VARLEN),
    _case("split-varlen-static", (100, 300), (900, 300), splits=4, metadata=False, **_VARLEN),
    _case("page-1", (1, 1, 1), (300, 77, 512), page=1, used_k=True, ratio=8, lse=True),
    _case("page-16", (4, 4), (700, 333), page=16, used_k=True, ratio=8, causal=True, lse=True),
    _case("page-16-prefill", (300, 300), (512, 333), page=16, used_k=True, lse=True),
    _case("page-16-split", (1, 1), (1500, 700), page=16, used_k=True, ratio=8, splits=3, lse=True),
    _case("page-16-d64", (200, 200), (300, 77), page=16, used_k=True, head_dim=64, head_dim_v=64),
    _case("page-128", (1, 1), (700, 300), page=128, used_k=True, ratio=8, lse=True),
    _case("page-128-pair", (512, 512), (700, 300), page=128, used_k=True, lse=True),
    _case("page-128-causal", (400, 400), (700, 500), page=128, used_k=True, causal=True, lse=True),
    _case("d256", 512, 640, head_dim=256, head_dim_v=256, kv_heads=2, lse=True),
    _case("d256-causal", 512, 640, head_dim=256, head_dim_v=256, causal=True, ratio=2, lse=True),
    _case("d256-fp16-ragged", 300, 333, head_dim=256, head_dim_v=256, dtype="fp16", lse=True),
    _case("d256-page", (256, 256), (512, 512), page=128, head_dim=256, head_dim_v=256, lse=True),
)  # fmt: skip

ALL = FORWARD + GROUPED + LENGTHS + VARIABLE + OPTIONS + INFERENCE
