"""The stamps that a traced kernel would write if it were the simulator.

So simulated and measured phases are told by the same code, see `fa4kernel.hopper.traced`. The
simulator of a traced kernel has `o_waited_early=False`: stamps pin the source's order.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from fa4kernel.hopper.config import LOAD_STAMPS, STAMPS, WARPGROUP, Config
from fa4kernel.hopper.traced import PHASES, Stamps
from fa4sim.trace import Trace

WARPS = WARPGROUP // 32

#: What the simulator's consumers do in each phase: operations, and reasons of waits. An event
#: belongs to the first phase that has it and does not lie behind the one before.
EVENTS: dict[str, tuple[str, ...]] = {
    "K": ("K",),
    "turn": ("turn",),
    "QK": ("issue QK", "queue full", "pass turn"),
    "V": ("S", "V"),  # S without overlap, where all of QK is waited for first
    "PV": ("issue PV", "queue full", "pass turn"),
    "S": ("S", "O", "free K"),  # O without overlap
    "softmax": ("mask", "row max", "statistics", "exp2"),
    "O": ("O", "free V"),
    "P": ("rescale O",),  # P is rounded behind the stamp, see `traced.BETWEEN`
    "last V": ("V",),
    "last O": ("issue PV", "queue full", "O", "free V"),
}
FIRST_BLOCK_LACKS = ("V", "PV", "O")

Event = tuple[int, str]  # when it ends, operation or reason


def simulated_stamps(cfg: Config, trace: Trace) -> Stamps:
    """Stamps (1, 1 + consumers, blocks, len(STAMPS)) of the first CTA of a simulator's trace.

    Args:
        cfg: of the kernel.
        trace: of the same problem and design with `o_waited_early=False`.

    Raises:
        ValueError: something that no phase has, as with `o_waited_early`.
    """
    whole = trace.expand()
    turns = [list(_turns(_events(whole, WARPS * (1 + n)))) for n in range(cfg.consumers)]
    stamps = np.zeros((1, 1 + cfg.consumers, len(turns[0]), len(STAMPS)), np.int32)
    for consumer, each in enumerate(turns):
        for turn, events in enumerate(each):
            for name, time in _phases(events).items():
                stamps[0, 1 + consumer, turn, STAMPS.index(name)] = time
    spans = whole.span.where(cta=0, role="load")
    for tensor in "KV":
        for turn, row in enumerate(spans.where(op=f"issue {tensor}").rows()):
            stamps[0, 0, turn, LOAD_STAMPS[f"{tensor} free"]] = row["start"]
            stamps[0, 0, turn, LOAD_STAMPS[f"{tensor} asked"]] = row["end"]
    return stamps


def _events(trace: Trace, warp: int) -> list[Event]:
    """What a warp of the first CTA does, in order."""
    found = [
        (int(row["start"]), int(row["end"]), str(row[name]))
        for table, name in ((trace.span, "op"), (trace.wait, "reason"))
        for row in table.where(cta=0, warp=warp).rows()
    ]
    return [(end, name) for _, end, name in sorted(found)]


def _turns(events: Iterable[Event]) -> Iterable[list[Event]]:
    """A warp's events by block; each begins with "step"."""
    turn: list[Event] = []
    for event in events:
        if event[1] == "step":
            if turn:
                yield turn
            turn = [event]
        elif turn and event[1] != "Q":  # Q of the next tile is no block's
            turn.append(event)
    if turn:
        yield turn


def _phases(events: list[Event]) -> dict[str, int]:
    """When each phase of a block ends. One in which nothing happens ends with that before it."""
    names = [name for _, name in events]
    if "convert P" not in names:
        raise _no_phase("the mix of a compiled step")
    step = names.index("convert P")
    first = "issue PV" not in names[:step]
    last = step + 1 < len(names)
    wanted = [name for name, *_ in PHASES if not (first and name in FIRST_BLOCK_LACKS)]
    if not last:
        wanted = wanted[: wanted.index("P") + 1]
    found: dict[str, int] = {}
    at = 0
    for number, (end, name) in enumerate(events[1:], 1):
        if number == step:
            continue
        if number > step:
            at = max(at, wanted.index("last V"))
        fitting = (i for i in range(at, len(wanted)) if name in EVENTS.get(wanted[i], (name,)))
        try:
            at = next(fitting)
        except StopIteration:
            raise _no_phase(f"{name!r} behind {wanted[at]!r}") from None
        found[wanted[at]] = end
    before = events[0][0]
    stamps = {"begin": before}
    for name in wanted:
        before = found.get(name, before)
        stamps[name] = before
    return stamps


def _no_phase(what: str) -> ValueError:
    return ValueError(
        f"{what} belongs to no phase of a traced kernel, which runs in the source's order: "
        "simulate with o_waited_early=False"
    )
