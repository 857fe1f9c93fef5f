"""From stamps to a `Trace`: what a GPU measured, in the form of everything else.

Times are cycles of the multiprocessor, from its CTA's first stamp on. A phase that ends with
something being there (K, V, S, O, a turn) is a wait; the others are spans.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fa4kernel.hopper.config import LOAD_STAMPS, STAMPS, Config
from fa4sim.trace import Trace

Stamps = NDArray[np.int32]  # (CTAs, 1 + consumers, blocks of a CTA, len(STAMPS)); 0 is no stamp

#: Phases of a consumer in their order: the stamp that ends it, the operation, its unit or, of a
#: wait, what is waited for and its kind.
PHASES = (
    ("K", "wait", "load_K_full", "mbarrier"),
    ("turn", "wait", "Scheduler", "named"),
    ("QK", "issue QK", "issue", ""),
    ("V", "wait", "load_V_full", "mbarrier"),
    ("PV", "issue PV", "issue", ""),
    ("S", "wait", "tensor", "unit"),
    ("softmax", "softmax", "mufu", ""),
    ("O", "wait", "tensor", "unit"),
    ("P", "rescale O, round P", "fma", ""),
    ("last V", "wait", "load_V_full", "mbarrier"),
    ("last O", "wait", "tensor", "unit"),
    ("stored", "store O", "smem", ""),
)


def to_trace(cfg: Config, stamps: Stamps, ctas: int = 1, **about: Any) -> Trace:
    """The trace of the first CTAs.

    Args:
        cfg: of the kernel.
        stamps: as the kernel wrote them.
        ctas: how many.
        about: what to note in the trace's `meta`, as `clock_hz` and the device.

    Raises:
        ValueError: a kernel without `trace` wrote them, or nothing did.
    """
    if not stamps.any():
        raise ValueError(
            "there are no stamps: the kernel was compiled without trace, or did not run"
        )
    trace = Trace("cycles", {"made_by": "fa4kernel.hopper", **about})
    for cta in range(min(ctas, len(stamps))):
        zero = min(int(each[each != 0].min()) for each in stamps[cta] if each.any())
        _load(trace, cfg, stamps[cta, 0], cta, zero)
        for consumer in range(cfg.consumers):
            _consumer(trace, cfg, stamps[cta, 1 + consumer], cta, consumer, zero)
    return trace


def durations(cfg: Config, stamps: Stamps) -> dict[str, NDArray[np.int64]]:
    """Cycles of every phase of every block of every consumer, by the stamp that ends it.

    Blocks that begin a tile, and phases that a block does not have, are left out.
    """
    found: dict[str, list[NDArray[np.int64]]] = {}
    rows = stamps[:, 1 : 1 + cfg.consumers].reshape(-1, len(STAMPS)).astype(np.int64)
    rows = rows[(rows[:, STAMPS.index("begin")] != 0) & (rows[:, STAMPS.index("PV")] != 0)]
    before = "begin"
    for name, *_ in PHASES[:9]:
        took = rows[:, STAMPS.index(name)] - rows[:, STAMPS.index(before)]
        found[name] = [took % 2**32]
        before = name
    return {name: np.concatenate(parts) for name, parts in found.items()}


def _consumer(
    trace: Trace, cfg: Config, rows: NDArray[np.int32], cta: int, consumer: int, zero: int
) -> None:
    """Spans and waits of one consumer."""
    who: dict[str, Any] = {
        "sm": cta,
        "cta": cta,
        "role": f"consumer{consumer}",
        "warp": 4 * (1 + consumer),
    }
    for tile, turns in enumerate(_tiles(rows)):
        for number, turn in enumerate(turns):
            row = rows[turn]
            where: dict[str, Any] = {
                "tile": tile,
                "block": len(turns) - 1 - number,
                "stage": turn % cfg.kv_stages,
            }
            before = int(row[STAMPS.index("begin")])
            for name, operation, unit, kind in PHASES:
                now = int(row[STAMPS.index(name)])
                if not now:
                    continue
                start, end = before - zero, now - zero
                before = now
                if operation != "wait":
                    trace.add(
                        "span", **who, **where, unit=unit, op=operation, start=start, end=end,
                        busy=end - start,
                    )  # fmt: skip
                    continue
                on = f"{unit}{consumer}" if kind == "named" else unit
                trace.add(
                    "wait", **who, **where, on=on, kind=kind, reason=name, start=start, end=end
                )


def _load(trace: Trace, cfg: Config, rows: NDArray[np.int32], cta: int, zero: int) -> None:
    """Waits and spans of the load warp, in the order of their ends."""
    who: dict[str, Any] = {"sm": cta, "cta": cta, "role": "load", "warp": 0}
    stamps = sorted(
        (int(rows[turn, kind]), name, turn)
        for name, kind in LOAD_STAMPS.items()
        for turn in range(len(rows))
        if rows[turn, kind]
    )
    before = zero
    for now, name, turn in stamps:
        tensor, what = name.split()
        where: dict[str, Any] = {
            "stage": turn % cfg.kv_stages,
            "start": before - zero,
            "end": now - zero,
        }
        if what == "free":
            on = f"load_{tensor}_empty"
            trace.add("wait", **who, **where, on=on, kind="mbarrier", reason="slot free")
        else:
            trace.add("span", **who, **where, unit="issue", op=f"issue {tensor}", busy=now - before)
        before = now


def _tiles(rows: NDArray[np.int32]) -> list[list[int]]:
    """The turns of each work tile: its last block is the one whose O is stored."""
    tiles: list[list[int]] = [[]]
    for turn in np.flatnonzero(rows[:, STAMPS.index("begin")]):
        tiles[-1].append(int(turn))
        if rows[turn, STAMPS.index("stored")]:
            tiles.append([])
    return [turns for turns in tiles if turns]
