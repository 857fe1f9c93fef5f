"""What each piece of a step costs: instruction counts times unit rates, plus latencies.

The counts are those of the source, checked against the compiled kernel (``flash-attn-4`` 4.0.0b27
for sm_100a, ptxas 13.0 and 13.4): a steady softmax step of the 1-CTA causal kernel is 514
instructions per warp, of the CTA pair 546 beside 39 that spill; in FP8 562 causal, 498 full and 535
of the pair (ptxas 13.4). Every thread owns one row, so 128 columns make 64 packed multiply-adds, 66
maxima, 128 exponentials, 64 conversions of pairs and 64 packed adds. What the compiler decides and
the source leaves open is taken from there too: how many TMEM loads are in flight, that P is stored
fragment by fragment, that the statistics are signalled behind the first exponentials. Nothing here
is a measured step time.

Softmax arithmetic is handed to the units in groups of eight columns, the grain at which two warps
of a sub-partition alternate on its MUFU.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import pairwise

from fa4sim.engine.units import Group
from fa4sim.specs import FP8, FRAGMENT, Design, Machine, Problem

GROUP = 8
#: Does a row keep its old maximum? A comparison, and selects of maximum, difference and factor.
KEEP_TEST = 4
LANES = 32
WORD = 4


@dataclass(frozen=True)
class SoftmaxCosts:
    """One softmax step of one warp."""

    load_cycles: int
    """TMEM port time of one load of 32 columns."""
    load_latency: int
    loads_in_flight: int
    loads_in_flight_masked: int
    softcap: tuple[Group, ...]
    """Per 32 columns, as are ``mask`` and ``row_max``."""
    mask: tuple[Group, ...]
    row_max: tuple[Group, ...]
    row_max_by_load: bool
    stats: Group
    stats_latency: int
    groups_before_stats: int
    """Groups of exponentials that the compiler puts before the signal to the correction."""
    fragments: tuple[tuple[Group, ...], ...]
    exp2_latency: int
    store_cycles: int
    store_latency: int
    store_issue: int
    row_sum: tuple[Group, ...]
    overhead: Group


@dataclass(frozen=True)
class CorrectionCosts:
    """What one warp of the correction role does per step and per tile."""

    read_cycles: int
    chunks: int
    rescale_load: int
    rescale_store: int
    rescale_latency: int
    rescale_group: Group
    final_chunks: int
    final_port: int
    final_latency: int
    loads_in_flight: int
    final_group: Group
    final_smem: int
    final_scalar: int
    lse_cycles: int
    gmem_chunks: int
    gmem_smem: int
    gmem_latency: int


@dataclass(frozen=True)
class MmaCosts:
    """One k-step of each GEMM, in one SM."""

    qk_steps: int
    qk_cycles: int
    qk_smem: int
    pv_steps: int
    pv_first: int
    pv_cycles: int
    pv_smem: int
    resume: int
    """From a wait's return to the first MMA it allowed."""


def spread(total: float, parts: int) -> list[int]:
    """``total`` cycles over ``parts`` whole numbers that add up to its rounding.

    >>> spread(8.53 * 4, 4)
    [9, 8, 9, 8]
    """
    edges = [round(total * i / parts) for i in range(parts + 1)]
    return [b - a for a, b in pairwise(edges)]


def softmax_costs(problem: Problem, design: Design, machine: Machine) -> SoftmaxCosts:
    """Costs of a softmax step; see the module for the counts."""
    group = partial(Group, factor=machine.beside_mma_factor)
    n = design.tile_n
    fragments = n // FRAGMENT
    packed = machine.fma_packed_cycles_per_warp
    p_bytes = 1 if problem.dtype in FP8 else 2

    row_bytes = LANES * WORD
    operands = machine.max_operands_per_instruction - 1
    maxima = FRAGMENT / operands
    mask_alu = spread(n * machine.mask_cycles_per_element, fragments)
    max_alu = spread(n / operands * machine.alu_cycles_per_warp, fragments)
    sum_fma = spread(n / 2 * packed, 2)

    softcap: tuple[Group, ...] = ()
    if problem.softcap:
        # Per pair: two packed multiplies (into and out of the cap) and two MUFU.TANH.
        mufu = spread(n * machine.mufu_cycles_per_warp, fragments)
        fma = spread(n / 2 * 2 * packed, fragments)
        softcap = tuple(group(2 * FRAGMENT, mufu=m, fma=f) for m, f in zip(mufu, fma, strict=True))

    groups = FRAGMENT // GROUP
    scale = spread(n / 2 * packed, n // GROUP)
    convert = spread(n / 2 * machine.convert_cycles_per_warp, n // GROUP)
    rows = []
    index = 0
    for fragment in range(fragments):
        row = []
        for part in range(groups):
            emulated = _emulated(design, fragment, part)
            hardware = GROUP - emulated
            row.append(
                group(
                    issue=round(
                        GROUP / 2  # scale and subtract
                        + hardware
                        + emulated * machine.exp2_polynomial_issue_slots
                        + GROUP / 2  # conversions
                    ),
                    mufu=round(hardware * machine.mufu_cycles_per_warp),
                    fma=scale[index]
                    + round(emulated * machine.exp2_polynomial_fma_cycles_per_warp),
                    alu=convert[index] + round(emulated * machine.alu_cycles_per_warp),
                )
            )
            index += 1
        rows.append(tuple(row))

    dependent = machine.dependent_issue_cycles
    keeps = design.rescale_threshold > 0
    return SoftmaxCosts(
        load_cycles=-(-FRAGMENT * row_bytes // machine.tmem_load_bytes_per_cycle),
        load_latency=machine.tmem_load_latency_cycles,
        loads_in_flight=4 if problem.dtype in FP8 else 3,
        loads_in_flight_masked=2,
        softcap=softcap,
        mask=tuple(group(FRAGMENT * 2, alu=alu) for alu in mask_alu),
        row_max=tuple(group(round(maxima), alu=alu) for alu in max_alu),
        # tcgen05.ld.red: not with a score modifier, and not for head dim 32.
        row_max_by_load=machine.compute_capability == 103
        and not problem.softcap
        and design.head_dim_padded != 32,
        stats=group(
            issue=10 + KEEP_TEST * keeps,
            mufu=round(machine.mufu_cycles_per_warp),
            fma=round(4 * machine.fma_cycles_per_warp),
            alu=round((2 + KEEP_TEST * keeps) * machine.alu_cycles_per_warp),
        ),
        # Four chains merge, the old maximum joins, is compared with -inf, difference, scale, exp2;
        # and where a row may keep its old maximum, the factor is selected.
        stats_latency=(7 + keeps) * dependent + machine.mufu_latency_cycles,
        groups_before_stats=2,
        fragments=tuple(rows),
        exp2_latency=machine.mufu_latency_cycles + dependent,
        store_cycles=max(1, -(-LANES * FRAGMENT * p_bytes // machine.tmem_store_bytes_per_cycle)),
        store_latency=machine.tmem_store_latency_cycles,
        store_issue=2,
        row_sum=tuple(group(n // 4, fma=fma) for fma in sum_fma),
        overhead=group(
            design.softmax_overhead_slots, alu=round(design.softmax_overhead_slots * 26 / 38)
        ),
    )


def _emulated(design: Design, fragment: int, group: int) -> int:
    """Emulated exponentials among the eight columns of one group."""
    if design.emulated_in_fragment(fragment) == 0:
        return 0
    keep = design.exp2_period - design.exp2_emulated
    start = group * GROUP
    return 2 * sum(1 for k in range(start, start + GROUP, 2) if k % design.exp2_period >= keep)


def correction_costs(problem: Problem, design: Design, machine: Machine) -> CorrectionCosts:
    """Costs of the correction role: sixteen columns of O per chunk, eight to store float32."""
    group = partial(Group, factor=machine.beside_mma_factor)
    columns = 16
    chunks = design.head_dim_v_padded // columns
    packed = columns / 2 * machine.fma_packed_cycles_per_warp
    load = -(-columns * LANES * WORD // machine.tmem_load_bytes_per_cycle)
    store = -(-columns * LANES * WORD // machine.tmem_store_bytes_per_cycle)
    tile = design.o_tile_bytes(problem)
    out_bytes = design.o_element_bytes(problem)
    stored = 8 if out_bytes == WORD else columns
    return CorrectionCosts(
        # Six instructions from the barrier to the arrival, the vote among them: 43 cycles.
        read_cycles=machine.smem_latency_cycles + 43,
        chunks=chunks,
        rescale_load=load,
        rescale_store=store,
        rescale_latency=machine.tmem_load_latency_cycles,
        # 22 cycles of instructions per chunk: eight packed multiplies and the store's issue.
        rescale_group=group(22, fma=round(packed)),
        final_chunks=design.head_dim_v_padded // stored,
        final_port=-(-stored * LANES * WORD // machine.tmem_load_bytes_per_cycle),
        final_latency=machine.tmem_load_latency_cycles,
        loads_in_flight=2,
        final_group=group(
            stored + 4,
            fma=round(stored / 2 * machine.fma_packed_cycles_per_warp),
            alu=round(stored / 2 * machine.convert_cycles_per_warp) if out_bytes < WORD else 0,
        ),
        final_smem=max(1, LANES * stored * out_bytes // machine.smem_bytes_per_cycle),
        final_scalar=machine.smem_latency_cycles
        + 2 * machine.mufu_latency_cycles
        + 6 * machine.dependent_issue_cycles,
        lse_cycles=2 * machine.mufu_latency_cycles + 12 * machine.dependent_issue_cycles,
        gmem_chunks=8,
        gmem_smem=max(1, tile // 8 // 4 // machine.smem_bytes_per_cycle),
        gmem_latency=machine.smem_latency_cycles + 4 * machine.dependent_issue_cycles,
    )


def mma_costs(problem: Problem, design: Design, machine: Machine) -> MmaCosts:
    """Costs of a k-step (32 bytes of depth) of QK and of PV, per SM.

    QK reads Q and K from shared memory, PV reads V there and P from TMEM; a pair's SM holds half
    of K's rows and half of V's columns. Source: FlashAttention-4 paper, section 3.1.
    """
    element = problem.element_bytes
    depth = 32 // element
    rate = machine.tensor_flops_per_cycle(element)
    m, n, c = design.tile_m, design.tile_n, design.cta_group
    d, dv = design.head_dim_padded, design.head_dim_v_padded
    port = machine.smem_bytes_per_cycle
    pv_steps = n // depth
    pv_first = design.p_first_columns // depth
    return MmaCosts(
        qk_steps=-(-d // depth),
        qk_cycles=2 * m * n * depth // rate,
        qk_smem=-(-32 * (m + n // c) // port),
        pv_steps=pv_steps,
        pv_first=pv_first,
        pv_cycles=2 * m * dv * depth // rate,
        pv_smem=-(-32 * (dv // c) // port),
        resume=machine.mma_resume_cycles,
    )
