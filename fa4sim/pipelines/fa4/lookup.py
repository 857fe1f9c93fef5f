"""How long a warp takes to find its tile in a batch of variable length.

Tiles are numbered through; which sequence holds a number follows from all lengths before it. A warp
reads 31 lengths at a time, adds up their tiles by a prefix sum over its lanes and goes on until the
sum passes the number: longer for tiles of later sequences. Above 256 sequences the single-tile
scheduler is given a table that holds the sequence of every tile instead. The dynamic scheduler goes
on from the sequence it found last.

Source: ``VarlenDecoder.decode`` of tile_scheduler.py, ``BIN_BATCH_SEARCH_THRESH`` of interface.py.
"""

from __future__ import annotations

from fa4sim.schedulers.metadata import GROUP
from fa4sim.specs import AnyDesign, Machine, Problem
from fa4sim.specs.limits import VARLEN_SCHEDULERS

#: Sequences from which on a table replaces the search, and loads that one look into it takes.
MOST_SEARCHED = 256
TABLE_LOADS = 3

#: Shuffles of a prefix sum over 32 lanes, and those that hand its results round.
PREFIX_SHUFFLES = 5
OTHER_SHUFFLES = 3

#: Dependent instructions per 31 sequences, and once: divisions by tile and by heads, sections.
GROUP_INSTRUCTIONS = 20
FINAL_INSTRUCTIONS = 60


def lookup_cycles(
    problem: Problem, design: AnyDesign, machine: Machine, batch: int, known: int = 0
) -> int:
    """Cycles until a warp knows the coordinates of a tile of sequence ``batch``.

    ``known`` is the sequence from which it searches on. 0 where sequences are all alike.
    ``batch`` may be the number of sequences: what a warp takes that finds no tile.
    """
    if design.scheduler not in VARLEN_SCHEDULERS:
        return 0
    step = machine.dependent_issue_cycles
    shuffle = machine.shuffle_cycles + step
    final = machine.vote_cycles + OTHER_SHUFFLES * shuffle + FINAL_INSTRUCTIONS * step
    if design.scheduler == "single_tile_varlen" and problem.batch > MOST_SEARCHED:
        return TABLE_LOADS * machine.load_l2_latency_cycles + FINAL_INSTRUCTIONS * step
    groups = max(0, min(batch, problem.batch - 1) - known) // GROUP + 1
    group = (
        machine.load_l2_latency_cycles + (PREFIX_SHUFFLES + 1) * shuffle + GROUP_INSTRUCTIONS * step
    )
    return groups * group + final
