"""Problems whose K and V lie in pages, or whose keys are fewer than there is room for.

Sequences end inside a page, at its end, or have no key; entries of the table that none needs, and
rows that no sequence has, are traps (`fa4kernel.cli.pages`).
"""

from __future__ import annotations

from tests.forward.case import case

_D192 = {"head_dim": 192, "head_dim_v": 128}
_E4M3 = {"dtype": "e4m3", "descale": True}
_GROUP = {"heads": 8, "kv_heads": 2}
PAGED = (
    case("page-1-decode-T", 1, (700, 0, 333), page_size=1, sms=1, **_GROUP),
    case("page-1-window-R", 300, (700, 129), page_size=1, window=(150, 20), rising=True),
    case("page-2-sink-d32", 40, (300, 7), page_size=2, head_dim=32, sink=True, heads=2),
    case("page-7-fp16-WT", 300, (900, 5), page_size=7, dtype="fp16", heads=2, sms=1),
    case("page-8-varlen", (130, 0, 40), (700, 20, 333), page_size=8, heads=2),
    case("page-8-shared-prefix-d64", 64, (500, 400, 300), page_size=8, prefix=25, head_dim=64,
          heads=4, kv_heads=1, causal=True),
    case("page-16-WTR", 512, (1000, 640), page_size=16, heads=2, sms=1, rising=True),
    case("page-16-decode-16", 1, (500, 129, 128), page_size=16, heads=16, kv_heads=1),
    case("page-16-decode-4-causal", 5, (700, 3), page_size=16, heads=4, kv_heads=1, causal=True),
    case("page-16-one-key", 1, (1, 0), page_size=16, heads=5, kv_heads=1),
    case("page-16-d192-uneven-ring-WT", 300, (1000, 400), page_size=16, heads=1, sms=1, **_D192),
    case("page-16-d192-one-tile-WT", 60, (1000, 400), page_size=16, heads=2, sms=1, **_D192),
    case("page-16-dv-64", 200, (333, 200), page_size=16, head_dim_v=64),
    case("page-32-causal-WTR", 300, (900, 333), page_size=32, causal=True, heads=2, sms=1,
          rising=True, design={"scheduler": "static_persistent"}),
    case("page-32-odd-3", 150, (500, 77), page_size=32, heads=3, kv_heads=1),
    case("page-64-odd-7-one-row-T", 1, (500, 77), page_size=64, heads=14, kv_heads=2, sms=1),
    case("page-64-d96", 300, (500, 400), page_size=64, head_dim=96),
    case("page-64-d80-one-tile", 100, (500, 400), page_size=64, head_dim=80, window=(300, 0)),
    case("page-64-d16", 300, (500, 400), page_size=64, head_dim=16),
    case("page-128-T", 300, (700, 0, 333), page_size=128, sms=1),
    case("page-128-pair-WT", 700, (900, 333), page_size=128, heads=2, sms=2),
    case("page-128-shared-prefix-decode", 1, (700, 333), page_size=128, prefix=2, **_GROUP),
    case("page-128-varlen-causal", (200, 1), (500, 300), page_size=128, causal=True, **_GROUP),
    case("page-128-d72", 300, (500, 300), page_size=128, head_dim=72),
    case("page-128-by-threads", 300, (500, 300), page_size=128, design={"kv_load": "cp_async"}),
    case("page-200-varlen-odd-5", (30, 0, 90), (500, 0, 300), page_size=200, heads=5, kv_heads=1,
          causal=True),
    case("page-256-window", 400, (500, 400), page_size=256, window=(64, 64), heads=2),
    case("page-256-all-keys", 130, 512, page_size=256),
    case("page-1-decode-fp8", 1, (700, 0, 333), page_size=1, **_GROUP, **_E4M3),
    case("page-16-fp8-WTR", 300, (1900, 1300), page_size=16, sms=1, rising=True, **_E4M3),
    case("page-32-fp8-d64-causal-odd-3", 150, (300, 77), page_size=32, heads=3, kv_heads=1,
         head_dim=64, causal=True, dtype="e5m2"),
    case("page-128-fp8", 300, (500, 333), page_size=128, **_E4M3),
    case("page-1-split-decode", 1, (1000, 0, 333), page_size=1, num_splits=3, **_GROUP),
    case("page-16-split-heuristic", 1, (1500, 700), page_size=16, num_splits=0, **_GROUP),
    case("page-16-split-causal-R", 300, (1000, 200), page_size=16, num_splits=3, causal=True,
         rising=True),
    case("page-32-split-odd-5-varlen", (3, 0, 60), (700, 5, 200), page_size=32, num_splits=2,
         heads=5, kv_heads=1, causal=True),
    case("page-64-split-fp8-decode", 1, (700, 130), page_size=64, num_splits=4, **_GROUP, **_E4M3),
    case("page-128-split-decode", 2, (900, 0, 300), page_size=128, num_splits=3, **_GROUP),
    case("used-keys-split", 130, (700, 0, 300), num_splits=2, heads=2),
    case("used-keys-T", 300, (700, 0, 333), sms=1),
    case("used-keys-decode-causal", 3, (700, 2, 333), causal=True, **_GROUP),
)  # fmt: skip
