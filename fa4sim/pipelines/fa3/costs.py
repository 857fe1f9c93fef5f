"""What each piece of a step costs on Hopper: instruction counts times unit rates, plus latencies.

wgmma leaves a thread, of every 8 columns, 2 of each of 2 rows; four neighbouring lanes share a row.
So a warp of a consumer has 16 rows, and a lane half as many scores as the block has columns: for
128 columns 64 maxima, 64 multiply-adds, 64 exponentials, 64 additions to the row sums, 32
conversions of pairs, and as many multiplies as it holds of O. A row's maximum takes two shuffles.

The counts are those of ``fa4kernel.hopper``, checked against its compiled form (sm_90a, ptxas
13.0): a step without a mask is 497 instructions per warp, of them 68 maxima, 66 multiply-adds, 66
exponentials, 66 additions, 68 multiplies, 32 conversions, 4 shuffles and 16 HGMMA; 33 of the 85
that reckon with addresses and phases stand before the first HGMMA. A masked one adds a comparison
and a select per score. Nothing here is a measured step time.
"""

from __future__ import annotations

from dataclasses import dataclass

from fa4sim.engine.units import Group
from fa4sim.specs import HopperDesign, Machine, Problem

#: Scores of a lane that go to the units in one go: the grain at which warps alternate.
GROUP = 8
#: Of maxima, masks, multiplies and conversions.
CHUNK = 32
#: One of so many exponentials stands among the multiply-adds that scale the scores.
EARLY = 8
LANES = 32
#: Depth of one k-step of 16-bit operands, and its bytes per row.
DEPTH, DEPTH_BYTES = 16, 32


@dataclass(frozen=True)
class ProductCosts:
    """The k-steps of one product of a warpgroup."""

    steps: int
    step_cycles: int
    step_smem: int
    start: int


@dataclass(frozen=True)
class RowCosts:
    """What a consumer warp does with its rows, in groups of independent instructions."""

    mask: tuple[Group, ...]
    maximum: tuple[Group, ...]
    reduce: Group
    reduce_latency: int
    exponentiate: tuple[Group, ...]
    scale: tuple[Group, ...]
    exponentiate_scaled: tuple[Group, ...]
    mixed: tuple[Group, ...]
    mixed_first: tuple[Group, ...]
    exp2_latency: int
    rescale: tuple[Group, ...]
    convert: tuple[Group, ...]
    overhead: Group
    sum_latency: int
    lse_latency: int
    round_output: tuple[Group, ...]
    store_cycles: int
    store_issue: int


