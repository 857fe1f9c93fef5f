"""A trace of our kernel in the simulator's words: QK and PV, tiles, blocks and stages.

The emulator knows addresses and functions, and nothing of attention. But every role and unit takes
the blocks of a CTA's tiles in turn: the n-th K that is loaded, and the n-th product into S[0],
belong to the n-th block; a softmax warp is at the block whose S_full it has waited for.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fa4kernel.forward.config import TILE, swizzle_bytes
from fa4sim.pipelines.fa4.gpu import make_plan
from fa4sim.specs import Design, Machine, Problem

if TYPE_CHECKING:
    from fa4sim.trace import Trace

NONE = -1
Row = dict[str, Any]
#: (tile, block) of every block of a CTA, and of every tile of a CTA (which has no one block).
Places = tuple[list[tuple[int, int]], list[tuple[int, int]]]


def in_simulator_words(trace: Trace, problem: Problem, design: Design, machine: Machine) -> Trace:
    """The trace of an emulated run of our kernel, with the simulator's ops, tiles and blocks.

    Times, waits and arrivals stay as they are. Blocks have their numbers along the keys, so they
    fall. A run that stopped early, or did something more often than it has blocks, keeps
    -1 where nothing is known.

    Args:
        trace: of a launch with the kernel's labels (`fa4kernel.forward.launch`).
        problem, design, machine: what was run.
    """
    from fa4sim.trace import Trace
    from fa4sim.trace.trace import COLUMNS

    about = {"problem": _numbers(problem), "design": _numbers(design)}
    told = Trace(trace.clock, {**trace.meta, **about})
    places = _places(problem, design, machine)
    every = {name: list(trace.table(name).rows()) for name in COLUMNS}
    spans = every["span"]
    for cta in sorted({int(row["cta"]) for row in spans}):
        mine = [row for row in spans if row["cta"] == cta]
        waits = [row for row in every["wait"] if row["cta"] == cta]
        lives = [row for row in every["life"] if row["cta"] == cta]
        _Teller(problem, design, places[cta // design.cta_group]).tell(mine, waits, lives)
    for name, rows in every.items():  # in their order: flows count on it
        for row in rows:
            told.add(name, **row)
    return told


def _places(problem: Problem, design: Design, machine: Machine) -> list[Places]:
    """For every CTA or pair the places of its blocks and tiles, in the order it takes them."""
    plan = make_plan(problem, design, machine)
    found: list[Places] = []
    for indices in plan.lists or [[i] for i in range(len(plan.tiles))]:
        tiles = [plan.tiles[i] for i in indices]
        blocks = [(tile.index, step.n_block) for tile in tiles for step in tile.steps]
        found.append((blocks, [(tile.index, NONE) for tile in tiles]))
    return found + [([], [])] * plan.padding


class _Teller:
    """Names the spans of one CTA, in place."""

    def __init__(self, problem: Problem, design: Design, places: Places) -> None:
        self.design = design
        self.blocks, self.tiles = places
        size = problem.element_bytes
        tiles = {"Q": (design.head_dim_padded, size), "K": (design.head_dim_padded, size),
                 "V": (design.head_dim_v_padded // design.cta_group, size),
                 "O": (design.head_dim_v_padded, design.o_element_bytes(problem))}  # fmt: skip
        self.boxes = {name: n * each // swizzle_bytes(n, each) for name, (n, each) in tiles.items()}
        self.done: Counter[Any] = Counter()
        self.acquired = _blocks_done(self.blocks)

    def tell(self, spans: Sequence[Row], waits: Sequence[Row], lives: Sequence[Row]) -> None:
        """Rename all spans, those of warps by the waits before them, and place all lives."""
        for row in sorted(spans, key=lambda row: row["start"]):
            if row["role"] == "tensor":
                self._product(row)
            elif row["role"] in ("tma", "tma_store"):
                self._copy(row)
        for key in {(row["role"], row["warp"]) for row in spans if row["warp"] != NONE}:
            own = [row for row in spans if (row["role"], row["warp"]) == key]
            before = [row for row in waits if (row["role"], row["warp"]) == key]
            self._warp(own, sorted(before, key=lambda row: row["end"]))
        for row in sorted(lives, key=lambda row: row["birth"]):
            tensor, stage = row["tensor"], row["stage"]
            if tensor in ("K", "V"):
                self._place(row, self.blocks, ("life", tensor), 1)
            elif tensor in ("S", "P"):
                self._place(row, self.blocks, ("life", tensor, stage), 1)
            else:
                self._place(row, self.tiles, ("life", tensor, stage), 1)

    def _product(self, row: Row) -> None:
        found = re.match(r"mma D@(\d+)", row["op"])
        if found is None:
            return
        column, o_start = int(found[1]), 2 * TILE
        if column < o_start:
            row["op"], row["stage"] = "QK", column // TILE
        else:
            row["op"], row["stage"] = "PV", (column - o_start) // self.design.head_dim_v_padded
        self._place(row, self.blocks, (row["op"], row["stage"]), 1)

    def _copy(self, row: Row) -> None:
        tensor = row["op"].rpartition(" ")[2]
        if tensor in ("K", "V"):
            self._place(row, self.blocks, tensor, self.boxes[tensor])
        elif tensor in ("Q", "O"):
            stages = self.design.q_stages
            nth = self.done[tensor] // self.boxes[tensor]
            self._place(row, self.tiles, tensor, self.boxes[tensor] * stages)
            row["stage"] = nth % stages

    def _place(self, row: Row, places: Sequence[tuple[int, int]], what: Any, pieces: int) -> None:
        """Where the next piece of `what` belongs, of which each place has so many."""
        nth = self.done[what] // pieces
        self.done[what] += 1
        if nth < len(places):
            row["tile"], row["block"] = places[nth]

    def _warp(self, spans: Sequence[Row], waits: Sequence[Row]) -> None:
        softmax = spans[0]["role"].startswith("softmax")
        for row in spans:
            past = [wait for wait in waits if wait["end"] <= row["start"]]
            row["op"] = _op(row["role"], row["op"], past)
            at = self._block_of(row["op"], past)
            if softmax and 0 <= at < len(self.blocks):
                row["tile"], row["block"] = self.blocks[at]
                row["stage"] = int(row["role"].removeprefix("softmax"))

    def _block_of(self, op: str, past: Sequence[Row]) -> int:
        """Which block a softmax warp is at after these waits, -1 before the first."""
        for wait in reversed(past):
            if wait["on"] == "S_full":
                return int(wait["phase"]) - 1
            if wait["on"] == "softmax_stats_empty":
                done = self.acquired.get(int(wait["phase"]), 0)
                return done if op == "exp2" else done - 1
        return NONE


def _blocks_done(blocks: Sequence[tuple[int, int]]) -> dict[int, int]:
    """How many blocks a softmax warp has done when it waits for so many phases of its statistics.

    It waits once before a tile and once behind every block.
    """
    done: dict[int, int] = {}
    last = NONE
    for number, (tile, _) in enumerate(blocks):
        if tile != last:
            done[len(done)], last = number, tile
        done[len(done)] = number + 1
    return done


def _op(role: str, function: str, past: Sequence[Row]) -> str:
    """What most of a span's instructions do; they stand in this function, after these waits."""
    on = [str(wait["on"]) for wait in past]
    if not any(each != "registers" for each in on) and role != "load":
        return "start"
    if role.startswith("softmax"):
        if function == "exponentiate":
            return "exp2"
        return "row sum" if "S_full" in on else "start"
    if role == "correction":
        if on[-1] in ("O_full", "O_epi_empty"):
            return "write O"
        return "rescale O" if function in ("rescale", "scale") else "read factor"
    return {"load": "issue loads", "mma": "issue MMAs", "epilogue": "issue O"}.get(role, function)


def _numbers(spec: Problem | Design) -> dict[str, object]:
    """The numbers and words of a specification."""
    found = vars(spec).items()
    return {name: value for name, value in found if isinstance(value, int | float | str)}
