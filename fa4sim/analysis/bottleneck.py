"""What holds a run back, in words, with the figures that say so.

Three questions, in this order. Do the SMs have work all the time? Is a unit busy nearly all the
time they have? If neither is the trouble, what does the critical path consist of: of loads, or of
the chain from scores through softmax to probabilities? The waits of the MMA warp alone can mislead:
with a short ring it may stand at K and V for long without losing any time by it. They decide only
where there is no path.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fa4sim.analysis.critical_path import CriticalPath, by_kind, critical_path
from fa4sim.analysis.waits import wait_shares, wait_table
from fa4sim.trace import Trace

#: A unit that is busy for this part of the time in which its SM has work is saturated.
SATURATED = 0.85

#: Idle SMs below this part of the time are not worth a verdict.
IDLE = 0.25

#: Loads that make up this part of the critical path are what holds it up.
LOADS = 0.25

#: Rescaling O that makes up this part of the critical path is what holds it up.
RESCALING = 0.25

#: A path of which less than this is known to have a cause is no ground for a verdict.
KNOWN = 0.75

#: Units by the name a report gives them: what they are, and the kind of verdict on them.
UNITS = {
    "tensor": ("the tensor pipe", "tensor pipe"),
    "mufu": ("the MUFU (exponentials)", "MUFU"),
    "fma": ("the FMA lanes", "FMA/issue"),
    "alu": ("the ALU lanes", "FMA/issue"),
    "issue": ("instruction issue", "FMA/issue"),
    "smem": ("shared-memory bandwidth", "shared memory"),
    "tmem": ("TMEM bandwidth", "TMEM"),
    "l2": ("L2 bandwidth", "L2"),
    "hbm": ("HBM bandwidth", "HBM"),
}

#: Units that can only hold a run back through its loads.
MEMORIES = ("l2", "hbm")

#: What an MMA warp waits for when it waits for softmax, and when it waits for memory.
CHAIN_WAITS = ("P_full_O_rescaled", "P_full_lastsplit")
LOAD_WAITS = ("load_KV_full", "load_Q_full")


@dataclass(frozen=True)
class Evidence:
    """What a verdict is built on; all fractions from 0 to 1.

    ``units`` is the busy fraction of each unit (of all SMs and the whole span), ``waits`` the
    share of its life that a role waits, by ``(role, barrier)``; ``path_totals`` the cycles on the
    critical path by ``(role, op)`` (empty: not known); ``occupancy`` the fraction of SMs times span
    in which there was a CTA, ``launch`` the fraction of the whole time that passed before.

    Raises ``ValueError`` for a fraction outside 0 to 1.
    """

    units: Mapping[str, float]
    waits: Mapping[tuple[str, str], float] = field(default_factory=dict)
    path_totals: Mapping[tuple[str, str], float] = field(default_factory=dict)
    occupancy: float = 1.0
    launch: float = 0.0

    def __post_init__(self) -> None:
        for name in ("occupancy", "launch"):
            value = getattr(self, name)
            if not 0.0 <= value <= 1.0:
                raise ValueError(f"{name}={value} is a fraction, 0 to 1")


@dataclass(frozen=True)
class Verdict:
    """``text`` is a sentence; ``kind`` one of the kinds below; ``evidence`` a figure per line.

    Kinds: ``nothing to do``, ``launch and tail``, ``tensor pipe``, ``MUFU``, ``FMA/issue``,
    ``shared memory``, ``TMEM``, ``L2``, ``HBM``, ``K/V ring``, ``rescaling of O``,
    ``softmax latency chain``, ``fill and drain``.
    """

    text: str
    kind: str
    evidence: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "\n".join((self.text, *(f"  {line}" for line in self.evidence)))


def gather(
    trace: Trace,
    units: Mapping[str, float],
    occupancy: float = 1.0,
    launch: float = 0.0,
    path: CriticalPath | None = None,
) -> Evidence:
    """The evidence that a trace holds, with what only the whole run knows.

    Args:
        trace: of one CTA or pair; the waits are those of its first CTA, whose MMA warp issues.
        units: busy fractions by unit.
        occupancy, launch: see :class:`Evidence`.
        path: of this trace, if it has been walked already.
    """
    ctas = trace.span["cta"]
    rows = wait_table(trace, int(ctas.min())) if len(ctas) else []
    path = critical_path(trace) if path is None else path
    return Evidence(units, wait_shares(rows), path.totals(), occupancy, launch)


def verdict(evidence: Evidence) -> Verdict:
    """Say what holds a run back.

    >>> print(verdict(Evidence({"tensor": 0.97, "mufu": 0.4})))
    The tensor pipe is saturated: busy 97% of the time.
      units: tensor 97%, mufu 40%
    """
    units = {name: busy for name, busy in evidence.units.items() if busy > 0}
    if not units:
        return Verdict("There was nothing to do.", "nothing to do")
    lines = _lines(evidence)
    if not _loads_hold(evidence):
        # Memory that is busy but never waited for holds nothing up.
        units = {name: busy for name, busy in units.items() if name not in MEMORIES} or units
    name, most = max(units.items(), key=lambda item: item[1])
    working = evidence.occupancy * (1.0 - evidence.launch)
    # Of the time in which an SM has work; a sum of rounded parts may lie a hair above 1.
    busy = min(1.0, most / evidence.occupancy) if evidence.occupancy else 0.0
    title, kind = UNITS.get(name, (name, name))
    idle = 1.0 - working
    if idle >= IDLE and idle > working * (1.0 - busy):
        return Verdict(
            f"Launch and tail: the SMs have work for only {_percent(working)} of the time; there "
            "are too few tiles, or too short ones, to fill them.",
            "launch and tail",
            lines,
        )
    if busy >= SATURATED:
        while_working = "" if evidence.occupancy > 0.99 else " in which there is work"
        return Verdict(
            f"{title[0].upper()}{title[1:]} is saturated: busy {busy:.0%} of the time"
            f"{while_working}.",
            kind,
            lines,
        )
    held_by = _by_path(evidence) or _by_waits(evidence)
    while_working = "" if evidence.occupancy > 0.99 else " while there is work"
    no_unit = f"no unit is saturated ({title} is busiest, {busy:.0%}{while_working})"
    return Verdict(f"{_TEXTS[held_by]}; {no_unit}.", held_by, lines)


_TEXTS = {
    "K/V ring": "The K/V ring: K and V come too late, so more stages or faster loads would help",
    "softmax latency chain": (
        "The softmax latency chain: the time from S through exponentials to P, one step at a time"
    ),
    "rescaling of O": (
        "Rescaling O: it is read, multiplied and written, and the next products wait for that"
    ),
    "fill and drain": (
        "Filling and draining: start, first loads and epilogue of a tile of few K/V blocks"
    ),
}


def _loads_hold(evidence: Evidence) -> bool:
    """Whether the run waits for loads to speak of: on its path, or without one its MMA warp."""
    kinds = _known_path(evidence)
    if kinds:
        return kinds.get("load", 0.0) >= LOADS
    return _by_waits(evidence) == "K/V ring"


def _by_path(evidence: Evidence) -> str:
    """The verdict of the critical path; '' if there is none or too little of it is known."""
    kinds = _known_path(evidence)
    if not kinds:
        return ""
    loads = kinds.get("load", 0.0)
    ring = evidence.waits.get(("mma", "load_KV_full"), 0.0)
    if loads >= LOADS and ring >= evidence.waits.get(("mma", "load_Q_full"), 0.0):
        return "K/V ring"
    if kinds.get("rescaling", 0.0) >= RESCALING:
        return "rescaling of O"
    edges = kinds.get("start and end", 0.0) + kinds.get("epilogue", 0.0)
    return "fill and drain" if loads + edges > 0.5 else "softmax latency chain"


def _known_path(evidence: Evidence) -> dict[str, float]:
    """Parts of the critical path by kind of work; nothing if too little of it is known."""
    kinds = by_kind(evidence.path_totals)
    total = sum(kinds.values())
    if not total or kinds.get("not known", 0.0) > (1.0 - KNOWN) * total:
        return {}
    return {kind: cycles / total for kind, cycles in kinds.items()}


def _by_waits(evidence: Evidence) -> str:
    """The verdict of what the MMA warp waits for."""
    loads = sum(evidence.waits.get(("mma", on), 0.0) for on in LOAD_WAITS)
    chain = sum(evidence.waits.get(("mma", on), 0.0) for on in CHAIN_WAITS)
    return "K/V ring" if loads > chain else "softmax latency chain"


def _lines(evidence: Evidence) -> tuple[str, ...]:
    """The figures, a line for each source."""
    lines = []
    if evidence.occupancy < 1.0 or evidence.launch > 0.0:
        lines.append(
            f"SMs with a CTA: {_percent(evidence.occupancy)} of the span; launch: "
            f"{_percent(evidence.launch)} of the time"
        )
    units = sorted(evidence.units.items(), key=lambda item: -item[1])
    lines.append("units: " + ", ".join(f"{name} {_percent(busy)}" for name, busy in units[:4]))
    waits = sorted(
        ((share, on) for (role, on), share in evidence.waits.items() if role == "mma"), reverse=True
    )
    if waits:
        lines.append(
            "the MMA warp waits for: "
            + ", ".join(f"{on} {_percent(share)}" for share, on in waits[:3])
        )
    kinds = by_kind(evidence.path_totals)
    total = sum(kinds.values())
    if total:
        shares = [f"{kind} {_percent(cycles / total)}" for kind, cycles in kinds.items()]
        lines.append("critical path: " + ", ".join(shares[:5]))
        longest = sorted(evidence.path_totals.items(), key=lambda item: (-item[1], item[0]))
        parts = [f"{role} {op} {_percent(cycles / total)}" for (role, op), cycles in longest]
        lines.append("longest on it: " + ", ".join(parts[:4]))
    return tuple(lines)


def _percent(fraction: float) -> str:
    """A fraction in percent; a small one isn't rounded to nothing."""
    return "under 1%" if 0.0 < fraction < 0.005 else f"{fraction:.0%}"
