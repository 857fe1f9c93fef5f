"""The problems of the page: between them, everything that both sides have."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from fa4sim.specs import B200, Design, Machine, Problem

#: SMs of the imagined GPU: so few that CTAs work on several tiles.
SMS = 4


@dataclass(frozen=True)
class Case:
    """A problem, and what is changed in the kernel's own design.

    ``ours_only`` says why the official kernel does not run it, "" if it does.
    """

    name: str
    problem: Problem
    changes: dict[str, Any] = field(default_factory=dict)
    sms: int = SMS
    ours_only: str = ""

    @property
    def machine(self) -> Machine:
        """A B200 with few SMs."""
        return B200.with_constants(sms=self.sms)

    @property
    def design(self) -> Design:
        """The kernel's own design, changed."""
        return Design.for_problem(self.problem, self.machine, **self.changes)

    @property
    def copies_rows(self) -> bool:
        """Whether keys lie in pages, or threads copy Q."""
        return self.problem.page_size is not None or self.design.q_load == "cp_async"


def _case(
    name: str, changes: dict[str, Any] | None = None, *, ours_only: str = "", **problem: Any
) -> Case:
    return Case(name, Problem(**{"heads": 2} | problem), changes or {}, ours_only=ours_only)


ONE = {"cta_group": 1}
#: Of sequences that vary the official kernel hands out splits while it runs, unless told not to.
ONE_TILE_EACH = {"scheduler": "single_tile_varlen"}
CASES = (
    _case("full, one CTA", ONE, heads=3, seqlen_q=512, seqlen_k=640),
    _case("full, one block of keys", ONE, seqlen_q=512, seqlen_k=100),
    _case("full, pair", heads=3, seqlen_q=1024, seqlen_k=640),
    _case("full, fp16, sink", ONE, seqlen_q=512, seqlen_k=512, dtype="fp16", sink=True),
    _case("one Q tile", seqlen_q=100, seqlen_k=300),
    _case("causal", heads=3, seqlen_q=512, seqlen_k=768, causal=True),
    _case("causal, ragged", seqlen_q=700, seqlen_k=333, causal=True),
    _case("window", seqlen_q=500, seqlen_k=700, window=(200, 30)),
    _case("head dim 64", seqlen_q=512, seqlen_k=1536, head_dim=64),
    _case("head dim 64, causal", seqlen_q=512, seqlen_k=512, head_dim=64, causal=True),
    _case("head dim 96", seqlen_q=512, seqlen_k=700, head_dim=96),
    _case("(192, 128), one CTA", ONE, seqlen_q=512, seqlen_k=900, head_dim=192, head_dim_v=128),
    _case("(192, 128), causal", seqlen_q=512, seqlen_k=900, head_dim=192, head_dim_v=128,
          causal=True),
    _case("(192, 128), pair", heads=3, seqlen_q=1024, seqlen_k=900, head_dim=192, head_dim_v=128),
    _case("grouped heads, packed, causal", heads=8, kv_heads=2, seqlen_q=200, seqlen_k=400,
          causal=True),
    _case("grouped heads, packed, pair", heads=8, kv_heads=2, batch=2, seqlen_q=200,
          seqlen_k=400),
    _case("grouped heads, not packed", {"cta_group": 1, "pack_gqa": False}, heads=4, kv_heads=2,
          seqlen_q=300, seqlen_k=400),
    _case("FP8, one CTA", ONE, heads=3, seqlen_q=512, seqlen_k=640, dtype="e4m3"),
    _case("FP8, pair", heads=2, seqlen_q=1024, seqlen_k=640, dtype="e4m3"),
    _case("FP8, causal", seqlen_q=512, seqlen_k=768, causal=True, dtype="e5m2"),
    _case("split keys", seqlen_q=300, seqlen_k=900, num_splits=3),
    _case("split keys, causal, some without blocks", seqlen_q=300, seqlen_k=500, causal=True,
          num_splits=4),
    _case("split keys, one Q tile, packed, FP8", heads=16, kv_heads=2, seqlen_q=4, seqlen_k=700,
          num_splits=3, dtype="e4m3"),
    _case("varied lengths", seqlens_q=(300, 17, 512), seqlens_k=(300, 250, 384)),
    _case("three heads packed", heads=6, kv_heads=2, seqlen_q=150, seqlens_k=(300, 129)),
    _case("varied lengths, split keys", ONE_TILE_EACH, seqlens_q=(300, 17), seqlens_k=(700, 250),
          num_splits=3),
    _case("five heads packed, causal, varied lengths", heads=5, kv_heads=1, seqlens_q=(80, 30),
          seqlens_k=(300, 150), causal=True),
    _case("five heads packed, a Q tile without rows", heads=5, kv_heads=1, seqlens_q=(70, 30),
          seqlens_k=(300, 150), causal=True,
          ours_only="its threads copy no row of such a tile, and its MMA reads what nobody has "
          "written, to no effect"),
    _case("three heads packed, one Q tile", heads=6, kv_heads=2, seqlen_q=9, seqlens_k=(400, 130)),
    _case("three heads packed, one Q tile, pages of 128", heads=6, kv_heads=2, seqlen_q=9,
          seqlens_k=(400, 130), page_size=128),
    _case("seven heads packed, pages of 8, one Q tile", heads=14, kv_heads=2, seqlen_q=2,
          seqlens_k=(300, 200), page_size=8),
    _case("pages of 16, one Q tile, grouped", heads=8, kv_heads=2, seqlen_q=1,
          seqlens_k=(300, 129, 700), page_size=16),
    _case("pages of 16, one Q tile, split keys", heads=8, kv_heads=2, seqlen_q=1,
          seqlens_k=(700, 300), page_size=16, num_splits=2),
    _case("pages of 1", seqlen_q=400, seqlens_k=(500, 333), page_size=1),
    _case("pages of 64, head dim 64, causal", seqlen_q=300, seqlens_k=(500, 333), page_size=64,
          head_dim=64, causal=True),
    _case("pages of 32, (192, 128)", seqlen_q=300, seqlens_k=(900, 200), page_size=32,
          head_dim=192, head_dim_v=128),
    _case("pages of 128", ONE, seqlen_q=400, seqlens_k=(500, 333), page_size=128),
    _case("varied lengths, grouped", heads=8, kv_heads=2, seqlens_q=(150, 60),
          seqlens_k=(300, 200)),
    _case("varied lengths, causal, grouped", heads=8, kv_heads=2, seqlens_q=(150, 60, 33),
          seqlens_k=(300, 60, 500), causal=True),
)  # fmt: skip


def cases_for(kernel: str) -> tuple[Case, ...]:
    """The problems that are run on "ours" or "official"."""
    return tuple(case for case in CASES if kernel == "ours" or not case.ours_only)
