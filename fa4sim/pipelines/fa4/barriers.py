"""Every barrier of the forward kernel: who arrives, how often, who waits, what it guards.

One table for all designs; :func:`barrier_table` fills in the counts of one. Names are the
kernel's: a pipeline called ``X`` in its shared-memory struct has a full half ``X_full`` and an
empty half ``X_empty``; the pipeline ``S_full_P_full_O_rescaled`` is named by what its halves say,
``S_full`` and ``P_full_O_rescaled``.

Source: ``flash_fwd_sm100.py``, ``pipeline.py`` and ``named_barrier.py`` of flash-attention at
commit 0251105a.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fa4sim.specs import Design

WARP = 32
WARPGROUP = 128


@dataclass(frozen=True)
class BarrierSpec:
    """One barrier, all stages.

    ``count`` arrivals complete a phase; ``parties`` says how many come from each role (both CTAs
    of a pair together), ``waiters`` which roles wait for it. ``owner`` is ``"leader"`` when a pair
    shares the leader's barrier and ``"each"`` when every CTA has its own. ``starts_free`` marks
    the empty halves on which a producer's first wait passes. ``guards`` is what it protects.
    ``kind`` is ``"mbarrier"`` or ``"named"``; a named barrier has hardware number ``number``.
    """

    name: str
    stages: int
    count: int
    parties: Mapping[str, int]
    waiters: tuple[str, ...]
    guards: str
    owner: str = "each"
    kind: str = "mbarrier"
    starts_free: bool = False
    number: int = -1
    used: bool = True
    tx_bytes: str = ""
    why: str = field(default="", compare=False)


def softmax_roles(design: Design) -> tuple[str, ...]:
    """The softmax roles of a design, one per Q stage."""
    return ("softmax0", "softmax1")[: design.q_stages]


def epilogue_role(design: Design) -> str:
    """Who writes O to global memory."""
    return "epilogue" if design.epilogue == "tma" else "correction"


def load_warp_ids(design: Design) -> tuple[int, ...]:
    """The warps that load: one for TMA; for cp.async of K and V the spare warp, too.

    With one Q tile and any cp.async they are those of the second softmax, which is not needed.
    """
    if design.q_stages == 1 and "cp_async" in (design.q_load, design.kv_load):
        return (4, 5, 6, 7)
    return (14, 15) if design.kv_load == "cp_async" else (14,)


def next_tile_barriers(design: Design) -> tuple[str, str]:
    """Full and empty half of the slot that holds the next tile's coordinates."""
    name = "clc" if design.scheduler == "dynamic" else "work_info"
    return f"{name}_full", f"{name}_empty"


def spare_warp(design: Design) -> int:
    """The warp that schedules, where one does: the last, or if it loads, the idle epilogue's."""
    return 13 if 15 in load_warp_ids(design) else 15


def load_warps(design: Design) -> int:
    """How many warps load."""
    return len(load_warp_ids(design))


