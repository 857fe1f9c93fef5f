"""Problems and designs that between them use every part of the pipeline."""

from __future__ import annotations

from typing import Any

from fa4sim.engine.core import Core
from fa4sim.pipelines.fa4.build import build_cluster
from fa4sim.pipelines.fa4.cluster import Cluster, Surroundings
from fa4sim.pipelines.fa4.diagnosis import check_end
from fa4sim.pipelines.fa4.gpu import make_plan
from fa4sim.pipelines.fa4.tiles import WorkTile
from fa4sim.specs import B200, Design, Problem

# name -> (problem, changes to the kernel's own design)
CASES: dict[str, tuple[Problem, dict[str, Any]]] = {
    "pair": (Problem(heads=3, seqlen_q=512, seqlen_k=1024), {}),
    "one CTA": (Problem(heads=3, seqlen_q=512, seqlen_k=1024), {"cta_group": 1}),
    "causal persistent": (
        Problem(heads=3, seqlen_q=512, seqlen_k=1024, causal=True),
        {"scheduler": "static_persistent"},
    ),
    "window": (Problem(heads=3, seqlen_q=512, window=(200, 30)), {"scheduler": "single_tile"}),
    "uneven ring": (
        Problem(heads=3, seqlen_q=512, seqlen_k=1024, head_dim=192, head_dim_v=128),
        {"cta_group": 1},
    ),
    "uneven ring from registers": (
        Problem(heads=3, seqlen_q=512, seqlen_k=1024, head_dim=192, head_dim_v=128),
        {"cta_group": 1, "epilogue": "correction"},
    ),
    "uneven ring, dynamic": (
        Problem(heads=3, seqlen_q=512, seqlen_k=1024, head_dim=192, head_dim_v=128, causal=True),
        {"scheduler": "dynamic"},
    ),
    "one m-block over Q": (
        Problem(heads=3, seqlen_q=256, seqlen_k=1024, head_dim=192, head_dim_v=128, causal=True),
        {},
    ),
    "192 pair": (Problem(heads=3, seqlen_q=512, seqlen_k=1024, head_dim=192, head_dim_v=128), {}),
    "head dim 64": (Problem(heads=3, seqlen_q=512, seqlen_k=1024, head_dim=64), {}),
    "one Q tile": (Problem(heads=3, seqlen_q=128, seqlen_k=1024), {}),
    "variable lengths": (Problem(heads=2, seqlens_q=(256, 256), seqlens_k=(700, 640)), {}),
    "dynamic": (
        Problem(heads=3, seqlen_q=512, seqlen_k=1024, causal=True),
        {"scheduler": "dynamic"},
    ),
    "dynamic pair": (Problem(heads=3, seqlen_q=512, seqlen_k=1024), {"scheduler": "dynamic"}),
    "odd group": (Problem(heads=6, kv_heads=2, seqlen_q=300, seqlen_k=700), {}),
    "odd group, one Q tile": (Problem(heads=6, kv_heads=2, seqlen_q=30, seqlen_k=700), {}),
    "P in one part": (
        Problem(heads=3, seqlen_q=512, seqlen_k=1024),
        {"p_first_columns": 128, "cta_group": 1},
    ),
    "two slots": (
        Problem(heads=3, seqlen_q=512, seqlen_k=1024),
        {"kv_stages": 2, "cta_group": 1},
    ),
    "pages of a token": (Problem(heads=3, seqlen_q=512, seqlen_k=1000, page_size=1), {}),
    "pages of 48": (
        Problem(heads=3, seqlen_q=512, seqlen_k=1024, head_dim=96, causal=True, page_size=48),
        {"scheduler": "static_persistent"},
    ),
    "naive pages": (
        Problem(heads=3, seqlen_q=512, seqlen_k=1024, page_size=16),
        {"page_pointers": "naive"},
    ),
    "looped pages": (
        Problem(heads=3, seqlen_q=512, seqlen_k=1024, page_size=16),
        {"page_pointers": "looped"},
    ),
    "pages of a block": (Problem(heads=3, seqlen_q=512, seqlen_k=1024, page_size=128), {}),
    "pages, one Q tile": (Problem(heads=8, kv_heads=2, seqlen_q=2, seqlen_k=900, page_size=8), {}),
    "pages, uneven ring": (
        Problem(heads=3, seqlen_q=512, seqlen_k=1024, head_dim=192, head_dim_v=128, page_size=256),
        {},
    ),
    "pages, odd group": (
        Problem(heads=6, kv_heads=2, seqlen_q=300, seqlen_k=700, page_size=32),
        {},
    ),
    "pages, variable lengths": (
        Problem(heads=2, seqlens_q=(256, 256), seqlens_k=(700, 640), page_size=4),
        {},
    ),
    "pages, dynamic": (
        Problem(heads=2, seqlens_q=(600, 256), seqlens_k=(700, 640), page_size=4),
        {"scheduler": "dynamic_varlen"},
    ),
    "pages, splits": (Problem(heads=2, seqlen_q=1, seqlen_k=2048, page_size=8, num_splits=3), {}),
    "pages, fp8": (
        Problem(heads=3, seqlen_q=512, seqlen_k=1024, dtype="e4m3", head_dim=64, page_size=64),
        {},
    ),
    "fp8": (Problem(heads=3, seqlen_q=512, seqlen_k=1024, dtype="e4m3"), {}),
    "split": (Problem(heads=3, seqlen_q=512, seqlen_k=1024, head_dim=64, num_splits=3), {}),
    "split, packed": (
        Problem(heads=8, kv_heads=2, seqlen_q=1, seqlen_k=1024, head_dim=64, num_splits=3),
        {},
    ),
    "split, dynamic": (  # of the three splits of the first sequence one has no keys
        Problem(heads=2, kv_heads=1, seqlens_q=(1, 1), seqlens_k=(500, 100), num_splits=3),
        {},
    ),
}


def tiles_of(problem: Problem, design: Design, count: int) -> list[WorkTile]:
    """``count`` work tiles in a row, as one cluster would get them."""
    tiles = make_plan(problem, design, B200).tiles
    chosen = (tiles * count)[:count]
    return [tile.at(index=i) for i, tile in enumerate(chosen)]


def run_cluster(
    problem: Problem, design: Design, tiles: list[WorkTile], *, log: bool = False
) -> Cluster:
    """One cluster over ``tiles``, every step simulated, checked at the end."""
    core = Core()
    if log:
        core.log = []
    first = tiles[:1] if design.is_dynamic else tiles
    rest = iter(tiles[1:])
    cluster = build_cluster(
        core, problem, design, B200, first, Surroundings(), fetch=lambda: next(rest, None)
    )
    core.run()
    check_end(cluster)
    return cluster
