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

from fa4sim.specs.checks import quoted, whole_between
from fa4sim.specs.faults import Fault
from fa4sim.specs.limits import (
    DYNAMIC_SCHEDULERS,
    FRAGMENT,
    MOST_KV_STAGES,
    RING_BUDGET_BYTES,
    SCHEDULERS,
    TILE_KEYS,
    TILE_ROWS,
    check_fits,
    checked_field,
    registers_left,
)
from fa4sim.specs.machine import Machine
from fa4sim.specs.problem import FP8, Problem
from fa4sim.specs.splits import resolve_splits

__all__ = ["FRAGMENT", "SCHEDULERS", "Design"]

#: Bytes of one element of a partial O, which is float32.
PARTIAL_BYTES = 4

# (CTA pair, causal, padded head dim, sm_103) -> exp2 period, first fragment, softmax and correction
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

#: Issue slots of a softmax step: addresses, the loop, barriers; and those of FP8, by how many CTAs
#: work as one. There P takes half the registers, which leaves room for addresses that the
#: compiler else computes anew in every step. Source: the kernel's machine code (ptxas 13.4).
_OVERHEAD_SLOTS = 38
_FP8_OVERHEAD_SLOTS = {1: 25, 2: 30}


@dataclass(frozen=True)
class Design:
    """One way to run a problem on a machine; all sizes per CTA.

    ``q_stages`` Q tiles of ``tile_m`` rows share every K/V block of ``tile_n`` keys. ``cta_group``
    2 is a pair of CTAs whose MMAs run in lock step. ``kv_stages`` slots of the ring hold K and V
    tiles alternately. In the fragments of a row from ``exp2_first_fragment`` on, the last one
    excepted, columns k and k + 1 (k even) run as a polynomial of degree ``exp2_degree`` on the
    FMA units if ``k mod exp2_period >= exp2_period - exp2_emulated`` (period 0: none).
    ``rescale_threshold`` is in log2 units; 0 rescales whenever a maximum grows. The first
    ``p_first_columns`` of P are handed over before the rest (``tile_n``: in one part).
    ``p_store_early`` stores each fragment as soon as it is converted, as the compiler arranges it;
    off, all exponentials come first, as the source says. Where O shares Q's memory
    (``overlap_o_q``), ``one_m_block`` says that one work tile holds all queries of a head, which
    the kernel guards like a persistent CTA, whatever the scheduler. ``kv_load`` brings K and V by
    TMA, where a page is a block or there are none, or by cp.async, row by row, with more load
    warps; ``page_pointers`` says how these find a row: ``"transposed"``, each thread for rows that
    others load, ``"naive"``, each for its own, as before pull request 2104 of flash-attention, or
    ``"looped"``, naive in loops that are not unrolled, as before pull request 2156.
    ``max_offset`` scales P up by a power of two, to use more of the range of FP8. With
    ``num_splits`` above 1 the keys of a work tile are cut into so many parts, each a tile of its
    own that leaves a partial result in float32 for the combine kernel; ``dependent_launch``
    launches that one so that its CTAs are there when attention ends (it waits by griddepcontrol;
    the kernel's own launch does not ask for it). ``softmax_overhead_slots`` are the issue slots of
    a softmax step that are neither arithmetic on scores nor statistics: addresses, the loop,
    barriers, as the compiler leaves them.

    Raises ``ValueError`` for a value outside what the kernel allows, quoting it.

    >>> Design(kv_stages=1)
    Traceback (most recent call last):
    ...
    ValueError: kv_stages=1 must be 2 to 32: between PV of one block and QK of the next the MMA \
warp holds a V and a K at once, and the kernel never makes more than 32
    """

    tile_m: int = TILE_ROWS
    tile_n: int = TILE_KEYS
    q_stages: int = 2
    cta_group: int = 1
    kv_stages: int = 3
    uneven_kv_ring: bool = False
    overlap_o_q: bool = False
    one_m_block: bool = False
    head_dim_padded: int = 128
    head_dim_v_padded: int = 128
    pack_gqa: bool = False
    q_load: str = "tma"
    kv_load: str = "tma"
    page_pointers: str = "transposed"
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
    num_splits: int = 1
    dependent_launch: bool = False
    softmax_overhead_slots: int = _OVERHEAD_SLOTS
    faults: tuple[Fault, ...] = ()

    def __post_init__(self) -> None:
        for spec in dataclasses.fields(self):
            object.__setattr__(self, spec.name, _checked(spec.name, getattr(self, spec.name)))
        if self.p_first_columns > self.tile_n:
            some = ", ".join(str(c) for c in range(FRAGMENT, self.tile_n + 1, FRAGMENT))
            raise ValueError(
                f"p_first_columns={self.p_first_columns} must be one of {some}: it is a part of "
                f"tile_n={self.tile_n} columns"
            )
        if self.uneven_kv_ring and self.kv_stages != 3:
            raise ValueError(
                f"the uneven ring has 3 slots, not kv_stages={self.kv_stages}; use kv_stages=3 or "
                "uneven_kv_ring=False"
            )
        if self.exp2_period and self.exp2_emulated > self.exp2_period:
            raise ValueError(
                f"exp2_emulated={self.exp2_emulated} of every exp2_period={self.exp2_period} "
                "columns cannot be emulated; use at most the period (period 0 switches emulation "
                "off)"
            )

    # -- the kernel's choice -------------------------------------------------------------------

    @classmethod
    def for_problem(cls, problem: Problem, machine: Machine, **changes: Any) -> Design:
        """The design the kernel would choose for ``problem`` on ``machine``, then ``changes``.

        Changing ``cta_group``, ``q_stages``, ``pack_gqa``, ``tile_n`` or a register count makes
        what depends on them follow (ring stages, registers, exponential split) unless it is given
        too. Raises ``ValueError`` for an unknown field, a value no design can have or a design
        that does not fit the machine.
        """
        _check_kinds(problem, machine)
        changes = _known(changes)
        sm103 = machine.compute_capability == 103
        d = changes.get("head_dim_padded", _round_up(problem.head_dim, 16))
        dv = changes.get("head_dim_v_padded", _round_up(problem.dim_v, 16))
        fp8 = problem.dtype in FP8
        unmasked = not problem.causal and not problem.is_local

        pack = changes.get("pack_gqa", problem.group > 1)
        rows = problem.seqlen_q * (problem.group if pack else 1)
        q_stages = changes.get("q_stages", 2 if rows > TILE_ROWS else 1)
        splits, tile_n = resolve_splits(
            problem, machine.sms, packed=pack, rows=q_stages * TILE_ROWS,
            tile_n=changes.get("tile_n", TILE_KEYS), tile_n_given="tile_n" in changes,
        )  # fmt: skip
        splits = changes.get("num_splits", splits)
        split = splits > 1
        rows_fit = not pack or TILE_ROWS % problem.group == 0
        whole_blocks = problem.page_size in (None, tile_n)
        kv_load = changes.get("kv_load", "tma" if whole_blocks else "cp_async")
        pair = (
            unmasked
            and not split
            and problem.seqlens_q is None
            and problem.page_size in (None, TILE_KEYS)
            and kv_load == "tma"
            and d in (128, 192)
            and dv == 128
            and rows > 2 * TILE_ROWS
            and rows_fit
            and machine.sms >= 2
        )
        cta_group = changes.get("cta_group", 2 if pair else 1)
        q_load = "tma" if rows_fit else "cp_async"
        by_tma = rows_fit and not (pack and split) and problem.seqlens_q is None
        epilogue = "tma" if by_tma else "correction"

        period, first = (16, 1)
        if sm103 or (d == 192 and not (cta_group == 2 and unmasked)):
            period = 0
        softmax, correction = (200, 64) if d < 96 else (192, 80)
        other: int | None = 48 if d < 96 else None
        tuned = _TUNING.get((cta_group == 2, problem.causal, d, sm103))
        if tuned:
            period, first, softmax, correction = tuned
        if kv_load == "cp_async":
            softmax, correction = 184, 64
            other = 80 if d < 96 else None
        if fp8:
            if d < 96:
                softmax, correction, other = (168, 96, 80) if kv_load == "tma" else (152, 96, 112)
            elif (cta_group == 2, problem.causal, d, sm103) == (True, False, 128, False):
                period, first, softmax, correction = 10, 1, 160, 72
            elif (cta_group == 2, problem.causal, d, sm103) == (False, True, 128, False):
                period, first = 8, 1
        if pack and d > 64 and unmasked and period:
            tuned_period = tuned[0] if tuned else 10
            period = 32 if problem.seqlens_q is not None else tuned_period
        period = changes.get("exp2_period", period)
        if other is None or "registers_softmax" in changes or "registers_correction" in changes:
            softmax = changes.get("registers_softmax", softmax)
            correction = changes.get("registers_correction", correction)
            if "registers_other" not in changes:
                other = registers_left(machine, softmax, correction, changes)

        longest = max(problem.seqlens_q or (problem.seqlen_q,)) * (problem.group if pack else 1)
        if problem.seqlens_q is not None:
            one_tile_each = longest <= q_stages * TILE_ROWS
            scheduler = "static_persistent" if one_tile_each else "single_tile_varlen"
            scheduler = "dynamic_varlen" if split else scheduler
        elif not unmasked:
            scheduler = "lpt"
        else:
            scheduler = "single_tile" if split else "static_persistent"

        values: dict[str, Any] = {
            "tile_n": tile_n,
            "q_stages": q_stages,
            "cta_group": cta_group,
            "head_dim_padded": d,
            "head_dim_v_padded": dv,
            "pack_gqa": pack,
            "one_m_block": longest <= cta_group * q_stages * TILE_ROWS and not split,
            "q_load": q_load,
            "kv_load": kv_load,
            "epilogue": epilogue,
            "scheduler": scheduler,
            "registers_softmax": softmax,
            "registers_correction": correction,
            "registers_other": other,
            "exp2_period": period,
            "exp2_emulated": min(4, period) if period else 4,
            "exp2_first_fragment": first,
            "rescale_threshold": 0.0 if fp8 else 8.0,
            "max_offset": 8 if fp8 else 0,
            "p_first_columns": int(0.75 * tile_n) // FRAGMENT * FRAGMENT,
            "num_splits": splits,
            "softmax_overhead_slots": _FP8_OVERHEAD_SLOTS[cta_group] if fp8 else _OVERHEAD_SLOTS,
        }
        overlap = changes.get("overlap_o_q", (d == 192 and dv >= 64) or (split and dv >= 128))
        values["overlap_o_q"] = overlap
        out_bytes = PARTIAL_BYTES if split else problem.out_bytes
        stages, uneven = _ring(problem, q_stages, cta_group, tile_n, d, dv, overlap, out_bytes)
        values["kv_stages"] = changes.get("kv_stages", stages)
        values["uneven_kv_ring"] = uneven and values["kv_stages"] == stages
        if values["kv_stages"] < 2:
            raise ValueError(
                f"beside Q and O of {q_stages} stages the ring gets {max(0, stages)} of the 2 "
                f"slots it needs, by the kernel's formula (budget {RING_BUDGET_BYTES:,} bytes); "
                "use fewer q_stages, a smaller tile_n, or overlap_o_q=True"
            )
        values.update(changes)
        design = cls(**values)
        design.check(problem, machine)
        return design

    def replace(self, problem: Problem, machine: Machine, **changes: Any) -> Design:
        """A what-if of this design, checked against ``problem`` and ``machine``.

        Nothing else follows from a change here. Raises ``ValueError`` as :meth:`for_problem`.
        """
        design = dataclasses.replace(self, **_known(changes))
        design.check(problem, machine)
        return design

    # -- what it needs -------------------------------------------------------------------------

    @property
    def work_rows(self) -> int:
        """Query rows of one CTA's work tile."""
        return self.q_stages * self.tile_m

    @property
    def is_dynamic(self) -> bool:
        """Whether tiles are handed out while the kernel runs."""
        return self.scheduler in DYNAMIC_SCHEDULERS

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
        return self.tile_m * self.head_dim_v_padded * self.o_element_bytes(problem)

    def o_element_bytes(self, problem: Problem) -> int:
        """Bytes of one element of what a work tile stores: partial results are float32."""
        return PARTIAL_BYTES if self.num_splits > 1 else problem.out_bytes

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

    def tmem_map(self, element_bytes: int = 2) -> dict[str, tuple[int, int]]:
        """``name -> (first column, columns)``: P of each stage lies in the upper half of its S.

        ``element_bytes`` are those of P: in FP8 it needs half the columns.
        """
        n, dv = self.tile_n, self.head_dim_v_padded
        columns: dict[str, tuple[int, int]] = {}
        p_columns = n * element_bytes // 4
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
        _check_kinds(problem, machine)
        check_fits(self, problem, machine)