def qk_costs(problem: Problem, design: HopperDesign, machine: Machine) -> ProductCosts:
    """S = Q K^T of one consumer: Q and K from shared memory."""
    rate = machine.tensor_flops_per_cycle(problem.element_bytes)
    m, n = design.tile_m, design.tile_n
    return ProductCosts(
        steps=design.head_dim_padded // DEPTH,
        step_cycles=-(-2 * m * n * DEPTH // rate),
        step_smem=-(-DEPTH_BYTES * (m + n) // machine.smem_bytes_per_cycle),
        start=machine.mma_start_cycles,
    )


def pv_costs(problem: Problem, design: HopperDesign, machine: Machine) -> ProductCosts:
    """O += P V of one consumer: P from registers, V from shared memory."""
    rate = machine.tensor_flops_per_cycle(problem.element_bytes)
    m, dv = design.tile_m, design.head_dim_v_padded
    return ProductCosts(
        steps=design.tile_n // DEPTH,
        step_cycles=-(-2 * m * dv * DEPTH // rate),
        step_smem=-(-DEPTH_BYTES * dv // machine.smem_bytes_per_cycle),
        start=machine.mma_start_tmem_cycles,
    )


class _Groups:
    """Groups of instructions with what they cost alone and beside the tensor cores."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine

    def of(
        self, mufu: int = 0, add: int = 0, fma: int = 0, alu: float = 0, convert: int = 0
    ) -> Group:
        """So many instructions of each kind; ``add`` are additions one after the other."""
        m = self.machine
        by_alu = alu + convert
        ports = mufu * m.beside_mma_mufu_issue_factor if add or fma or by_alu else mufu
        ports += by_alu * m.beside_mma_issue_factor
        lone = ports + add * m.beside_mma_lone_add_issue_factor
        lone += fma * m.beside_mma_lone_fma_issue_factor
        ports += add * m.beside_mma_add_issue_factor + fma * m.beside_mma_fma_issue_factor
        stolen = fma * m.fma_steals_mma_cycles
        dense = not (add or by_alu)
        return Group(
            round(mufu + add + fma + by_alu),
            mufu=round(mufu * m.mufu_cycles_per_warp),
            fma=round((add + fma) * m.fma_cycles_per_warp),
            alu=round(alu * m.alu_cycles_per_warp + convert * m.convert_cycles_per_warp),
            factor=m.beside_mma_factor,
            pressed_issue=ports,
            lone=lone,
            steals=stolen if dense else 0,
            steals_shared=0 if dense else stolen,
        )


def row_costs(problem: Problem, design: HopperDesign, machine: Machine) -> RowCosts:
    """Costs of the softmax, of rescaling and of the output; see the module for the counts."""
    group = _Groups(machine).of
    scores, outputs = design.tile_n // 2, design.head_dim_v_padded // 2
    dependent, shuffle = machine.dependent_issue_cycles, machine.shuffle_cycles
    over_lanes = 2 * (shuffle + dependent)

    def mixed(n: int, multiplies: int) -> Group:
        return group(mufu=n - n // EARLY, add=n, fma=multiplies, convert=n // 2)

    store = LANES // 2 * design.head_dim_v_padded * problem.out_bytes
    return RowCosts(
        # A comparison and a select per score.
        mask=tuple(group(alu=2 * n) for n in _parts(scores)),
        maximum=tuple(group(alu=n) for n in _parts(scores)),
        # Two rows: two shuffles and maxima each, -infinity, difference, scale, the factor 2^x: 22
        # instructions, one after the other, so that what counts is their latency.
        reduce=Group(22),
        reduce_latency=over_lanes + 3 * dependent,
        exponentiate=tuple(group(mufu=n, add=n, fma=n) for n in _parts(scores, GROUP)),
        # The compiler's order: all scores are scaled, and an eighth of the exponentials stands
        # among that; the others, additions, conversions and the multiplies of O come mixed (in a
        # tile's first step there is no O yet).
        scale=tuple(group(mufu=n // EARLY, fma=n) for n in _parts(scores)),
        exponentiate_scaled=tuple(group(mufu=n - n // EARLY, add=n) for n in _parts(scores, GROUP)),
        mixed=tuple(mixed(n, outputs * n // scores) for n in _parts(scores, GROUP)),
        mixed_first=tuple(mixed(n, 0) for n in _parts(scores, GROUP)),
        exp2_latency=machine.mufu_latency_cycles + 2 * dependent,
        rescale=tuple(group(fma=n) for n in _parts(outputs)),
        convert=tuple(group(convert=n // 2) for n in _parts(scores)),
        # Slots, phases and descriptors, in uniform registers, which wgmma leaves alone.
        overhead=Group(33),
        sum_latency=over_lanes + machine.mufu_latency_cycles + 2 * dependent,
        lse_latency=machine.mufu_latency_cycles + 6 * dependent,
        round_output=tuple(group(convert=n // 2) for n in _parts(outputs)),
        store_cycles=max(1, -(-store // machine.smem_bytes_per_cycle)),
        store_issue=max(1, store // (LANES * 16)),
    )


def _parts(total: int, size: int = CHUNK) -> list[int]:
    """``total`` in parts of at most ``size``.

    >>> _parts(88)
    [32, 32, 24]
    """
    return [min(size, total - start) for start in range(0, total, size)]
