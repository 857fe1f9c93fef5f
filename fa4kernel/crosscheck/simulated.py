"""The simulator's side: the clusters of a problem, every step and every value, as a record.

The roles are left as they are. What they do is heard where it passes anyway: the log of barrier
operations, the queues of TMA and tensor cores, and the arithmetic of the data path.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fa4kernel.crosscheck.hearing import Ear
from fa4kernel.crosscheck.hearing_data import HeardData, Scores
from fa4kernel.crosscheck.record import Record
from fa4kernel.crosscheck.simulated_parts import barriers_of, life_rows
from fa4sim.engine.core import Core
from fa4sim.pipelines.fa4.build import build_cluster
from fa4sim.pipelines.fa4.cluster import Surroundings
from fa4sim.pipelines.fa4.diagnosis import check_end
from fa4sim.pipelines.fa4.gpu import make_plan
from fa4sim.pipelines.fa4.tiles import WorkTile
from fa4sim.specs import Design, Machine, Problem

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Simulated:
    """A record, what the pipeline computed (as :class:`fa4sim.Run` has it), and hazards."""

    record: Record
    out: Floats
    lse: Floats
    hazards: tuple[Any, ...]


def simulated(
    problem: Problem,
    design: Design,
    machine: Machine,
    arrays: tuple[Floats, Floats, Floats],
    sink: Floats | None = None,
    scores: Scores | None = None,
    empty_block: int = -1,
    page_table: NDArray[np.int32] | None = None,
) -> Simulated:
    """Run every cluster of a problem over its tiles, and write down what it does.

    Args:
        problem: what is computed.
        design: how; of ``static_persistent`` and one-tile-each schedulers.
        machine: its ``sms`` decide how many clusters share the tiles.
        arrays: q, k, v of shapes (batch, seqlen, heads, head_dim), float32; k and v in pages, if
            there is a ``page_table``.
        sink: (heads,) or None.
        scores: S tiles to put in the place of the pipeline's own, by CTA and label.
        empty_block: what to call the block of a tile that sees no key.

    Raises:
        fa4sim.Deadlock: the design hangs.
    """
    plan = make_plan(problem, design, machine)
    lists = plan.lists or [[i] for i in range(len(plan.tiles))]
    lists = [*lists, *[[]] * plan.padding]  # clusters of the grid that find no tile
    record = Record("simulator", "cycles")
    data = HeardData(problem, design, *arrays, sink, page_table, record=record, scores=scores)
    hazards: list[Any] = []
    for number, indices in enumerate(lists):
        hazards += _cluster(
            problem, design, machine, [plan.tiles[i] for i in indices], number, data, record,
            empty_block,
        )  # fmt: skip
    data.finish(sink)
    record.amounts["rescales"] = data.rescales
    record.amounts["rescale votes"] = data.votes
    return Simulated(record, data.out, data.lse, tuple(hazards))


def _cluster(
    problem: Problem, design: Design, machine: Machine, tiles: list[WorkTile], number: int,
    data: HeardData, record: Record, empty_block: int,
) -> list[Any]:  # fmt: skip
    core = Core()
    first = number * design.cta_group
    cluster = build_cluster(
        core, problem, design, machine, tiles, Surroundings(), data=data, first_sm=first,
        first_cta=first,
    )  # fmt: skip
    data.attach(cluster.ctas, tiles)
    ear = Ear(cluster, record, empty_block)
    core.log = ear  # type: ignore[assignment]  # all that is asked of a log is to append
    data.ear = ear
    core.run()
    check_end(cluster)
    barriers_of(cluster, ear, record)
    record.lives += life_rows(cluster, empty_block)
    return list(core.hazards)
