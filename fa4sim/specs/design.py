"""How the kernel does it: tiles, stages, registers, the exponential's split, the scheduler.

:meth:`Design.for_problem` applies the kernel's own selection rules, as they stand in
``flash_attn/cute`` of flash-attention at commit 0251105a (``flash-attn-4==4.0.0b27``).
``dataclasses.replace`` or :meth:`Design.replace` makes a what-if; every design is checked against
the machine's shared memory, tensor memory and registers before it runs.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from fa4sim.specs.faults import Fault
from fa4sim.specs.machine import Machine
from fa4sim.specs.problem import FP8, Problem

#: Rows of one MMA tile per CTA, and the most keys of a K/V block.
TILE_ROWS = 128
TILE_KEYS = 128

#: Columns of a P fragment: exponentials, conversions and TMEM stores go 32 keys at a time.
FRAGMENT = 32

#: Shared memory the kernel's stage formula budgets for Q, O and the K/V ring.
RING_BUDGET_BYTES = 224 * 1024
MOST_KV_STAGES = 32

SCHEDULERS = ("single_tile", "static_persistent", "lpt", "single_tile_varlen", "dynamic")

# (CTA pair, causal, padded head dim, B300) -> exp2 period, first fragment, softmax and correction
# registers. Source: _TUNING_CONFIG of flash_fwd_sm100.py.
_TUNING: dict[tuple[bool, bool, int, bool], tuple[int, int, int, int]] = {
    (True, False, 128, False): (10, 1, 176, 88),
    (False, True, 128, False): (16, 1, 192, 72),
    (True, False, 192, False): (16, 0, 184, 80),
    (False, True, 192, False): (32, 1, 192, 72),
    (True, False, 128, True): (0, 0, 176, 80),
    (False, True, 128, True): (0, 0, 176, 64),
    (True, False, 192, True): (0, 0, 176, 64),
    (False, True, 192, True): (0, 0, 176, 72),
}


@dataclass(frozen=True)
class Design:
    """One way to run a problem on a machine; all sizes per CTA.

    ``q_stages`` Q tiles of ``tile_m`` rows share every K/V block of ``tile_n`` keys. ``cta_group``
    2 is a pair of CTAs whose MMAs run in lock step. ``kv_stages`` slots of the ring hold K and V
    tiles alternately. Every ``exp2_period`` columns of a fragment the last ``exp2_emulated`` run
    as a polynomial of degree ``exp2_degree`` on the FMA units, from fragment
    ``exp2_first_fragment`` on and never in the last one (0 switches it off).
    ``rescale_threshold`` is in log2 units; 0 rescales whenever a maximum grows. The first
    ``p_first_columns`` of P are handed over before the rest (``tile_n``: in one part).
    ``p_store_early`` stores each fragment as soon as it is converted, as the compiler arranges it;
    off, all exponentials come first, as the source says.

    Raises ``ValueError`` for a value outside what the kernel allows.
    """

    tile_m: int = TILE_ROWS
    tile_n: int = TILE_KEYS
    q_stages: int = 2
    cta_group: int = 1
    kv_stages: int = 3
    uneven_kv_ring: bool = False
    overlap_o_q: bool = False
    head_dim_padded: int = 128
    head_dim_v_padded: int = 128
    pack_gqa: bool = False
    q_load: str = "tma"
    epilogue: str = "tma"
    scheduler: str = "single_tile"
    registers_softmax: int = 192
    registers_correction: int = 80
    registers_other: int = 48
    exp2_period: int = 16
    exp2_emulated: int = 4
    exp2_first_fragment: int = 1
    exp2_degree: int = 3
    rescale_threshold: float = 8.0
    p_first_columns: int = 96
    p_store_early: bool = True
    max_offset: int = 0
    faults: tuple[Fault, ...] = ()

    def __post_init__(self) -> None:
        self._one_of("q_stages", (1, 2))
        self._one_of("cta_group", (1, 2))
        self._one_of("tile_m", (TILE_ROWS,))
        self._one_of("tile_n", (64, TILE_KEYS))
        self._one_of("q_load", ("tma", "cp_async"))
        self._one_of("epilogue", ("tma", "correction"))
        self._one_of("scheduler", SCHEDULERS)
        self._one_of("exp2_degree", (1, 2, 3, 4, 5))
        if self.tile_n % FRAGMENT or self.p_first_columns not in range(
            FRAGMENT, self.tile_n + 1, FRAGMENT
        ):
            some = ", ".join(str(c) for c in range(FRAGMENT, self.tile_n + 1, FRAGMENT))
            raise ValueError(
                f"p_first_columns={self.p_first_columns} must be one of {some}: P is stored in "
                f"fragments of {FRAGMENT} columns"
            )
        if not 2 <= self.kv_stages <= MOST_KV_STAGES:
            raise ValueError(
                f"kv_stages={self.kv_stages} must be 2 to {MOST_KV_STAGES}: between PV of one "
                "block and QK of the next the MMA warp holds a V and a K at once"
            )
        if self.uneven_kv_ring and self.kv_stages != 3:
            raise ValueError(f"the uneven ring has 3 slots, not kv_stages={self.kv_stages}")
        if self.exp2_period < 0 or not 0 <= self.exp2_emulated <= max(self.exp2_period, 4):
            raise ValueError(
                f"exp2_period={self.exp2_period} with exp2_emulated={self.exp2_emulated}: emulate "
                "at most as many columns as the period has (period 0 switches emulation off)"
            )
        if self.rescale_threshold < 0:
            raise ValueError(f"rescale_threshold={self.rescale_threshold} must be 0 or more")
        for name in ("registers_softmax", "registers_correction", "registers_other"):
            value = getattr(self, name)
            if value % 8 or not 24 <= value <= 256:
                raise ValueError(f"{name}={value} must be a multiple of 8 from 24 to 256")

    def _one_of(self, name: str, allowed: tuple[Any, ...]) -> None:
        if getattr(self, name) not in allowed:
            raise ValueError(
                f"{name}={getattr(self, name)!r} must be one of {', '.join(map(str, allowed))}"
            )

    # -- the kernel's choice -------------------------------------------------------------------

    @classmethod
    def for_problem(cls, problem: Problem, machine: Machine, **changes: Any) -> Design:
        """The design the kernel would choose for ``problem`` on ``machine``, then ``changes``.

        Changing ``cta_group``, ``q_stages``, ``pack_gqa`` or ``tile_n`` makes what depends on
        them follow (ring stages, registers, exponential split) unless it is given too.
        Raises ``ValueError`` for an unknown field or a design that does not fit the machine.
        """
        known = {spec.name for spec in dataclasses.fields(cls)}
        for name in changes:
            if name not in known:
                raise ValueError(
                    f"a design has no field {name!r}; it has {', '.join(sorted(known))}"
                )
        fast_exp2 = machine.mufu_cycles_per_warp <= 4
        d = _round_up(problem.head_dim, 16)
        dv = _round_up(problem.dim_v, 16)
        fp8 = problem.dtype in FP8
        unmasked = not problem.causal and not problem.is_local

        pack = bool(changes.get("pack_gqa", problem.group > 1))
        if pack and problem.group == 1:
            raise ValueError("pack_gqa packs the query heads of a group, but heads == kv_heads")
        rows = problem.seqlen_q * (problem.group if pack else 1)
        q_stages = int(changes.get("q_stages", 2 if rows > TILE_ROWS else 1))
        tile_n = int(changes.get("tile_n", TILE_KEYS))
        rows_fit = not pack or TILE_ROWS % problem.group == 0
        pair = (
            unmasked
            and problem.seqlens_q is None
            and d in (128, 192)
            and dv == 128
            and rows > 2 * TILE_ROWS
            and rows_fit
        )
        cta_group = int(changes.get("cta_group", 2 if pair else 1))
        overlap = d == 192 and dv >= 64
        q_load = "tma" if rows_fit else "cp_async"
        epilogue = "tma" if rows_fit and problem.seqlens_q is None else "correction"

        period, first = (16, 1)
        if fast_exp2 or (d == 192 and not (cta_group == 2 and unmasked)):
            period = 0
        softmax, correction = (200, 64) if d < 96 else (192, 80)
        other: int | None = 48 if d < 96 else None
        tuned = _TUNING.get((cta_group == 2, problem.causal, d, fast_exp2))
        if tuned:
            period, first, softmax, correction = tuned
        if fp8:
            if d < 96:
                softmax, correction, other = 168, 96, 80
            elif (cta_group == 2, problem.causal, d, fast_exp2) == (True, False, 128, False):
                period, first, softmax, correction = 10, 1, 160, 72
            elif (cta_group == 2, problem.causal, d, fast_exp2) == (False, True, 128, False):
                period, first = 8, 1
        if pack and d > 64 and unmasked and period:
            tuned_period = tuned[0] if tuned else 10
            period = 32 if problem.seqlens_q is not None else tuned_period
        softmax = int(changes.get("registers_softmax", softmax))
        correction = int(changes.get("registers_correction", correction))
        if other is None or "registers_softmax" in changes or "registers_correction" in changes:
            other = 512 - 2 * softmax - correction

        if problem.seqlens_q is not None:
            scheduler = "single_tile_varlen"
        elif not unmasked:
            scheduler = "lpt"
        else:
            scheduler = "static_persistent"

        values: dict[str, Any] = {
            "tile_n": tile_n,
            "q_stages": q_stages,
            "cta_group": cta_group,
            "overlap_o_q": overlap,
            "head_dim_padded": d,
            "head_dim_v_padded": dv,
            "pack_gqa": pack,
            "q_load": q_load,
            "epilogue": epilogue,
            "scheduler": scheduler,
            "registers_softmax": softmax,
            "registers_correction": correction,
            "registers_other": other,
            "exp2_period": period,
            "exp2_first_fragment": first,
            "rescale_threshold": 0.0 if fp8 else 8.0,
            "max_offset": 8 if fp8 else 0,
            "p_first_columns": int(0.75 * tile_n) // FRAGMENT * FRAGMENT,
        }
        overlap = bool(changes.get("overlap_o_q", overlap))
        stages, uneven = _ring(problem, q_stages, cta_group, tile_n, d, dv, overlap)
        values["kv_stages"], values["uneven_kv_ring"] = stages, uneven
        if "kv_stages" in changes and changes["kv_stages"] != stages:
            values["uneven_kv_ring"] = False
        values.update(changes)
        design = cls(**values)
        design.check(problem, machine)
        return design

    def replace(self, problem: Problem, machine: Machine, **changes: Any) -> Design:
        """A what-if of this design, checked against ``problem`` and ``machine``."""
        design = dataclasses.replace(self, **changes)
        design.check(problem, machine)
        return design

    # -- what it needs -------------------------------------------------------------------------

    @property
    def work_rows(self) -> int:
        """Query rows of one CTA's work tile."""
        return self.q_stages * self.tile_m

    @property
    def threads(self) -> int:
        """Threads of a CTA: sixteen warps, whatever their roles."""
        return 512

    def q_tile_bytes(self, problem: Problem) -> int:
        """Bytes of one Q tile in one CTA's shared memory."""
        return self.tile_m * self.head_dim_padded * problem.element_bytes

    def k_tile_bytes(self, problem: Problem) -> int:
        """Bytes of a K tile in one CTA's shared memory: a pair holds half the rows each."""
        return self.tile_n * self.head_dim_padded * problem.element_bytes // self.cta_group

    def v_tile_bytes(self, problem: Problem) -> int:
        """Bytes of a V tile in one CTA's shared memory: a pair holds half the columns each."""
        return self.tile_n * self.head_dim_v_padded * problem.element_bytes // self.cta_group

    def o_tile_bytes(self, problem: Problem) -> int:
        """Bytes of one O tile in shared memory."""
        return self.tile_m * self.head_dim_v_padded * problem.out_bytes

    def ring_slots(self, problem: Problem) -> list[tuple[tuple[int, int], tuple[int, int]]]:
        """``(offset, size)`` in bytes of every ring slot, for even and odd wraps.

        Entry ``i`` is ``((offset, size) on even wraps, (offset, size) on odd wraps)``; the size is
        that of the tile the slot then holds. In the uneven ring of (192, 128) the middle slot
        shifts, so that large and small tiles interlock; everywhere else both are the same.
        """
        k, v = self.k_tile_bytes(problem), self.v_tile_bytes(problem)
        if not self.uneven_kv_ring:
            stride = max(k, v)
            return [((i * stride, stride), (i * stride, stride)) for i in range(self.kv_stages)]
        nominal = (k + v) // 2
        shift = (k - v) // 2
        even = [(0, k), (nominal + shift, v), (2 * nominal, k)]
        odd = [(0, v), (nominal - shift, k), (2 * nominal, v)]
        return list(zip(even, odd, strict=True))

    def smem_bytes(self, problem: Problem) -> dict[str, int]:
        """Shared memory by part: Q, O (0 if it shares Q's), ring, statistics, barriers."""
        q = self.q_stages * self.q_tile_bytes(problem)
        o = self.q_stages * self.o_tile_bytes(problem)
        ring = max(offset + size for slot in self.ring_slots(problem) for offset, size in slot)
        barriers = 2 * (5 * self.q_stages + self.kv_stages + 2) + 4 + 1 + 2
        return {
            "Q": max(q, o) if self.overlap_o_q else q,
            "O": 0 if self.overlap_o_q else o,
            "ring": ring,
            "statistics": self.q_stages * self.tile_m * 2 * 4,
            "barriers": _round_up(8 * barriers + 8 + 16, 1024),
        }

    def tmem_map(self) -> dict[str, tuple[int, int]]:
        """``name -> (first column, columns)``: S and P of each stage share columns."""
        n, dv = self.tile_n, self.head_dim_v_padded
        columns: dict[str, tuple[int, int]] = {}
        p_columns = n // 2
        for stage in range(self.q_stages):
            columns[f"S{stage}"] = (stage * n, n)
            columns[f"P{stage}"] = (stage * n + n // 2, p_columns)
            columns[f"O{stage}"] = (2 * n + stage * dv, dv)
        return columns

    def emulated_in_fragment(self, fragment: int) -> int:
        """How many of a fragment's 32 exponentials per row run as a polynomial."""
        last = self.tile_n // FRAGMENT - 1
        if self.exp2_period == 0 or not self.exp2_first_fragment <= fragment < last:
            return 0
        keep = self.exp2_period - self.exp2_emulated
        return 2 * sum(1 for k in range(0, FRAGMENT, 2) if k % self.exp2_period >= keep)

    @property
    def emulated_share(self) -> float:
        """Fraction of a row's exponentials that run as a polynomial."""
        fragments = self.tile_n // FRAGMENT
        return sum(self.emulated_in_fragment(f) for f in range(fragments)) / self.tile_n

    def check(self, problem: Problem, machine: Machine) -> None:
        """Raise ``ValueError`` with the figures, and what would fit, if this cannot run."""
        smem = self.smem_bytes(problem)
        total = sum(smem.values())
        if total > machine.smem_bytes_per_cta:
            parts = ", ".join(f"{name} {size:,}" for name, size in smem.items() if size)
            fixed = total - smem["ring"]
            slot = max(self.k_tile_bytes(problem), self.v_tile_bytes(problem))
            fits = max(0, (machine.smem_bytes_per_cta - fixed) // slot)
            raise ValueError(
                f"this design needs {total:,} bytes of shared memory ({parts}) and a CTA has "
                f"{machine.smem_bytes_per_cta:,}; with everything else as it is, kv_stages up to "
                f"{fits} would fit"
            )
        columns = max(first + width for first, width in self.tmem_map().values())
        if columns > machine.tmem_columns:
            raise ValueError(
                f"this design needs {columns} TMEM columns (S, O of {self.q_stages} stages, "
                f"head_dim_v {self.head_dim_v_padded}) and an SM has {machine.tmem_columns}; "
                "use fewer q_stages or a smaller head_dim_v"
            )
        lanes = 2 * self.registers_softmax + self.registers_correction + self.registers_other
        most = machine.registers_per_sm // 128
        if lanes > most:
            raise ValueError(
                f"registers: 2 x {self.registers_softmax} (softmax) + {self.registers_correction} "
                f"(correction) + {self.registers_other} (other) = {lanes}, and an SM has {most} "
                "per lane of its four warpgroups; lower one of them"
            )
        if problem.head_dim > self.head_dim_padded or problem.dim_v > self.head_dim_v_padded:
            raise ValueError(
                f"head dims ({problem.head_dim}, {problem.dim_v}) exceed the design's "
                f"({self.head_dim_padded}, {self.head_dim_v_padded})"
            )
        if self.uneven_kv_ring and (self.head_dim_padded, self.head_dim_v_padded) != (192, 128):
            raise ValueError("the uneven ring is laid out for head dims (192, 128) only")
        if self.cta_group == 2:
            if self.q_load != "tma" or self.epilogue != "tma":
                raise ValueError(
                    "cta_group=2 needs TMA for Q and O; this problem (variable query lengths, or "
                    "a head group that does not divide 128) runs with cta_group=1"
                )
            if self.scheduler in ("single_tile_varlen",):
                raise ValueError("cta_group=2 does not combine with variable query lengths")
            if problem.causal or problem.is_local:
                raise ValueError(
                    "cta_group=2 is modelled for unmasked attention, where the kernel uses it; "
                    "use cta_group=1 with causal or window"
                )
        if (self.scheduler == "single_tile_varlen") != (problem.seqlens_q is not None):
            raise ValueError(
                f"scheduler={self.scheduler!r} does not serve "
                f"{'variable' if problem.seqlens_q else 'equal'} query lengths; use "
                f"{'single_tile_varlen' if problem.seqlens_q else 'one of the others'}"
            )
        if problem.seqlens_q is not None and self.epilogue == "tma":
            raise ValueError("epilogue='tma' cannot clip variable query lengths; use 'correction'")
        if self.epilogue == "tma" and self.pack_gqa and self.tile_m % problem.group:
            raise ValueError(
                f"epilogue='tma' needs a head group that divides 128, not {problem.group}; "
                "use 'correction'"
            )


def _ring(
    problem: Problem, q_stages: int, cta_group: int, tile_n: int, d: int, dv: int, overlap: bool
) -> tuple[int, bool]:
    """The kernel's stage formula: ``(kv_stages, uneven)``.

    Source: ``_setup_attributes`` of flash_fwd_sm100.py.
    """
    q = q_stages * TILE_ROWS * d * problem.element_bytes
    o = q_stages * TILE_ROWS * dv * problem.out_bytes
    fixed = max(q, o) if overlap else q + o
    slot = tile_n * max(d, dv) * problem.element_bytes // cta_group
    stages = min((RING_BUDGET_BYTES - fixed) // slot, MOST_KV_STAGES)
    if (d, dv) == (192, 128) and stages == 2:
        stages = 3
    return stages, (d, dv) == (192, 128) and stages == 3


def _round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple
