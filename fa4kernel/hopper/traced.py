"""From stamps to a `Trace`: what a GPU measured, in the form of everything else.

Times are cycles of the multiprocessor (ticks, if the emulator wrote them), from its CTA's first
stamp on. A phase that ends with something being there (K, V, S, O, a turn) is a wait; the others
are spans. Tiles, blocks and stages are numbered as the simulator's.

A traced kernel is not quite the kernel. Reading the clock pins the order of instructions to that of
the source, while in the untraced kernel ptxas moves the wait for O ahead of most exponentials; and
each stamp costs time of its own, some twenty instructions, mostly in the phase behind it.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fa4kernel.hopper.config import LOAD_STAMPS, STAMPS, Config
from fa4sim.trace import NONE, Trace

Stamps = NDArray[np.int32]  # (CTAs, 1 + consumers, blocks of a CTA, len(STAMPS)); 0 is no stamp

#: Phases of a consumer in their order: the stamp that ends it, the operation, its unit or, of a
#: wait, what is waited for and its kind. Those in `OF_BLOCK_BEFORE` work on the block before.
PHASES = (
    ("K", "wait", "load_K_full", "mbarrier"),
    ("turn", "wait", "Scheduler", "named"),
    ("QK", "issue QK", "issue", ""),
    ("V", "wait", "load_V_full", "mbarrier"),
    ("PV", "issue PV", "issue", ""),
    ("S", "wait", "tensor", "unit"),
    ("softmax", "softmax", "mufu", ""),
    ("O", "wait", "tensor", "unit"),
    ("P", "rescale O", "fma", ""),
    ("last V", "wait", "load_V_full", "mbarrier"),
    ("last O", "wait", "tensor", "unit"),
    ("stored", "store O", "smem", ""),
)
#: Between a block's last stamp and the next one's first. In the machine code (ptxas 13.0) all of a
#: block's conversions stand here: arithmetic may pass a stamp.
BETWEEN = ("begin", "round P, next block", "alu", "")
STEP = tuple(name for name, *_ in PHASES[:9])  # those of every block, but a tile's first
OF_BLOCK_BEFORE = ("V", "PV", "O", "P")


def to_trace(
    cfg: Config, stamps: Stamps, ctas: int = 1, clock: str = "cycles", **about: Any
) -> Trace:
    """The trace of the first CTAs.

    Args:
        cfg: of the kernel.
        stamps: as the kernel wrote them.
        ctas: how many.
        clock: what the stamps count, "ticks" in the emulator.
        about: what to note in the trace's `meta`, as `machine`.

    Raises:
        ValueError: a kernel without `trace` wrote them, or nothing did.
    """
    if not stamps.any():
        raise ValueError(
            "there are no stamps: the kernel was compiled without trace, or did not run"
        )
    trace = Trace(clock, {"made_by": "fa4kernel.hopper", **about})
    for cta in range(min(ctas, len(stamps))):
        now = from_first(stamps[cta])
        places = _places(now[1])
        _load(trace, cfg, now[0], cta, places)
        for consumer in range(cfg.consumers):
            _consumer(trace, cfg, now[1 + consumer], cta, consumer, places)
    return trace


def from_first(stamps: Stamps) -> Stamps:
    """Stamps of one CTA counted from the first, which becomes 1; none stays 0.

    The clock has 32 bits and may have begun again in between.
    """
    some = stamps != 0
    moved = (stamps - stamps[some][0]).astype(np.int64)  # int32 wraps around, as the clock does
    return np.where(some, moved - moved[some].min() + 1, 0).astype(np.int32)


def first_tiles(stamps: Stamps, tiles: int = 1) -> Stamps:
    """The blocks of each CTA's first work tiles; all if it has fewer."""
    ends = np.flatnonzero(stamps[0, 1, :, STAMPS.index("stored")])
    return stamps[:, :, : int(ends[tiles - 1]) + 1] if len(ends) >= tiles else stamps


def durations(cfg: Config, stamps: Stamps) -> dict[str, NDArray[np.int64]]:
    """Cycles of every phase of every block of every consumer, by the stamp that ends it.

    "begin" is what lies behind the last stamp of the block before. Blocks that begin a tile, and
    phases that a block does not have, are left out.
    """
    rows = stamps[:, 1 : 1 + cfg.consumers].astype(np.int64)
    chosen = (rows[..., STAMPS.index("begin")] != 0) & (rows[..., STAMPS.index("PV")] != 0)
    before = np.roll(rows, 1, axis=2)[chosen][:, STAMPS.index("P")]
    rows = rows[chosen]
    found: dict[str, NDArray[np.int64]] = {}
    for name in ("begin", *STEP):
        now = rows[:, STAMPS.index(name)]
        found[name] = (now - before) % 2**32
        before = now
    return found


