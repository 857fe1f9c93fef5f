"""What a design may hold, field by field, and whether it fits a problem and a machine.

Every refusal is a ``ValueError`` that quotes the value and says what is allowed or would fit.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from fa4sim.specs.checks import finite, flag, multiple_of, one_of, quoted, whole_between
from fa4sim.specs.faults import Fault
from fa4sim.specs.machine import Machine
from fa4sim.specs.problem import MOST_SPLITS, Problem

if TYPE_CHECKING:
    from fa4sim.specs.design import Design
    from fa4sim.specs.hopper import AnyDesign

#: Rows of one MMA tile per CTA, and the most keys of a K/V block.
TILE_ROWS = 128
TILE_KEYS = 128

#: Columns of a P fragment: exponentials, conversions and TMEM stores go 32 keys at a time.
FRAGMENT = 32

#: Shared memory the kernel's stage formula budgets for Q, O and the K/V ring.
RING_BUDGET_BYTES = 224 * 1024
MOST_KV_STAGES = 32

#: What ``setmaxnreg`` can set: multiples of 8 in this range.
LEAST_REGISTERS, MOST_REGISTERS = 24, 256

#: Threads of a warpgroup; a launch of 512 gives every lane of it an equal part of the registers.
WARPGROUP = 128

#: A simulation keeps a record of every work tile, and lists the K/V blocks of different tiles of a
#: head (all the same without a mask): more would take minutes and gigabytes.
MOST_TILES = 1_000_000
MOST_BLOCKS = 5_000_000

#: Base-2 logarithm of the largest finite number of each format.
_LOG2_MAX = {
    "bf16": 128 + math.log2(1 - 2**-8),
    "fp16": math.log2(65504),
    "e4m3": math.log2(448),
    "e5m2": math.log2(57344),
}

SCHEDULERS = (
    *("single_tile", "static_persistent", "lpt", "single_tile_varlen", "dynamic"),
    "dynamic_varlen",
)

#: Schedulers that serve sequences of different query lengths, and those that hand out tiles while
#: the kernel runs.
VARLEN_SCHEDULERS = ("single_tile_varlen", "dynamic_varlen")
DYNAMIC_SCHEDULERS = ("dynamic", "dynamic_varlen")


def checked_field(name: str, value: object) -> Any:
    """What the field ``name`` may hold, whatever the other fields hold."""
    if name in _CHOICES:
        return one_of(name, value, _CHOICES[name])
    if name in (
        "uneven_kv_ring",
        "overlap_o_q",
        "one_m_block",
        "pack_gqa",
        "p_store_early",
        "dependent_launch",
    ):
        return flag(name, value)
    if name == "kv_stages":
        return whole_between(
            name, value, 2, MOST_KV_STAGES,
            "between PV of one block and QK of the next the MMA warp holds a V and a K at once, "
            f"and the kernel never makes more than {MOST_KV_STAGES}",
        )  # fmt: skip
    if name in ("head_dim_padded", "head_dim_v_padded"):
        return multiple_of(16, name, value, 16, 192, "one k-step of a 16-bit MMA")
    if name.startswith("registers_"):
        return multiple_of(8, name, value, LEAST_REGISTERS, MOST_REGISTERS)
    if name == "p_first_columns":
        why = f"P is stored in fragments of {FRAGMENT} columns"
        return multiple_of(FRAGMENT, name, value, FRAGMENT, TILE_KEYS, why)
    if name in ("exp2_period", "exp2_emulated"):
        why = f"the pattern of emulated columns restarts with every fragment of {FRAGMENT}"
        return whole_between(name, value, 0, FRAGMENT, why)
    if name == "exp2_first_fragment":
        fragments = TILE_KEYS // FRAGMENT
        return whole_between(name, value, 0, fragments - 1, f"a row has {fragments} fragments")
    if name == "max_offset":
        return whole_between(name, value, 0, 127, "2^127 is the largest power of two in float32")
    if name == "num_splits":
        why = "the kernel that combines partial results weighs no more"
        return whole_between(name, value, 1, MOST_SPLITS, why)
    if name == "rescale_threshold":
        threshold = finite(name, value)
        if threshold < 0:
            raise ValueError(f"rescale_threshold={threshold} must be 0 or more")
        return threshold
    return checked_faults(value)


_CHOICES: dict[str, tuple[Any, ...]] = {
    "tile_m": (TILE_ROWS,),
    "tile_n": (64, TILE_KEYS),
    "q_stages": (1, 2),
    "cta_group": (1, 2),
    "exp2_degree": (1, 2, 3, 4, 5),
    "q_load": ("tma", "cp_async"),
    "kv_load": ("tma", "cp_async"),
    "page_pointers": ("transposed", "naive", "looped"),
    "epilogue": ("tma", "correction"),
    "scheduler": SCHEDULERS,
}


def checked_faults(value: object) -> tuple[Fault, ...]:
    """``value`` as a tuple of faults."""
    if isinstance(value, Iterable) and not isinstance(value, str):
        faults = tuple(value)
        if all(isinstance(fault, Fault) for fault in faults):
            return faults
    raise ValueError(
        f"faults={quoted(value)} must be a tuple of Fault, as (Fault('drop_arrival', 'S_full'),)"
    )


def registers_left(machine: Machine, softmax: int, correction: int, given: dict[str, Any]) -> int:
    """Registers that two softmax warpgroups and the correction leave to the other warps."""
    most = machine.registers_per_sm // WARPGROUP
    left = most - 2 * softmax - correction
    if left % 8 == 0 and LEAST_REGISTERS <= left <= MOST_REGISTERS:
        return left

    def origin(name: str) -> str:
        return "given" if name in given else "the kernel's"

    advice = "lower one of the two" if left < LEAST_REGISTERS else "raise one or give this one too"
    raise ValueError(
        f"registers_softmax={softmax} ({origin('registers_softmax')}) and "
        f"registers_correction={correction} ({origin('registers_correction')}) leave {most} - "
        f"2 x {softmax} - {correction} = {left} for registers_other, which must be a multiple of 8 "
        f"from {LEAST_REGISTERS} to {MOST_REGISTERS}; {advice}"
    )


def check_fits(design: Design, problem: Problem, machine: Machine) -> None:
    """Raise ``ValueError`` with the figures, and what would fit, if this cannot run."""
    _check_head_dims(design, problem)
    _check_smem(design, problem, machine)
    _check_tmem(design, machine)
    _check_registers(design, machine)
    _check_pairs(design, problem, machine)
    _check_pages(design, problem)
    _check_heads(design, problem)
    _check_splits(design, problem)
    _check_lengths(design, problem)
    check_size(design, problem)
    _check_range(design, problem)
    _check_faults(design)


def _check_head_dims(design: Design, problem: Problem) -> None:
    if problem.head_dim > design.head_dim_padded or problem.dim_v > design.head_dim_v_padded:
        raise ValueError(
            f"head dims ({problem.head_dim}, {problem.dim_v}) exceed the design's "
            f"({design.head_dim_padded}, {design.head_dim_v_padded}); make head_dim_padded and "
            "head_dim_v_padded at least as large"
        )
    if design.uneven_kv_ring and (design.head_dim_padded, design.head_dim_v_padded) != (192, 128):
        raise ValueError(
            "the uneven ring is laid out for head dims (192, 128) only, not "
            f"({design.head_dim_padded}, {design.head_dim_v_padded}); use uneven_kv_ring=False"
        )


def _check_smem(design: Design, problem: Problem, machine: Machine) -> None:
    smem = design.smem_bytes(problem)
    total, most = sum(smem.values()), machine.smem_bytes_per_cta
    if total <= most:
        return
    parts = ", ".join(f"{name} {size:,}" for name, size in smem.items() if size)
    fixed = total - smem["ring"]
    slot = max(design.k_tile_bytes(problem), design.v_tile_bytes(problem))
    fits = max(0, (most - fixed) // slot)
    advice = f"kv_stages up to {fits} would fit"
    if (design.head_dim_padded, design.head_dim_v_padded, fits) == (192, 128, 2):
        advice += " (3 with uneven_kv_ring=True)"
    if fits < 2:
        advice = f"{fits} of the 2 ring slots that are needed would fit, so use "
        advice += "q_stages=1, " if design.q_stages == 2 else ""
        advice += "overlap_o_q=True or " if not design.overlap_o_q else ""
        advice += "a smaller tile_n" if design.tile_n > 64 else "a smaller head_dim"
    raise ValueError(
        f"this design needs {total:,} bytes of shared memory ({parts}) and a CTA has {most:,}; "
        f"with everything else as it is, {advice}"
    )


def _check_tmem(design: Design, machine: Machine) -> None:
    columns = max(first + width for first, width in design.tmem_map().values())
    if columns > machine.tmem_columns:
        fits = (machine.tmem_columns - 2 * design.tile_n) // design.q_stages // 16 * 16
        raise ValueError(
            f"this design needs {columns} TMEM columns (2 x {design.tile_n} for S, "
            f"{design.q_stages} x {design.head_dim_v_padded} for O) and an SM has "
            f"{machine.tmem_columns}; use fewer q_stages or a head_dim_v up to {max(0, fits)}"
        )


def _check_registers(design: Design, machine: Machine) -> None:
    lanes = 2 * design.registers_softmax + design.registers_correction + design.registers_other
    most = machine.registers_per_sm // WARPGROUP
    if lanes > most:
        raise ValueError(
            f"registers: 2 x {design.registers_softmax} (softmax) + {design.registers_correction} "
            f"(correction) + {design.registers_other} (other) = {lanes}, and an SM has {most} "
            f"per lane of its four warpgroups; take {lanes - most} away somewhere"
        )


def _check_pairs(design: Design, problem: Problem, machine: Machine) -> None:
    if machine.sms < design.cta_group:
        raise ValueError(
            f"cta_group={design.cta_group} needs {design.cta_group} SMs and machine "
            f"{machine.name!r} has {machine.sms}; use cta_group=1"
        )
    if design.cta_group == 1:
        return
    if design.q_load != "tma" or design.epilogue != "tma":
        raise ValueError(
            f"cta_group=2 needs TMA for Q and O, not q_load={design.q_load!r} with "
            f"epilogue={design.epilogue!r}; a problem that rules TMA out (variable query lengths, "
            "a head group that does not divide 128) runs with cta_group=1"
        )
    if design.kv_load != "tma" or problem.page_size not in (None, TILE_KEYS):
        raise ValueError(
            f"cta_group=2 needs K and V by TMA in one piece or in pages of {TILE_KEYS}, not "
            f"kv_load={design.kv_load!r} with page_size={problem.page_size}; use cta_group=1"
        )
    if problem.causal or problem.is_local:
        raise ValueError(
            "cta_group=2 is modelled for unmasked attention, where the kernel uses it; "
            "use cta_group=1 with causal or window"
        )


def _check_pages(design: Design, problem: Problem) -> None:
    page = problem.page_size
    if design.kv_load == "tma":
        if page not in (None, design.tile_n):
            raise ValueError(
                f"kv_load='tma' copies whole blocks, so a page must be one: page_size={page} is "
                f"not tile_n={design.tile_n}; use kv_load='cp_async' or page_size={design.tile_n}"
            )
        return
    if page is None:
        raise ValueError(
            "kv_load='cp_async' gathers rows by a page table and there is none; give the problem "
            "a page_size, or use kv_load='tma'"
        )
    dims = (problem.head_dim, problem.dim_v)
    padded = (design.head_dim_padded, design.head_dim_v_padded)
    if dims != padded:
        step = 16 if any(dim % 16 for dim in dims) else 32  # a kernel may pad FP8 so far
        raise ValueError(
            f"kv_load='cp_async' copies whole rows, so head dims {dims} must be multiples of "
            f"{step}, as {padded}; use those, or page_size={design.tile_n} and kv_load='tma'"
        )
    if design.scheduler == "dynamic":
        raise ValueError(
            "scheduler='dynamic' needs K and V by TMA: cluster launch control is switched off "
            f"with kv_load='cp_async'; use single_tile, or page_size={design.tile_n}"
        )


def _check_heads(design: Design, problem: Problem) -> None:
    if not design.pack_gqa:
        return
    if problem.group == 1:
        raise ValueError(
            f"pack_gqa packs the query heads of a group, but heads == kv_heads == "
            f"{problem.heads}; use pack_gqa=False"
        )
    if design.tile_m % problem.group == 0:
        return
    for name, without in (("epilogue", "correction"), ("q_load", "cp_async")):
        if getattr(design, name) == "tma":
            raise ValueError(
                f"{name}='tma' needs a packed head group that divides {design.tile_m}, not "
                f"{problem.group}; use {name}={without!r} or pack_gqa=False"
            )


def _check_splits(design: Design, problem: Problem) -> None:
    if design.num_splits == 1:
        return
    splits = f"num_splits={design.num_splits}"
    if design.head_dim_v_padded >= 192:
        raise ValueError(
            f"{splits} with head_dim_v_padded={design.head_dim_v_padded}: the kernel splits keys "
            "up to a padded head_dim_v of 176 only, as partial results are float32; use "
            "num_splits=1 or a smaller head_dim_v_padded"
        )
    if design.uneven_kv_ring:
        raise ValueError(
            f"{splits} with uneven_kv_ring=True: head dims (192, 128) are split with an even ring "
            "of tile_n=64 only; use num_splits=1 or tile_n=64"
        )
    if design.cta_group == 2:
        raise ValueError(
            f"{splits} with cta_group=2: the kernel splits keys among single CTAs only; use "
            "cta_group=1 or num_splits=1"
        )
    if design.scheduler == "static_persistent" or design.one_m_block:
        persistent = "one_m_block=True" if design.one_m_block else "scheduler='static_persistent'"
        raise ValueError(
            f"{splits} with {persistent}: a CTA that splits keys runs one tile and ends; use "
            "num_splits=1, or scheduler='single_tile' with one_m_block=False"
        )
    if design.pack_gqa and design.epilogue == "tma":
        raise ValueError(
            f"{splits} with pack_gqa=True and epilogue='tma': partial results of packed heads are "
            "stored by the correction warps; use epilogue='correction' or pack_gqa=False"
        )


def _check_lengths(design: Design, problem: Problem) -> None:
    varlen = problem.seqlens_q is not None
    longest = max(problem.seqlens_q or (0,)) * (problem.group if design.pack_gqa else 1)
    if varlen and design.scheduler == "static_persistent":
        if longest > design.work_rows:
            raise ValueError(
                f"scheduler='static_persistent' serves variable query lengths of one work tile "
                f"each, at most {design.work_rows} rows, and the longest has {longest}; use "
                "single_tile_varlen"
            )
    elif (design.scheduler in VARLEN_SCHEDULERS) != varlen:
        others = [name for name in SCHEDULERS if (name in VARLEN_SCHEDULERS) == varlen]
        raise ValueError(
            f"scheduler={design.scheduler!r} does not serve {'variable' if varlen else 'equal'} "
            f"query lengths; use one of {', '.join(others)}"
        )
    if varlen and design.epilogue == "tma":
        raise ValueError("epilogue='tma' cannot clip variable query lengths; use 'correction'")


def check_size(design: AnyDesign, problem: Problem) -> None:
    """Refuse what would keep a computer busy for hours."""
    tiles, blocks = _records(design, problem)
    if tiles > MOST_TILES:
        raise ValueError(
            f"batch {problem.batch}, {problem.heads} heads and seqlen_q {problem.seqlen_q} make "
            f"{tiles:,} work tiles; at most {MOST_TILES:,} are simulated, so lower one of them"
        )
    if blocks > MOST_BLOCKS:
        raise ValueError(
            f"seqlen_q {problem.seqlen_q} and seqlen_k {problem.seqlen_k} make {blocks:,} K/V "
            f"blocks over the tiles of a head; at most {MOST_BLOCKS:,} are simulated, so lower one "
            "of them"
        )


def _records(design: AnyDesign, problem: Problem) -> tuple[int, int]:
    """Work tiles of the grid, and K/V blocks of the different tiles of one head."""
    group = problem.group if design.pack_gqa else 1
    rows = design.work_rows * design.cta_group
    tiles = blocks = 0
    for index in range(problem.batch if problem.varlen else 1):
        queries, keys = problem.lengths(index)
        here = -(-queries * group // rows)
        tiles += here
        if problem.causal or problem.is_local:
            seen = problem.visible_pairs(queries, keys) * group
            blocks += here + seen // (rows * design.tile_n)
        else:
            blocks += -(-keys // design.tile_n)
    batch = 1 if problem.varlen else problem.batch
    return tiles * batch * (problem.heads // group), blocks


def _check_range(design: Design, problem: Problem) -> None:
    """The largest P is 2 to the power of threshold and offset; it must be a number."""
    exponent, most = design.rescale_threshold + design.max_offset, _LOG2_MAX[problem.dtype]
    if exponent >= most:
        raise ValueError(
            f"rescale_threshold={design.rescale_threshold:g} and max_offset={design.max_offset} "
            f"let P grow to 2^{exponent:g}, and {problem.dtype} ends below 2^{most:.3f}; make "
            "their sum smaller"
        )


def _check_faults(design: Design) -> None:
    for fault in design.faults:
        if fault.kind != "swap_slots":
            continue
        if design.kv_stages < 3:
            raise ValueError(
                "swap_slots exchanges a slot with the next but one, so it needs 3 slots or "
                f"more, not kv_stages={design.kv_stages}"
            )
        if fault.stage is not None and fault.stage >= design.kv_stages:
            raise ValueError(
                f"swap_slots: the ring has slots 0 to {design.kv_stages - 1} in this design, "
                f"not stage={fault.stage}"
            )
