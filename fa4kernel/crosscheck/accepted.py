"""What a kernel leaves out because it changes nothing: a last arrival, rows that are not there."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from fa4kernel.crosscheck.record import Life, Record, Warp
from fa4sim.pipelines.fa4.tiles import packed_rows
from fa4sim.specs import Design, Problem

#: Role, what, barrier: and why it may be missing.
LeftOut = Mapping[tuple[str, str, str], str]


def without(record: Record, left_out: LeftOut) -> Record:
    """The record without the last operation of each warp whose role leaves it out.

    Only arrivals in a phase that never completes can be left out: nobody waits for them. Raises
    ``ValueError`` for one that completes a phase.
    """
    warps = dict(record.warps)
    barriers = {place: dataclasses.replace(use) for place, use in record.barriers.items()}
    for warp, operations in record.warps.items():
        last = operations[-1]
        if (warp.role, last.what, last.on.split("[")[0]) not in left_out:
            continue
        source = (warp, len(operations) - 1)
        warps[warp] = operations[:-1]
        for place, use in record.barriers.items():
            mine = [arrival for arrival in use.arrivals if arrival.source == source]
            if any(arrival.phase < use.completions for arrival in mine):
                raise ValueError(f"{_words(warp)} of {place} cannot be left out: it ends a phase")
            left = barriers[place]
            left.arrivals = [a for a in left.arrivals if a.source != source]
    never_used = {cta: list(found) for cta, found in record.never_used.items()}
    for (cta, name, stage), use in list(barriers.items()):
        if not use.arrivals and not use.waiters:
            never_used[cta].append((name, use.count))
            del barriers[cta, name, stage]
    return dataclasses.replace(record, warps=warps, barriers=barriers, never_used=never_used)


def rows_there(record: Record, problem: Problem, design: Design) -> Record:
    """The record with only those rows of Q tiles that their sequence has.

    The simulator's tiles are whole, as those of TMA are.
    """
    lives, amounts = [], record.amounts.copy()
    for life in record.lives:
        there = life if life.tensor != "Q" else _rows_there(life, problem, design)
        amounts["bytes loaded"] -= life.size - there.size
        if there.size:
            lives.append(there)
    return dataclasses.replace(record, lives=lives, amounts=amounts)


def _rows_there(life: Life, problem: Problem, design: Design) -> Life:
    batch, _, first = life.label
    rows = min(design.tile_m, max(0, packed_rows(problem, design, batch) - first))
    return dataclasses.replace(life, size=life.size * rows // design.tile_m)


def _words(warp: Warp) -> str:
    return f"the last arrival of {warp}"
