"""How much a ring of loads brings, by the bytes it keeps in flight: simulated and measured.

By Little's law an SM that keeps so many bytes in flight gets at most these bytes per latency. The
simulator has no constant for that; it follows from the latency of a load, the rate of an SM's path
and its share of L2 or HBM. On an H200 it has been measured for rings of 1 to 12 stages of 16 KiB,
on one SM and on all of them.
"""

from __future__ import annotations

from dataclasses import dataclass

from fa4sim.engine.agent import Steps
from fa4sim.engine.core import Core, Wake
from fa4sim.engine.memory import Load, Share, TmaLoad
from fa4sim.engine.units import Unit
from fa4sim.specs import Machine
from fa4sim.specs.measured import h200_value

STAGE_BYTES = 16384

#: Loads before the clock is read, and in all.
WARM_UP, LOADS = 40, 240


@dataclass(frozen=True)
class InFlight:
    """One rate in bytes per cycle and SM: ``measured`` is 0 where it has not been."""

    memory: str
    sms: int
    kib: int
    measured: float
    simulated: float


def ring_rate(
    machine: Machine, bytes_in_flight: int, sms: int, from_hbm: bool, stage_bytes: int = STAGE_BYTES
) -> float:
    """Bytes per cycle that one of ``sms`` SMs receives with a ring of so many bytes.

    One warp waits for the oldest stage and asks for it anew, for ever.
    """
    core = Core()
    l2, hbm = Share(machine.l2_bytes_per_cycle), Share(machine.hbm_bytes_per_cycle)
    l2.sharers = hbm.sharers = sms
    tma = TmaLoad(
        core, 0, 0, Unit("smem"), machine.smem_bytes_per_cycle, machine.tma_bytes_per_cycle, l2, hbm
    )
    stages = max(1, bytes_in_flight // stage_bytes)
    landed = [Wake(core.env) for _ in range(LOADS)]
    times: list[int] = []
    latency = machine.tma_l2_latency_cycles - machine.mbarrier_resume_cycles
    latency += machine.tma_hbm_extra_cycles if from_hbm else 0
    issue = machine.mbarrier_arrive_cycles + machine.tma_issue_cycles + machine.elect_cycles

    def ask(number: int) -> Steps:
        yield core.env.timeout(issue)
        done = landed[number]
        tma.push(
            Load(
                "K", number % stages, 0, -1, 0, 0, stage_bytes, core.env.cycle + latency,
                stage_bytes if from_hbm else 0,
                lambda _load: done.fire(machine.mbarrier_resume_cycles),
            )
        )  # fmt: skip

    def producer() -> Steps:
        for number in range(stages):
            yield from ask(number)
        for number in range(LOADS):
            if not landed[number].processed:
                yield landed[number]
            times.append(core.env.cycle)
            if number + stages < LOADS:
                yield from ask(number + stages)

    core.env.process(tma.run())
    core.env.process(producer())
    core.run()
    last = LOADS - stages
    return stage_bytes * (last - WARM_UP) / (times[last] - times[WARM_UP])


def measured_rings(machine: Machine) -> list[InFlight]:
    """Every ring that was measured on an H200, beside ``machine``'s simulated rate."""
    rows = []
    for memory in ("l2", "hbm"):
        for scope, sms in (("one_sm", 1), ("all_sms", machine.sms)):
            for kib in (16, 32, 48, 64, 96, 128, 192):
                name = f"tma_{memory}_{scope}_{kib}kib_in_flight_bytes_per_cycle"
                rate = ring_rate(machine, kib * 1024, sms, memory == "hbm")
                rows.append(InFlight(memory, sms, kib, h200_value(name), rate))
    return rows
