"""What the simulator says to the points that were measured."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Any

from fa4kernel.bench.points import VARIANTS, Point
from fa4kernel.hopper.config import Config
from fa4kernel.hopper.design import config_for
from fa4sim.simulate import simulate
from fa4sim.specs import H200, HopperDesign


@dataclass(frozen=True)
class Compared:
    """A measured point beside the simulator's.

    Attributes:
        point: what.
        row: as measured.
        cycles: the simulator's.
        empty_ms: what an empty kernel takes between the same two events.
    """

    point: Point
    row: dict[str, Any]
    cycles: int
    empty_ms: float

    @property
    def measured_ms(self) -> float:
        """Median of the kernel's runs."""
        return float(self.row["ours"]["ms"])

    @property
    def simulated_ms(self) -> float:
        """At the clock that was measured, with what starting a kernel takes."""
        return self.cycles / float(self.row["ours"]["clock_hz"]) * 1e3 + self.empty_ms

    @property
    def error(self) -> float:
        """Simulated by measured, less 1."""
        return self.simulated_ms / self.measured_ms - 1


def compare(rows: Iterable[dict[str, Any]], empty_ms: float, processes: int = 2) -> list[Compared]:
    """Simulate what was measured, each at the clock at which it ran."""
    chosen = list(rows)
    with ProcessPoolExecutor(processes) as pool:
        cycles = list(pool.map(simulated_cycles, chosen))
    return [Compared(point_of(r), r, c, empty_ms) for r, c in zip(chosen, cycles, strict=True)]


def simulated_cycles(row: dict[str, Any], **changes: float) -> int:
    """The simulator's cycles for a measured row, perhaps with changed constants of the machine."""
    point = point_of(row)
    machine = H200.with_constants(clock_hz=float(row["ours"]["clock_hz"]), **changes)
    design = simulators_design(config_for(point.problem, **point.changes))
    return int(simulate(point.problem, design, machine).report.cycles)


def point_of(row: dict[str, Any]) -> Point:
    """The point of a measured row."""
    names = ("head_dim", "causal", "seqlen", "batch", "heads", "kv_heads", "variant")
    changes = VARIANTS[row["variant"]] if row["variant"] else {}
    return Point(**{name: row[name] for name in names}, changes=dict(changes))


def simulators_design(cfg: Config) -> HopperDesign:
    """The simulator's design of a kernel."""
    return HopperDesign(
        consumers=cfg.consumers,
        tile_n=cfg.tile_n,
        kv_stages=cfg.kv_stages,
        overlap=cfg.overlap,
        ping_pong=cfg.ping_pong,
        head_dim_padded=cfg.head_dim,
        head_dim_v_padded=cfg.head_dim_v,
        scheduler=cfg.scheduler,
        registers_consumer=cfg.registers[0],
        registers_load=cfg.registers[1],
    )
