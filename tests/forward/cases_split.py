"""Problems whose keys are split among CTAs, some of which get none."""

from __future__ import annotations

from tests.forward.case import case

_DECODE = {"heads": 16, "kv_heads": 2}
_E4M3 = {"dtype": "e4m3", "descale": True}
_E5M2 = {"dtype": "e5m2", "descale": True}
SPLIT = (
    case("decode", 1, 900, num_splits=4, **_DECODE),
    case("decode-causal", 4, 700, num_splits=3, causal=True, batch=2, **_DECODE),
    case("decode-by-heuristic", 1, 1500, num_splits=0, batch=2, **_DECODE),
    case("decode-fp16-unpacked", 1, 700, num_splits=3, dtype="fp16", heads=4, kv_heads=2,
         design={"pack_gqa": False}),
    case("decode-odd-3", 2, 700, num_splits=3, heads=6, kv_heads=2, causal=True),
    case("prefill-R", 300, 1000, num_splits=3, heads=2, rising=True),
    case("prefill-batch", 600, 500, num_splits=2, heads=2, batch=2),
    case("causal-R", 400, 600, num_splits=4, heads=2, causal=True, rising=True),
    case("causal-uneven-shares", 700, 700, num_splits=3, causal=True),
    case("d64", 300, 1000, num_splits=3, head_dim=64),
    case("d96-causal", 300, 400, num_splits=2, head_dim=96, causal=True),
    case("d72", 300, 300, num_splits=2, head_dim=72),
    case("d16", 300, 300, num_splits=2, head_dim=16),
    case("window-both", 400, 700, num_splits=3, window=(200, 30)),
    case("window-left-shares-of-no-mask", 300, 1500, num_splits=3, window=(1000, None), heads=2),
    case("more-splits-than-blocks", 100, 200, num_splits=8),
    case("most-splits", 130, 300, num_splits=256, head_dim=64),
    case("one-row-one-key", 1, 1, num_splits=2),
    case("causal-no-key-in-sight", 500, 100, num_splits=3, causal=True),
    case("varlen", (300, 17, 140, 0), (900, 250, 0, 50), num_splits=3, heads=2),
    case("varlen-causal", (100, 300), (900, 300), num_splits=4, causal=True),
    case("varlen-decode", (1, 1, 3), (700, 1, 300), num_splits=4, causal=True, **_DECODE),
    case("varlen-d64-fp16-window", (200, 50), (300, 500), num_splits=2, head_dim=64, dtype="fp16",
         window=(100, 10)),
    case("sink", 300, 500, num_splits=4, sink=True, heads=2, kv_heads=1),
    case("sink-causal-no-key-in-sight", 300, 100, num_splits=3, sink=True, causal=True, heads=2),
    case("sink-varlen", (100, 200), (0, 300), num_splits=2, sink=True, heads=2),
    case("fp8-decode", 1, 700, num_splits=3, **_DECODE, **_E4M3),
    case("fp8-causal", 300, 500, num_splits=2, causal=True, heads=2, **_E5M2),
    case("fp8-d64-sink-R", 200, 600, num_splits=3, head_dim=64, sink=True, rising=True, heads=2,
         **_E4M3),
    case("stored-by-correction", 300, 500, num_splits=2, design={"epilogue": "correction"}),
    case("one-cta-after-another", 300, 400, num_splits=2, heads=2, sms=1),
    case("page-16-decode-causal", 2, (500, 77, 300), num_splits=3, causal=True,
         page_size=16, **_DECODE),
    case("page-128-fp8-decode", 1, (700, 129), num_splits=2, page_size=128, **_DECODE,
         **_E4M3),
)  # fmt: skip