def _check_kinds(problem: object, machine: object) -> None:
    """Raise ``ValueError`` for something else in the place of a problem or a machine."""
    if not isinstance(problem, Problem):
        raise ValueError(f"problem={quoted(problem)} must be a fa4sim.Problem")
    if not isinstance(machine, Machine):
        raise ValueError(f"machine={quoted(machine)} must be a fa4sim.Machine, as fa4sim.B200")


def _known(changes: dict[str, Any]) -> dict[str, Any]:
    """``changes`` with every value checked by itself. Raises ``ValueError`` for unknown fields."""
    known = [spec.name for spec in dataclasses.fields(Design)]
    for name in changes:
        if name not in known:
            raise ValueError(f"a design has no field {name!r}; it has {', '.join(sorted(known))}")
    return {name: _checked(name, value) for name, value in changes.items()}


def _checked(name: str, value: object) -> Any:
    if name == "softmax_overhead_slots":
        return whole_between(name, value, 0, 1000, "a whole step is about 500 of them")
    return checked_field(name, value)


def _ring(
    problem: Problem, q_stages: int, cta_group: int, tile_n: int, d: int, dv: int, overlap: bool,
    out_bytes: int,
) -> tuple[int, bool]:  # fmt: skip
    """The kernel's stage formula: ``(kv_stages, uneven)``.

    Source: ``_setup_attributes`` of flash_fwd_sm100.py.
    """
    q = q_stages * TILE_ROWS * d * problem.element_bytes
    o = q_stages * TILE_ROWS * dv * out_bytes
    fixed = max(q, o) if overlap else q + o
    slot = tile_n * max(d, dv) * problem.element_bytes // cta_group
    stages = min((RING_BUDGET_BYTES - fixed) // slot, MOST_KV_STAGES)
    if (d, dv) == (192, 128) and stages == 2:
        stages = 3
    return stages, (d, dv) == (192, 128) and stages == 3


def _round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple
