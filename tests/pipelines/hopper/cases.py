"""Problems and Hopper designs that between them use every part of the pipeline."""

from __future__ import annotations

from typing import Any

from fa4sim.engine.core import Core
from fa4sim.pipelines.common.cluster import Surroundings
from fa4sim.pipelines.fa3.build import build_cluster
from fa4sim.pipelines.fa3.cluster import Cluster
from fa4sim.pipelines.fa4.diagnosis import check_end
from fa4sim.pipelines.fa4.gpu import make_plan
from fa4sim.pipelines.fa4.tiles import WorkTile
from fa4sim.specs import H200, HopperDesign, Problem

WAITED = {"overlap": False}
NO_TURNS = {"ping_pong": False}
PLAIN = {"specialised": False}
SOURCE = {"o_waited_early": False}

# name -> (problem, changes to the design that is chosen)
CASES: dict[str, tuple[Problem, dict[str, Any]]] = {
    "full": (Problem(heads=3, seqlen_q=256, seqlen_k=700), {}),
    "causal": (Problem(heads=3, seqlen_q=512, causal=True), {}),
    "causal persistent": (
        Problem(heads=3, seqlen_q=512, causal=True), {"scheduler": "static_persistent"}),
    "window": (Problem(heads=2, seqlen_q=600, window=(200, 30)), {}),
    "three consumers": (Problem(heads=3, seqlen_q=384, seqlen_k=700, head_dim=64), {}),
    "one consumer": (Problem(heads=3, seqlen_q=128, seqlen_k=700), {"consumers": 1}),
    "176 keys": (Problem(heads=3, seqlen_q=256, seqlen_k=900), {"tile_n": 176}),
    "three slots": (Problem(heads=3, seqlen_q=256, seqlen_k=700, head_dim=64), {"kv_stages": 3}),
    "without overlap": (Problem(heads=3, seqlen_q=256, seqlen_k=700), WAITED),
    "without turns": (Problem(heads=3, seqlen_q=256, seqlen_k=700), NO_TURNS),
    "neither": (Problem(heads=3, seqlen_q=256, seqlen_k=700), WAITED | NO_TURNS),
    "as the source says": (Problem(heads=3, seqlen_q=256, seqlen_k=700), SOURCE),
    "plain, as the source says": (Problem(heads=3, seqlen_q=256, seqlen_k=500), PLAIN | SOURCE),
    "grouped": (Problem(heads=6, kv_heads=2, seqlen_q=300, seqlen_k=400, causal=True), {}),
    "unequal head dims": (
        Problem(heads=3, seqlen_q=256, seqlen_k=500, head_dim=128, head_dim_v=64), {}),
    "padded head dims": (
        Problem(heads=3, seqlen_q=256, seqlen_k=500, head_dim=40, head_dim_v=24), {}),
    "plain": (Problem(heads=3, seqlen_q=256, seqlen_k=700), PLAIN),
    "plain causal": (Problem(heads=3, seqlen_q=512, head_dim=64, causal=True), PLAIN),
}  # fmt: skip


def design_of(name: str, **more: Any) -> tuple[Problem, HopperDesign]:
    """The problem and the design of a case."""
    problem, changes = CASES[name]
    return problem, HopperDesign.for_problem(problem, H200, **changes, **more)


def tiles_of(problem: Problem, design: HopperDesign, count: int) -> list[WorkTile]:
    """``count`` work tiles in a row, as one CTA would get them."""
    tiles = make_plan(problem, design, H200).tiles
    return [tile.at(index=i) for i, tile in enumerate((tiles * count)[:count])]


def run_cluster(problem: Problem, design: HopperDesign, count: int = 3) -> Cluster:
    """One CTA over ``count`` tiles, every step simulated and logged, checked at the end."""
    core = Core()
    core.log = []
    tiles = tiles_of(problem, design, count)
    cluster = build_cluster(core, problem, design, H200, tiles, Surroundings())
    core.run()
    check_end(cluster)
    return cluster
