"""What the poster says, as rows of words, from the design and its table of barriers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fa4sim.analysis import barrier_means
from fa4sim.pipelines.fa4.barriers import BarrierSpec, barrier_table, load_warp_ids, spare_warp
from fa4sim.pipelines.fa4.build import EPILOGUE_WARP, MMA_WARP
from fa4sim.specs import Design

#: More roles than this are not named one by one.
MANY = 2
#: Of a CTA; a design may leave some without a role.
WARPS = 16


@dataclass(frozen=True)
class RoleRow:
    """A role: its warps, the registers of each of its threads, and what it does."""

    role: str
    warps: str
    registers: int
    does: str
    loop: tuple[str, ...]


def roles(design: Design) -> list[RoleRow]:
    """The roles of a design, in the order of their warps."""
    softmax, correction, other = (
        design.registers_softmax,
        design.registers_correction,
        design.registers_other,
    )
    poly = design.emulated_share
    parts = "P's first part" if design.p_first_columns < design.tile_n else "P"
    last = ["store P's last part · arrive P_full_lastsplit"] if parts != "P" else []
    rows = [
        RoleRow(
            f"softmax{stage}",
            f"{4 * stage} to {4 * stage + 3}",
            softmax,
            f"S{stage} → P{stage}: one row a thread",
            (
                f"wait S_full[{stage}]",
                "read S · mask · row maximum",
                "hand the factor over · arrive SoftmaxStats",
                f"exp2: {share(1 - poly)} MUFU, {share(poly)} FMA",
                f"store {parts} · arrive P_full_O_rescaled",
                *last,
                "wait softmax_stats_empty · row sum",
            ),
        )
        for stage in range(design.q_stages)
    ]
    rows.append(
        RoleRow(
            "correction",
            "8 to 11",
            correction,
            "rescales O; at the end O / row sum",
            (
                "sync SoftmaxStats",
                "any row of the warp asks for it: O ×= factor",
                "arrive P_full_O_rescaled, softmax_stats_empty",
                "after the last block: wait O_full",
                "O / row sum → bf16 → " + ("sO" if design.epilogue == "tma" else "global memory"),
            ),
        )
    )
    rows.append(
        RoleRow(
            "mma",
            str(MMA_WARP),
            other,
            "asks the tensor core for QK and PV",
            (
                "wait P_full_O_rescaled[s] · V's slot full",
                "PV[s]: O += P V" + (" (waits for P's last part midway)" if last else ""),
                "wait the next K's slot full",
                "QK[s]: S = Q Kᵀ · commit S_full[s]",
                "commit the slots empty",
            ),
        )
    )
    if design.epilogue == "tma":
        rows.append(
            RoleRow(
                "epilogue",
                str(EPILOGUE_WARP),
                other,
                "O from shared to global memory",
                ("wait O_epi_full[s]", "TMA store", "arrive O_epi_empty[s]"),
            )
        )
    warps = load_warp_ids(design)
    shown = str(warps[0]) if len(warps) == 1 else f"{warps[0]} to {warps[-1]}"
    what = ("asks the TMA for Q, K and V", "expect bytes · TMA: K, then V, …")
    if design.kv_load == "cp_async":
        what = ("copies K and V row by row", "16 bytes a thread, arrive when they are there")
    rows.append(
        RoleRow("load", shown, other, what[0], ("once a tile: Q", "wait a slot empty", what[1]))
    )
    if design.scheduler == "dynamic":
        ask = ("wait clc_empty", "ask the hardware for the next tile")
        warp = str(spare_warp(design))
        rows.append(RoleRow("scheduler", warp, other, "fetches the next tile", ask))
    return rows


def share(part: float) -> str:
    """A part of a whole in words.

    >>> share(0.125), share(0.875), share(0.0)
    ('12.5%', '87.5%', '0%')
    """
    return f"{100 * part:.3g}%"


def idle_warps(rows: Sequence[RoleRow]) -> list[int]:
    """The warps of a CTA that have none of these roles."""
    busy: set[int] = set()
    for row in rows:
        ends = [int(end) for end in row.warps.split(" to ")]
        busy.update(range(ends[0], ends[-1] + 1))
    return sorted(set(range(WARPS)) - busy)


#: Name, stages, who arrives, who waits, what a phase means.
BarrierRow = tuple[str, str, str, str, str]


def barriers(design: Design) -> list[BarrierRow]:
    """A row for each barrier that is used."""
    rows = []
    merged: dict[str, BarrierSpec] = {}
    for name, spec in barrier_table(design).items():
        if spec.used and not name.startswith("SoftmaxStatsW"):
            merged[name] = spec
    for name, spec in merged.items():
        bytes_too = " + bytes" if spec.tx_bytes else ""
        rows.append(
            (
                name,
                str(spec.stages),
                _arrivals(spec.parties) + bytes_too,
                _both(spec.waiters),
                barrier_means(name),
            )
        )
    warps = 4 * design.q_stages
    stats = (
        f"SoftmaxStatsW0 … W{warps - 1}", "1", "softmax 32 + correction 32", "correction",
        barrier_means("SoftmaxStatsW0"),
    )  # fmt: skip
    return [*rows, stats]


def _arrivals(parties: Mapping[str, int]) -> str:
    if len(parties) > MANY:
        return f"all of those who wait, {sum(parties.values())}"
    softmax = [count for role, count in parties.items() if role.startswith("softmax")]
    rest = {role: count for role, count in parties.items() if not role.startswith("softmax")}
    words = [f"{role} {count}" for role, count in rest.items()]
    if softmax:
        times = f"{len(softmax)} × " if len(softmax) > 1 else ""
        words.insert(0, f"softmax {times}{softmax[0]}")
    return " + ".join(words)


def _both(waiters: Sequence[str]) -> str:
    names = ["softmax" if name.startswith("softmax") else name for name in waiters]
    names = list(dict.fromkeys(names))
    return ", ".join(names) if len(names) <= MANY else f"{names[0]}, …"
