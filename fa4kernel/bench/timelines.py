"""Phases of a traced kernel on a GPU beside those of the simulator, and both timelines."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path

from fa4kernel.bench.predict import simulators_design
from fa4kernel.bench.stored import measured
from fa4kernel.bench.stored_traces import Measured
from fa4kernel.hopper.config import Config
from fa4kernel.hopper.simulated import simulated_stamps
from fa4kernel.hopper.traced import (
    STEP,
    durations,
    first_tiles,
    load_durations,
    shared_softmax,
    to_trace,
    wait_share,
)
from fa4sim.simulate import simulate
from fa4sim.specs import H200, HopperDesign, Machine, Problem
from fa4sim.trace import Trace

SMS = 132
LABELS = ("measured", "simulated")

#: What a consumer does up to each stamp, and the load warp.
WORDS = {
    "begin": "rounds P, begins the next block",
    "K": "waits for K",
    "turn": "waits for its turn",
    "QK": "issues Q K",
    "V": "waits for V",
    "PV": "issues P V, passes the turn",
    "S": "waits for S, frees K",
    "softmax": "softmax",
    "O": "waits for O, frees V",
    "P": "rescales O",
    "K free": "waits for a slot for K",
    "K asked": "asks for K",
    "V free": "waits for a slot for V",
    "V asked": "asks for V",
}


@dataclass(frozen=True)
class Phase:
    """Mean cycles of a phase per block, measured and simulated."""

    role: str
    name: str
    measured: float
    simulated: float

    @property
    def words(self) -> str:
        """What is done in it. Without overlap V's comes behind all of Q K."""
        return WORDS[self.name]


@dataclass(frozen=True)
class Timelines:
    """A measured timeline and the simulator's of the same work tile.

    Attributes:
        name: of the point.
        phases: of both roles.
        measured, simulated: the first work tile of a CTA; the second in the simulator's detail.
        waits, shared: parts of the consumers' time that they wait, and of their softmax that
            computes beside another's; measured and simulated.
        untraced: cycles of a block of the kernel without stamps, all told; None if not measured.
    """

    name: str
    phases: tuple[Phase, ...]
    measured: Trace
    simulated: Trace
    waits: tuple[float, float]
    shared: tuple[float, float]
    untraced: float | None

    def block(self, which: str) -> float:
        """Cycles of a consumer for a block, "measured" or "simulated"."""
        return float(sum(getattr(each, which) for each in self.phases if each.role == "consumer"))


def simulated_trace(problem: Problem, cfg: Config, machine: Machine = H200) -> Trace:
    """The simulator's first work tile of a traced kernel, which runs in the source's order."""
    return simulate(problem, traced_design(cfg), machine, scope="cta").trace


def traced_design(cfg: Config) -> HopperDesign:
    """The simulator's design of a traced kernel."""
    return dataclasses.replace(simulators_design(cfg), o_waited_early=False)


def timelines(found: Measured) -> Timelines:
    """Hold a measured trace against the simulator.

    Raises:
        ValueError: no tile has more than one block of keys, so there are no phases to compare.
    """
    cfg = found.cfg
    if found.point.seqlen <= cfg.tile_n:
        raise ValueError(
            f"seqlen={found.point.seqlen}: a timeline needs two blocks of {cfg.tile_n} keys or more"
        )
    trace = simulated_trace(found.point.problem, cfg)
    stamps = simulated_stamps(cfg, trace)
    model = {name: float(took.mean()) for name, took in durations(cfg, stamps).items()}
    load, model_load = (
        {name: float(took.mean()) for name, took in load_durations(each).items()}
        for each in (first_tiles(found.stamps), stamps)
    )
    phases = [Phase("load", name, load[name], model_load[name]) for name in load]
    phases += [Phase("consumer", name, found.means[name], model[name]) for name in ("begin", *STEP)]
    both = found.trace(), to_trace(cfg, stamps)
    return Timelines(
        found.point.name,
        tuple(phases),
        both[0],
        trace,
        (wait_share(both[0]), wait_share(both[1])),
        (shared_softmax(both[0]), shared_softmax(both[1])),
        untraced_block(found),
    )


def untraced_block(found: Measured) -> float | None:
    """Cycles of a block on one multiprocessor of the stored run without stamps, all told."""
    stored = measured()
    rows = [row for row in stored["points"] if row["name"] == found.point.name]
    if not rows or found.about["device"] != stored["about"]["device"]:
        return None
    cycles = float(rows[0]["ours"]["ms"]) * 1e-3 * float(rows[0]["ours"]["clock_hz"])
    problem, cfg = found.point.problem, found.cfg
    assert problem.seqlen_k is not None
    lengths = [
        min(problem.seqlen_k, first + cfg.tile_rows) if problem.causal else problem.seqlen_k
        for first in range(0, problem.seqlen_q, cfg.tile_rows)
    ]
    blocks = sum(-(-keys // cfg.tile_n) for keys in lengths) * problem.batch * problem.heads
    return cycles * SMS / blocks


def rows_of(found: Timelines) -> list[tuple[str, ...]]:
    """Role, phase, measured and simulated cycles; then a block's sum, waits and softmax."""
    rows: list[tuple[str, ...]] = [
        (each.role, each.words, f"{each.measured:,.0f}", f"{each.simulated:,.0f}")
        for each in found.phases
    ]
    both = (f"{found.block(name):,.0f}" for name in LABELS)
    return [
        *rows,
        ("consumer", "all of a block", *both),
        ("consumer", "of that, waits", *(f"{each:.0%}" for each in found.waits)),
        ("consumer", "of softmax, beside another's", *(f"{each:.0%}" for each in found.shared)),
    ]


def draw(found: Timelines, target: Path) -> None:
    """The picture: measured above simulated, aligned by event."""
    from fa4sim.views import aligned_timelines, save

    save(aligned_timelines(found.measured, found.simulated, LABELS), target)
