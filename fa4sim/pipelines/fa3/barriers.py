"""Every barrier of the Hopper kernel: who arrives, how often, who waits, what it guards.

Names, stages and counts are those of ``fa4kernel.hopper.barriers``.
"""

from __future__ import annotations

from fa4sim.pipelines.fa4.barriers import WARPGROUP, BarrierSpec
from fa4sim.specs import HopperDesign

#: Hardware numbers of the named barriers: one for each consumer from here on.
CTA_BARRIER, SCHEDULER_BARRIER, EPILOGUE_BARRIER = 0, 1, 4


def consumer_roles(design: HopperDesign) -> tuple[str, ...]:
    """The consumer roles of a design, one per warpgroup.

    >>> consumer_roles(HopperDesign())
    ('consumer0', 'consumer1')
    """
    return tuple(f"consumer{i}" for i in range(design.consumers))


def barrier_table(design: HopperDesign) -> dict[str, BarrierSpec]:
    """The barriers of a design by name.

    >>> barrier_table(HopperDesign())["load_K_empty"].count
    8
    """
    consumers = consumer_roles(design)
    specs = _mbarriers(design, consumers)
    for number, role in enumerate(consumers):
        specs.append(
            BarrierSpec(
                f"Epilogue{number}", 1, WARPGROUP, {role: WARPGROUP}, (role,),
                f"sO[{number}] written by all four warps before one stores it", kind="named",
                number=EPILOGUE_BARRIER + number,
            )
        )  # fmt: skip
        before = consumers[number - 1]
        if design.ping_pong:
            specs.append(
                BarrierSpec(
                    f"Scheduler{number}", 1, 2 * WARPGROUP, {role: WARPGROUP, before: WARPGROUP},
                    (role,), f"the turn of {role} to start products", kind="named",
                    number=SCHEDULER_BARRIER + number,
                )
            )  # fmt: skip
    if not design.specialised:
        specs.append(
            BarrierSpec(
                "Cta", 1, design.threads, dict.fromkeys(consumers, WARPGROUP), consumers,
                "sK, sV and sQ: everybody is done with what is there", kind="named",
                number=CTA_BARRIER,
            )
        )  # fmt: skip
    return {spec.name: spec for spec in specs}


def _mbarriers(design: HopperDesign, consumers: tuple[str, ...]) -> list[BarrierSpec]:
    ring, warps = design.kv_stages, 4 * design.consumers
    each_warp, each = dict.fromkeys(consumers, 4), dict.fromkeys(consumers, 1)
    loads = "load" if design.specialised else "consumer0"
    full = {"load_Q_full": (1, "Q of all consumers"), "load_K_full": (ring, "one K tile"),
            "load_V_full": (ring, "one V tile")}  # fmt: skip
    specs = [
        BarrierSpec(name, stages, 1, {loads: 1}, consumers, _guards(name), tx_bytes=what)
        for name, (stages, what) in full.items()
    ]
    if design.specialised:
        specs.append(
            BarrierSpec(
                "load_Q_empty", 1, design.consumers, each, ("load",),
                "sQ, which sO shares: O has left, Q may come", starts_free=True,
            )
        )  # fmt: skip
        specs += [
            BarrierSpec(
                name, ring, warps, each_warp, ("load",), _guards(name), starts_free=True
            )
            for name in ("load_K_empty", "load_V_empty")
        ]  # fmt: skip
    return specs


def _guards(name: str) -> str:
    tensor = name.split("_")[1]
    return "sQ" if tensor == "Q" else f"one slot of the {tensor} ring"
