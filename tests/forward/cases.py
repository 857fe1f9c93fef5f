"""The matrix of problems our kernel is run on, as data.

A case is a problem and what is changed in the design. They are small, but each makes the kernel do
what its name says: the K/V ring wraps (``W``), a CTA or pair works on three tiles or more (``T``),
O is rescaled because later scores are larger (``R``), or lengths end inside a tile. Every field of
the kernel's configuration has each of its values in some case.
"""

from __future__ import annotations

from tests.forward.case import Case as Case
from tests.forward.case import case as _case
from tests.forward.cases_fp8 import FP8
from tests.forward.cases_paged import PAGED
from tests.forward.cases_split import SPLIT

_ONE = {"cta_group": 1}
_D192 = {"head_dim": 192, "head_dim_v": 128}

FORWARD = (
    _case("pair", 512, 384),
    _case("pair-WTR", 1024, 512, heads=2, sms=2, rising=True),
    _case("pair-fp16", 1024, 512, dtype="fp16"),
    _case("pair-d192-WT", 512, 896, heads=3, sms=2, **_D192),
    _case("pair-d192-fp16-R", 600, 512, dtype="fp16", rising=True, **_D192),
    _case("single-WTR", 512, 768, heads=2, sms=1, rising=True, design=_ONE),
    _case("single-fp16", 512, 512, dtype="fp16", design=_ONE),
    _case("single-d192-uneven-ring-WT", 512, 1024, heads=2, sms=1, design=_ONE, **_D192),
    _case("single-d192-uneven-ring-odd-turns-R", 768, 640, heads=1, sms=1, rising=True,
          design=_ONE, dtype="fp16", **_D192),
    _case("d64", 512, 1536, head_dim=64),
    _case("d64-fp16-TR", 512, 640, head_dim=64, dtype="fp16", heads=2, sms=1, rising=True),
    _case("d96-WT", 512, 896, head_dim=96, heads=2, sms=1),
    _case("d96-fp16", 512, 384, head_dim=96, dtype="fp16"),
    _case("causal-WR", 1024, 1024, causal=True, heads=2, rising=True),
    _case("causal-fp16", 768, 768, causal=True, dtype="fp16"),
    _case("causal-d64", 768, 768, causal=True, head_dim=64, heads=3),
    _case("causal-d96", 512, 512, causal=True, head_dim=96),
    _case("causal-d192-W", 768, 1024, causal=True, **_D192),
    _case("causal-persistent-WT", 768, 768, causal=True, heads=2, sms=2,
          design={"scheduler": "static_persistent"}),
    _case("causal-d192-one-m-block", 256, 700, causal=True, heads=2, **_D192),
    _case("causal-d192-persistent-WT", 768, 640, causal=True, heads=1, sms=1,
          design={"scheduler": "static_persistent"}, **_D192),
    _case("single-tile-scheduler", 512, 384, heads=2,
          design={"cta_group": 1, "scheduler": "single_tile"}),
    _case("window-left-right", 768, 768, window=(200, 0)),
    _case("window-both", 700, 900, window=(130, 70), heads=2),
    _case("window-both-R", 512, 512, window=(300, 40), rising=True),
    _case("window-left", 512, 640, window=(100, None)),
    _case("window-right", 512, 640, window=(None, 33)),
    _case("window-right-largest", 512, 640, window=(100, 2**31 - 1)),
    _case("window-of-one-key", 300, 300, window=(0, 0)),
    _case("window-d64-fp16", 512, 640, window=(64, 64), head_dim=64, dtype="fp16"),
    _case("window-d96", 400, 400, window=(128, 128), head_dim=96),
    _case("window-d192", 400, 600, window=(99, 200), **_D192),
    _case("window-persistent-WT", 768, 1000, window=(150, 50), sms=1,
          design={"scheduler": "static_persistent"}),
)  # fmt: skip

GROUPED = (
    _case("packed-2-window", 400, 400, heads=2, kv_heads=1, window=(99, 1)),
    _case("packed-4", 256, 512, heads=4, kv_heads=1),
    _case("packed-4-causal", 300, 420, heads=8, kv_heads=2, causal=True),
    _case("packed-2-pair-WT", 700, 512, heads=4, kv_heads=2, sms=2),
    _case("packed-8-one-tile", 5, 700, heads=16, kv_heads=2, causal=True),
    _case("packed-128", 2, 300, heads=128, kv_heads=1),
    _case("odd-3", 200, 300, heads=3, kv_heads=1),
    _case("odd-3-causal", 200, 300, heads=6, kv_heads=2, causal=True),
    _case("odd-3-unpacked", 200, 300, heads=3, kv_heads=1, design={"pack_gqa": False}),
    _case("odd-5-WT", 130, 600, heads=10, kv_heads=2, sms=1),
    _case("odd-7-window-d64-fp16", 100, 300, heads=7, kv_heads=1, window=(40, 10), head_dim=64,
          dtype="fp16"),
    _case("odd-5-d72", 100, 300, heads=5, kv_heads=1, head_dim=72),
    _case("odd-3-d192-TR", 200, 500, heads=3, kv_heads=1, sms=1, rising=True, **_D192),
    _case("odd-7-one-row-T", 1, 700, heads=21, kv_heads=3, sms=1),
    _case("odd-12-one-tile-causal", 9, 300, heads=12, kv_heads=1, causal=True),
    _case("odd-3-one-tile-d96", 40, 300, heads=3, kv_heads=1, head_dim=96),
    _case("unpacked-4", 512, 512, heads=4, kv_heads=1, design={"pack_gqa": False}),
    _case("unpacked-4-causal", 320, 448, heads=4, kv_heads=1, causal=True,
          design={"pack_gqa": False}),
    _case("unpacked-2-pair-TR", 1024, 300, heads=2, kv_heads=1, sms=2, rising=True,
          design={"pack_gqa": False}),
    _case("packed-4-d64-fp16", 130, 333, heads=4, kv_heads=1, head_dim=64, dtype="fp16"),
)  # fmt: skip

LENGTHS = (
    _case("pair-ragged", 713, 333, heads=2),
    _case("pair-last-tile-in-one-cta", 530, 257),
    _case("single-ragged-T", 517, 1001, batch=2, sms=2, design=_ONE),
    _case("second-q-tile-out-of-range-T", 300, 200, heads=3, sms=2, design=_ONE),
    _case("second-q-tile-out-of-range-causal", 300, 300, causal=True),
    _case("causal-short-keys", 700, 333, causal=True),
    _case("causal-one-key", 300, 1, causal=True),
    _case("causal-no-key-in-sight", 900, 100, causal=True, heads=2),
    _case("causal-no-key-in-sight-persistent-T", 900, 100, causal=True, sms=1,
          design={"scheduler": "static_persistent"}),
    _case("causal-long-keys", 333, 777, causal=True, heads=2),
    _case("window-short-keys", 700, 200, window=(50, 50)),
    _case("one-tile", 100, 100),
    _case("one-tile-T", 100, 300, heads=4, sms=1),
    _case("one-tile-causal", 128, 1000, causal=True),
    _case("one-tile-d192-T", 100, 700, heads=3, sms=1, **_D192),
    _case("two-tiles", 129, 130),
    _case("two-tiles-causal", 256, 520, causal=True, heads=2),
    _case("one-row-one-key", 1, 1),
    _case("one-row", 1, 700, heads=3),
    _case("three-keys", 300, 3),
    _case("d96-ragged", 300, 450, head_dim=96),
    _case("d112", 300, 300, head_dim=112),
    _case("d80", 300, 300, head_dim=80),
    _case("d72", 300, 300, head_dim=72),
    _case("d72-causal-fp16", 300, 300, head_dim=72, causal=True, dtype="fp16"),
    _case("d48", 300, 300, head_dim=48),
    _case("d32", 300, 600, head_dim=32),
    _case("d24", 300, 300, head_dim=24),
    _case("d16-T", 300, 600, head_dim=16, heads=2, sms=1),
    _case("d8-causal", 300, 300, head_dim=8, causal=True),
)  # fmt: skip

VARIABLE = (
    _case("varlen", (300, 17, 512, 130), (300, 250, 100, 384), heads=2),
    _case("varlen-causal", (400, 1, 300), (400, 200, 333), causal=True, heads=2),
    _case("varlen-empty", (300, 0, 140, 0), (200, 100, 0, 0)),
    _case("varlen-empty-first", (0, 200), (100, 200), causal=True),
    _case("varlen-no-keys-at-some", (200, 300), (0, 150), sink=True),
    _case("varlen-window", (300, 200), (350, 200), window=(64, 10)),
    _case("varlen-packed", (150, 60, 33), (300, 60, 500), heads=4, kv_heads=1, causal=True),
    _case("varlen-odd-3", (150, 60, 33), (300, 60, 500), heads=3, kv_heads=1),
    _case("varlen-one-tile", (100, 128, 3), (100, 300, 257)),
    _case("varlen-d64-fp16", (300, 50), (99, 500), head_dim=64, dtype="fp16"),
    _case("varlen-d72", (200, 50), (99, 300), head_dim=72, heads=2),
    _case("varlen-d192-R", (300, 50), (512, 300), rising=True, **_D192),
)

_OPTION = {"q": 512, "k": 640, "rising": True}
OPTIONS = (
    _case("sink", 512, 300, sink=True, heads=2, kv_heads=1),
    _case("sink-causal", 500, 333, sink=True, causal=True, heads=2),
    _case("sink-one-tile", 100, 300, sink=True, heads=3),
    _case("sink-pair", 600, 200, sink=True, heads=2),
    _case("large-scores", 512, 640, softmax_scale=3.0, design=_ONE),
    _case("tiny-scale", 300, 300, softmax_scale=1e-6),
    _case("p-in-one-part", **_OPTION, design={"cta_group": 1, "p_first_columns": 128}),
    _case("p-half-first", **_OPTION, design={"cta_group": 1, "p_first_columns": 64}),
    _case("p-quarter-first", **_OPTION, design={"p_first_columns": 32}),
    _case("no-emulation", **_OPTION, design={"exp2_period": 0}),
    _case("all-emulated", **_OPTION, design={
        "cta_group": 1, "exp2_period": 2, "exp2_emulated": 2, "exp2_first_fragment": 0}),
    _case("degree-2", **_OPTION, design={"exp2_degree": 2}),
    _case("degree-5", **_OPTION, design={"exp2_degree": 5}),
    _case("always-rescaled", 512, 640, design={"cta_group": 1, "rescale_threshold": 0}),
    _case("two-slots-T", 512, 384, heads=2, sms=1, design={"cta_group": 1, "kv_stages": 2}),
    _case("stored-by-correction-T", 600, 300, heads=1, sms=1,
          design={"cta_group": 1, "epilogue": "correction"}),
    _case("stored-by-correction-one-tile-T", 100, 300, heads=4, sms=1,
          design={"epilogue": "correction"}),
    _case("stored-by-correction-d72", 300, 300, head_dim=72, design={"epilogue": "correction"}),
    _case("stored-by-correction-d192-T", 600, 300, sms=1,
          design={"cta_group": 1, "epilogue": "correction"}, **_D192),
    _case("one-q-tile-of-many-T", 384, 300, heads=1, sms=1,
          design={"cta_group": 1, "q_stages": 1, "kv_stages": 4}),
)  # fmt: skip

GROUPS = {
    "forward": FORWARD,
    "grouped": GROUPED,
    "lengths": LENGTHS,
    "variable": VARIABLE,
    "options": OPTIONS,
    "fp8": FP8,
    "paged": PAGED,
    "split": SPLIT,
}
ALL = tuple(case for group in GROUPS.values() for case in group)


def named(name: str, group: str | None = None) -> Case:
    """The case of this name, of all or of a group."""
    return next(case for case in (ALL if group is None else GROUPS[group]) if case.name == name)
