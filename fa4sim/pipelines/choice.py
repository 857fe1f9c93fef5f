"""Which pipeline runs a design: its barriers, its CTA, its values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fa4sim.engine.core import Core
from fa4sim.numerics.paged import PageTable
from fa4sim.pipelines.common.cluster import BaseCluster, Surroundings
from fa4sim.pipelines.fa3.barriers import barrier_table as fa3_barriers
from fa4sim.pipelines.fa3.build import build_cluster as build_fa3
from fa4sim.pipelines.fa3.data import Data as HopperData
from fa4sim.pipelines.fa4.barriers import BarrierSpec
from fa4sim.pipelines.fa4.barriers import barrier_table as fa4_barriers
from fa4sim.pipelines.fa4.build import build_cluster as build_fa4
from fa4sim.pipelines.fa4.data import Array, Data, Descales
from fa4sim.pipelines.fa4.tiles import WorkTile
from fa4sim.specs import AnyDesign, HopperDesign, Machine, Problem


def build_cluster(
    core: Core,
    problem: Problem,
    design: AnyDesign,
    machine: Machine,
    tiles: Sequence[WorkTile],
    around: Surroundings,
    *,
    first_sm: int = 0,
    first_cta: int = 0,
    seed: int = 0,
    data: Any = None,
    fetch: Callable[[], WorkTile | None] = lambda: None,
) -> BaseCluster:
    """A cluster with all its warps started, ready for ``core.run()``."""
    if isinstance(design, HopperDesign):
        return build_fa3(
            core, problem, design, machine, tiles, around, first_sm=first_sm, first_cta=first_cta,
            data=data,
        )  # fmt: skip
    return build_fa4(
        core, problem, design, machine, tiles, around, first_sm=first_sm, first_cta=first_cta,
        seed=seed, data=data, fetch=fetch,
    )  # fmt: skip


def barriers_of(design: AnyDesign) -> dict[str, BarrierSpec]:
    """The barriers of a design by name."""
    return fa3_barriers(design) if isinstance(design, HopperDesign) else fa4_barriers(design)


def data_of(
    problem: Problem, design: AnyDesign, q: Array, k: Array, v: Array, sink: Array | None,
    page_table: PageTable | None = None, descales: Descales | None = None,
) -> Any:  # fmt: skip
    """The values of an attention call, for the pipeline of ``design`` to work on."""
    if isinstance(design, HopperDesign):
        return HopperData(problem, design, q, k, v)
    return Data(problem, design, q, k, v, sink, page_table, descales)