def barrier_table(design: Design) -> dict[str, BarrierSpec]:
    """The barriers of a design by name.

    >>> from fa4sim.specs import Design
    >>> barrier_table(Design())["P_full_O_rescaled"].count
    256
    """
    q = design.q_stages
    c = design.cta_group
    softmax = softmax_roles(design)
    epilogue = epilogue_role(design)
    loaders = load_warps(design)
    cp_async = design.q_load == "cp_async"
    q_count = WARP * loaders if cp_async else 1
    rows = design.kv_load == "cp_async"
    kv_count = WARP * loaders if rows else 1
    dynamic = design.is_dynamic
    persistent = dynamic or design.scheduler == "static_persistent" or design.one_m_block
    launched = design.scheduler == "dynamic"
    storing = ("epilogue",) if design.epilogue == "tma" else ()
    all_roles = (*softmax, "correction", "mma", *storing, "load", "scheduler")
    two_parts = design.p_first_columns < design.tile_n
    everyone = {
        **dict.fromkeys(softmax, WARPGROUP * c),
        "correction": WARPGROUP * c,
    }
    others = 512 * c - sum(everyone.values())
    table = [
        BarrierSpec(
            "load_Q_full", q, q_count, {"load": q_count}, ("mma",), "sQ[s]", owner="leader",
            tx_bytes="" if cp_async else "one Q tile of every CTA",
        ),
        BarrierSpec(
            "load_Q_empty", q, 1, {"tensor": 1}, ("load",), "sQ[s]", starts_free=True
        ),
        BarrierSpec(
            "load_KV_full", design.kv_stages, kv_count, {"load": kv_count}, ("mma",),
            "one slot of the K/V ring", owner="leader", tx_bytes="" if rows else "one K or V tile",
        ),
        BarrierSpec(
            "load_KV_empty", design.kv_stages, 1, {"tensor": 1}, ("load",),
            "one slot of the K/V ring", starts_free=True,
        ),
        BarrierSpec("S_full", q, 1, {"tensor": 1}, softmax, "S[s]: scores may be read"),
        BarrierSpec(
            "P_full_O_rescaled", q, 2 * WARPGROUP * c,
            {"softmax": WARPGROUP * c, "correction": WARPGROUP * c}, ("mma",),
            "P[s] first part and O[s]: PV may read and accumulate", owner="leader",
        ),
        BarrierSpec(
            "P_full_lastsplit", q, 4 * c, {"softmax": 4 * c}, ("mma",), "P[s] last part",
            owner="leader", used=two_parts,
        ),
        BarrierSpec(
            "P_full_lastsplit_empty", q, 1, {}, (), "nothing", used=False,
            why="initialised with its pipeline; P may be overwritten once PV has read it, which "
            "S_full tells",
        ),
        BarrierSpec("O_full", q, 1, {"tensor": 1}, ("correction",), "O[s]: final, may be read"),
        BarrierSpec(
            "O_empty", q, WARPGROUP * c, {}, (), "nothing", used=False,
            why="allocated with its pipeline; the next tile's O is guarded by P_full_O_rescaled",
        ),
        BarrierSpec(
            "softmax_stats_empty", q, WARPGROUP, {"correction": WARPGROUP}, softmax,
            "sScale[s]: may be overwritten", starts_free=True,
        ),
        BarrierSpec(
            "softmax_stats_full", q, WARPGROUP, {}, (), "nothing", used=False,
            why="replaced by the named barriers SoftmaxStats in March 2026, for latency",
        ),
        BarrierSpec(
            "O_epi_full", q, WARPGROUP, {"correction": WARPGROUP}, ("epilogue",), "sO[s]: written",
            used=design.epilogue == "tma",
        ),
        BarrierSpec(
            "O_epi_empty", q, WARP, {"epilogue": WARP}, ("correction",), "sO[s]: read out",
            starts_free=True, used=design.epilogue == "tma",
        ),
        BarrierSpec(
            "load_epi_full", 1, 1 if epilogue == "epilogue" else 4,
            {epilogue: 1 if epilogue == "epilogue" else 4}, ("load",),
            "sQ, which sO shares: O has left, Q may come",
            used=design.overlap_o_q and persistent,
        ),
        BarrierSpec(
            "load_epi_empty", 1, loaders, {"load": loaders}, (epilogue,), "sQ, which sO shares",
            starts_free=True, used=design.overlap_o_q and persistent,
        ),
        BarrierSpec(
            "s0_s1_sequence", 2, WARPGROUP, {}, (), "nothing", used=False,
            why="allocated, never initialised; the order of the two softmaxes follows from "
            "softmax_stats instead",
        ),
        BarrierSpec(
            "tmem_dealloc", 1, WARP, {"peer_mma": WARP}, ("mma",), "TMEM of the pair",
            used=c == 2,
        ),
        BarrierSpec(
            "clc_full", 1, 1, {"clc": 1}, all_roles, "the next tile's coordinates", used=launched,
            tx_bytes="16 bytes of response",
        ),
        BarrierSpec(
            "clc_empty", 1, 512 * c, {**everyone, "others": others}, ("scheduler",),
            "the next tile's coordinates", owner="leader", starts_free=True, used=launched,
        ),
        BarrierSpec(
            "work_info_full", 1, 1, {"scheduler": 1}, all_roles, "the next tile's coordinates",
            used=dynamic and not launched,
        ),
        BarrierSpec(
            "work_info_empty", 1, 512 * c, {**everyone, "others": others}, ("scheduler",),
            "the next tile's coordinates", starts_free=True, used=dynamic and not launched,
        ),
        BarrierSpec(
            "Epilogue", 1, WARPGROUP, {"correction": WARPGROUP}, ("correction",), "sO written by "
            "all four warps before any reads it", kind="named", number=1,
            used=design.epilogue == "correction",
        ),
        BarrierSpec(
            "TmemPtr", 1, WARP * (1 + 4 * (q + 1)),
            {**dict.fromkeys(softmax, WARPGROUP), "correction": WARPGROUP, "mma": WARP},
            (*softmax, "correction", "mma"), "the TMEM address, and at the end TMEM itself",
            kind="named", number=2,
        ),
    ]  # fmt: skip
    for stage in range(q):
        for warp in range(4):
            index = 4 * stage + warp
            table.append(
                BarrierSpec(
                    f"SoftmaxStatsW{index}", 1, 2 * WARP,
                    {softmax[stage]: WARP, "correction": WARP}, ("correction",),
                    f"statistics of rows {32 * warp} to {32 * warp + 31} of stage {stage}",
                    kind="named", number=3 + index,
                )
            )  # fmt: skip
    return {spec.name: spec for spec in table}


def parties_of(spec: BarrierSpec, stage: int) -> dict[str, int]:
    """The arrivers of one stage: ``softmax`` is the softmax role that serves it."""
    return {
        (f"softmax{stage}" if role == "softmax" else role): count
        for role, count in spec.parties.items()
    }


def waiters_of(spec: BarrierSpec, stage: int) -> tuple[str, ...]:
    """The roles that wait for one stage: of several softmaxes, the one that serves it."""
    softmax = [role for role in spec.waiters if role.startswith("softmax")]
    if len(softmax) > 1 and spec.stages > 1:
        return tuple(
            role for role in spec.waiters if role not in softmax or role == f"softmax{stage}"
        )
    return spec.waiters