def load_durations(stamps: Stamps) -> dict[str, NDArray[np.int64]]:
    """Cycles of every phase of the load warp, by the stamp that ends it; the first is left out."""
    found: dict[str, list[int]] = {name: [] for name in LOAD_STAMPS}
    for cta in stamps:
        events = _load_events(from_first(cta)[0])
        for (before, *_), (now, name, _) in pairwise(events):
            found[name].append(now - before)
    return {name: np.array(took, np.int64) for name, took in found.items()}


def wait_share(trace: Trace) -> float:
    """The part of the consumers' time in which they wait."""
    waits, spans = (
        sum(int(row["end"]) - int(row["start"]) for row in table.rows() if _consumes(row))
        for table in (trace.wait, trace.span)
    )
    return waits / (waits + spans)


def shared_softmax(trace: Trace) -> float:
    """The part of the consumers' softmax, of the first CTA, that computes beside another's."""
    edges = sorted(
        edge
        for row in trace.span.where(cta=0, op="softmax").rows()
        for edge in ((int(row["start"]), 1), (int(row["end"]), -1))
    )
    alone = beside = running = 0
    for (time, step), (following, _) in pairwise(edges):
        running += step
        alone += (following - time) * (running == 1)
        beside += (following - time) * running * (running > 1)
    return beside / (alone + beside)


def _consumes(row: Mapping[str, Any]) -> bool:
    return str(row["role"]).startswith("consumer")


Place = tuple[int, int]  # tile of the CTA, block of keys


def _places(rows: Stamps) -> dict[int, Place]:
    """The tile and the block of each turn, as a consumer's stamps tell."""
    return {
        turn: (tile, len(turns) - 1 - number)
        for tile, turns in enumerate(tiles_of(rows))
        for number, turn in enumerate(turns)
    }


def _consumer(
    trace: Trace, cfg: Config, rows: Stamps, cta: int, consumer: int, places: dict[int, Place]
) -> None:
    """Spans and waits of one consumer."""
    who: dict[str, Any] = {
        "sm": cta, "cta": cta, "role": f"consumer{consumer}", "warp": 4 * (1 + consumer),
    }  # fmt: skip
    for turn, (tile, block) in places.items():
        row = rows[turn]
        follows = (tile, block + 1) == places.get(turn - 1)
        before = int(rows[turn - 1, STAMPS.index("P")] if follows else row[0])
        for name, operation, unit, kind in (BETWEEN, *PHASES) if follows else PHASES:
            now = int(row[STAMPS.index(name)])
            if not now:
                continue
            earlier = follows and name in OF_BLOCK_BEFORE
            where: dict[str, Any] = {
                "tile": tile, "block": block + earlier, "start": before - 1, "end": now - 1,
                "stage": (turn - earlier) % cfg.kv_stages if kind == "mbarrier" else consumer,
            }  # fmt: skip
            before = now
            if operation == "wait":
                on = f"{unit}{consumer}" if kind == "named" else unit
                trace.add("wait", **who, **where, on=on, kind=kind, reason=name)
            else:
                took = where["end"] - where["start"]
                trace.add("span", **who, **where, unit=unit, op=operation, busy=took)


def _load(trace: Trace, cfg: Config, rows: Stamps, cta: int, places: dict[int, Place]) -> None:
    """Waits and spans of the load warp, in the order of their ends."""
    who: dict[str, Any] = {"sm": cta, "cta": cta, "role": "load", "warp": 0}
    before = 1
    for now, name, turn in _load_events(rows):
        tensor, what = name.split()
        tile, block = places.get(turn, (NONE, NONE))
        where: dict[str, Any] = {
            "tile": tile, "block": block, "stage": turn % cfg.kv_stages,
            "start": before - 1, "end": now - 1,
        }  # fmt: skip
        if what == "free":
            on = f"load_{tensor}_empty"
            trace.add("wait", **who, **where, on=on, kind="mbarrier", reason="slot free")
        else:
            trace.add("span", **who, **where, unit="issue", op=f"issue {tensor}", busy=now - before)
        before = now


def _load_events(rows: Stamps) -> list[tuple[int, str, int]]:
    """Stamps of the load warp in order: when, which, in which turn."""
    return sorted(
        (int(rows[turn, kind]), name, turn)
        for name, kind in LOAD_STAMPS.items()
        for turn in range(len(rows))
        if rows[turn, kind]
    )


def tiles_of(rows: Stamps) -> list[list[int]]:
    """The turns of each work tile: its last block is the one whose O is stored."""
    tiles: list[list[int]] = [[]]
    for turn in np.flatnonzero(rows[:, STAMPS.index("begin")]):
        tiles[-1].append(int(turn))
        if rows[turn, STAMPS.index("stored")]:
            tiles.append([])
    return [turns for turns in tiles if turns]
