"""Problems in FP8, nearly all with factors of any magnitude for each sequence and K/V head."""

from __future__ import annotations

from tests.forward.case import case

_ONE = {"cta_group": 1}
_D192 = {"head_dim": 192, "head_dim_v": 128}
_E4M3 = {"dtype": "e4m3", "descale": True}
_E5M2 = {"dtype": "e5m2", "descale": True}
FP8 = (
    case("pair", 512, 384, **_E4M3),
    case("pair-WTR", 1024, 1300, heads=2, sms=2, rising=True, **_E4M3),
    case("pair-e5m2", 713, 333, heads=2, **_E5M2),
    case("pair-d192-WT", 600, 1024, heads=3, sms=2, **_D192, **_E4M3),
    case("single-WTR", 512, 768, heads=2, sms=1, rising=True, design=_ONE, **_E4M3),
    case("single-d192-WT", 512, 600, heads=2, sms=1, design=_ONE, **_D192, **_E5M2),
    case("d64-WT", 512, 1664, head_dim=64, heads=2, sms=1, **_E4M3),
    case("d64-e5m2-causal", 400, 333, head_dim=64, causal=True, **_E5M2),
    case("d64-window", 400, 500, head_dim=64, window=(99, 40), heads=2, **_E4M3),
    case("d96-T", 300, 450, head_dim=96, heads=2, sms=1, **_E4M3),
    case("d80", 300, 300, head_dim=80, **_E4M3),
    case("d48-causal", 300, 300, head_dim=48, causal=True, **_E5M2),
    case("d32", 300, 600, head_dim=32, **_E4M3),
    case("d16", 300, 300, head_dim=16, heads=2, **_E4M3),
    case("causal-WR", 1024, 1024, causal=True, heads=2, rising=True, **_E4M3),
    case("causal-e5m2", 500, 333, causal=True, **_E5M2),
    case("causal-no-key-in-sight", 500, 100, causal=True, **_E4M3),
    case("causal-d192", 400, 400, causal=True, **_D192, **_E4M3),
    case("window-both", 500, 600, window=(130, 70), **_E4M3),
    case("one-tile", 100, 700, heads=2, **_E4M3),
    case("one-row-one-key", 1, 1, **_E5M2),
    case("packed-8-causal", 40, 300, heads=16, kv_heads=2, causal=True, **_E4M3),
    case("packed-2-pair", 300, 300, heads=4, kv_heads=2, batch=2, **_E4M3),
    case("odd-3", 200, 300, heads=6, kv_heads=2, batch=2, **_E4M3),
    case("varlen", (300, 17, 140), (300, 250, 0), heads=4, kv_heads=2, **_E4M3),
    case("varlen-d64-causal", (150, 60), (300, 60), head_dim=64, causal=True, **_E5M2),
    case("sink-causal", 300, 200, sink=True, causal=True, heads=2, **_E4M3),
    case("sink-one-tile", 100, 300, sink=True, heads=3, **_E5M2),
    case("large-scores-R", 512, 640, softmax_scale=3.0, dtype="e4m3", rising=True),
    case("without-factors", 300, 300, dtype="e4m3", heads=2),
    case("without-factors-e5m2-causal", 300, 300, dtype="e5m2", causal=True),
    case("threshold-as-high-as-can-be-R", 512, 640, rising=True, design={
        "cta_group": 1, "rescale_threshold": 0.75}, **_E4M3),
    case("p-in-one-part", 512, 640, design={"cta_group": 1, "p_first_columns": 128}, **_E4M3),
    case("p-quarter-first", 512, 640, design={"p_first_columns": 32}, **_E5M2),
    case("stored-by-correction-T", 600, 300, sms=1,
         design={"cta_group": 1, "epilogue": "correction"}, **_E4M3),
)  # fmt: skip
