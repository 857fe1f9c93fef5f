"""The machine: unit rates, latencies and sizes of one GPU, each with its origin.

A :class:`Machine` is plain numbers, so that ``dataclasses.replace(machine, clock_hz=1.7e9)`` is a
what-if. ``machine.origins[name]`` says where each number comes from; the tables that build the
known machines are in :mod:`fa4sim.specs.machines`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from fa4sim.specs.checks import finite, one_of, whole, word
from fa4sim.specs.origin import Origin


@dataclass(frozen=True)
class Machine:
    """One GPU as the simulator sees it. Cycles are SM clock cycles unless a name says otherwise.

    Raises ``ValueError`` if a rate or size is not positive, a latency negative, a number infinite
    or NaN, or what is counted (SMs, bytes, whole cycles) not whole.
    """

    name: str
    # -- chip ----------------------------------------------------------------------------------
    compute_capability: int
    """90, 100 or 103. On 90 (Hopper) MMAs accumulate in registers and there is no TMEM. On 103 the
    kernel has other registers and no exponentials on the FMA units, and a TMEM load can bring the
    row's maximum along."""
    sms: int
    clock_hz: float
    # -- tensor pipe, per SM -------------------------------------------------------------------
    tensor_flops_per_cycle_16bit: int
    tensor_flops_per_cycle_8bit: int
    mma_start_cycles: int
    """From an MMA reaching the head of an idle tensor pipe to its first multiply."""
    mma_start_tmem_cycles: int
    """The same for an MMA that reads A from TMEM; on Hopper, from registers."""
    mma_commit_cycles: int
    """From the last multiply of the MMAs a commit covers to the arrival on its barrier; on Hopper,
    to the first instruction behind the wait for it."""
    mma_pair_cycles: int
    """What a CTA pair adds to a commit."""
    mma_issue_cycles: int
    """Cycles a warp spends to issue one MMA: tcgen05.mma, or a k-step of wgmma."""
    mma_resume_cycles: int
    """From a wait of the MMA warp returning to the first MMA behind it."""
    # -- sub-partition units: cycles one warp instruction occupies the unit --------------------
    mufu_cycles_per_warp: float
    fma_cycles_per_warp: float
    """One scalar FP32 instruction (32 lanes)."""
    fma_packed_cycles_per_warp: float
    """One packed f32x2 instruction (64 lane slots)."""
    alu_cycles_per_warp: float
    """Maximum, select, logic, shift, integer add."""
    convert_cycles_per_warp: float
    """One conversion of two floats to a packed pair."""
    exp2_polynomial_fma_cycles_per_warp: float
    """FMA-unit time of one emulated exp2 per lane, degree 3."""
    exp2_polynomial_issue_slots: float
    """Instructions issued per emulated exp2 per lane, degree 3."""
    mask_cycles_per_element: float
    """ALU time to apply a keep-mask to one score per lane."""
    max_operands_per_instruction: int
    """3 where a three-operand maximum exists: the row maximum takes half the instructions."""
    beside_mma_factor: float
    """How much longer MUFU, FMA and ALU work takes while the SM's tensor pipe runs."""
    dependent_issue_cycles: int
    """Latency of a dependent FP32 or integer instruction."""
    mufu_latency_cycles: int
    vote_cycles: int
    # -- shared memory -------------------------------------------------------------------------
    smem_bytes_per_cycle: int
    smem_latency_cycles: int
    smem_bytes_per_cta: int
    # -- tensor memory -------------------------------------------------------------------------
    tmem_columns: int
    tmem_load_bytes_per_cycle: int
    """Per sub-partition."""
    tmem_store_bytes_per_cycle: int
    """Per sub-partition."""
    tmem_load_latency_cycles: int
    tmem_store_latency_cycles: int
    """From the last store issued until wait::st returns."""
    tmem_allocate_cycles: int
    # -- registers -----------------------------------------------------------------------------
    registers_per_sm: int
    setmaxnreg_cycles: int
    # -- barriers ------------------------------------------------------------------------------
    mbarrier_resume_cycles: int
    """Last arrival to the waiter's next instruction, same SM."""
    mbarrier_try_wait_cycles: int
    """A wait whose phase is already complete."""
    mbarrier_arrive_cycles: int
    """Issue of one arrive."""
    mbarrier_remote_cycles: int
    """What an arrival from the other CTA of a pair adds."""
    named_barrier_cycles: int
    """bar.arrive of the last participant to bar.sync resuming, 64 threads."""
    named_barrier_arrive_cycles: int
    proxy_fence_cycles: int
    elect_cycles: int
    # -- TMA, L2, HBM --------------------------------------------------------------------------
    tma_issue_cycles: int
    """Issue of one TMA instruction (one box of a tile)."""
    tma_box_cycles: float
    """Issue of every further box of the same tile."""
    tma_l2_latency_cycles: int
    """Issue to the waiter's next instruction, for a tile of no size, data in L2."""
    tma_hbm_extra_cycles: int
    """What data in HBM adds."""
    tma_bytes_per_cycle: float
    """Most one SM can receive."""
    tma_store_latency_cycles: int
    tma_store_bytes_per_cycle: float
    l2_bytes: int
    l2_bytes_per_cycle: float
    """Whole chip."""
    hbm_bytes_per_second: float
    cp_async_latency_cycles: int
    """Issue of cp.async to the waiter's next instruction, data in L2."""
    cp_async_bytes_per_cycle: float
    """Most one SM can receive by cp.async."""
    cp_async_turn_cycles: int
    """From a cp.async to the next one whose address is computed in the same register."""
    cp_async_hbm_share: float
    """What rows by cp.async get of the bandwidth that HBM gives to tiles by TMA."""
    load_l1_latency_cycles: int
    """A load's issue to the use of its value, where L1 has it."""
    load_l2_latency_cycles: int
    """The same where L2 has it."""
    load_hbm_extra_cycles: int
    """What data in HBM adds to that."""
    hbm_fetch_bytes: int
    """What L2 fetches from HBM for one missing sector of 32 bytes."""
    share_burst_bytes: int
    """How far one SM may run ahead of its fair share of L2 or HBM, where SMs are out of step."""
    share_burst_in_step_bytes: int
    """The same where all SMs do the same thing at the same time."""
    global_atomic_cycles: int
    """An atomic addition in L2 that returns the old value."""
    # -- CTA life ------------------------------------------------------------------------------
    cta_turnover_cycles: int
    """Last instruction of a CTA to first of the next on the same SM."""
    cta_turnover_pair_cycles: int
    """What a CTA pair adds to that."""
    cta_prologue_cycles: int
    """Barrier initialisation, descriptor prefetch, first synchronisation."""
    cluster_sync_cycles: int
    """What a cluster-wide synchronisation adds at start and end of a CTA pair."""
    clc_fetch_cycles: int
    """Cluster launch control: request for the next tile to its response."""
    launch_seconds: float
    """End of a kernel to the first instruction of the next one in the same stream."""
    dependent_launch_seconds: float
    """The same of a kernel launched as dependent, past its griddepcontrol.wait."""
    # -- only on Hopper; 0 or 1, which change nothing, elsewhere -------------------------------
    wgmma_queue_steps: int = 0
    """K-steps of one warpgroup that may wait for the tensor cores; the next one's issue stands."""
    beside_mma_issue_factor: float = 1.0
    """How many issue slots an instruction of the ALU takes while the SM's tensor pipe runs:
    accumulators in registers leave the others a part of the register file's ports."""
    beside_mma_mufu_issue_factor: float = 1.0
    """The same for one of MUFU, mixed with others."""
    beside_mma_add_issue_factor: float = 1.0
    """The same for a floating-point addition that waits for the one before."""
    beside_mma_lone_add_issue_factor: float = 1.0
    """The same with a single warp on the sub-partition."""
    beside_mma_fma_issue_factor: float = 1.0
    """The same for independent multiplications, fused with an addition or not."""
    beside_mma_lone_fma_issue_factor: float = 1.0
    """The same with a single warp on the sub-partition."""
    fma_steals_mma_cycles: float = 0.0
    """Tensor time that each independent multiplication takes away meanwhile."""
    shuffle_cycles: int = 0
    """Latency of a warp shuffle."""

    origins: Mapping[str, Origin] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        word("name", self.name, "the machine's name")
        names = [spec.name for spec in dataclasses.fields(self)]
        for spec in dataclasses.fields(self):
            if spec.name not in ("name", "origins"):
                try:
                    value = _constant(spec.name, getattr(self, spec.name), spec.type == "int")
                except ValueError as error:
                    raise ValueError(f"machine {self.name!r}: {error}") from None
                object.__setattr__(self, spec.name, value)
        self._check_tensor_memory()
        unknown = sorted(set(self.origins) - set(names))
        if unknown:
            raise ValueError(
                f"machine {self.name!r}: there is an origin for {unknown[0]!r}, which is no "
                f"constant; the constants are {', '.join(names[1:-1])}"
            )

    def _check_tensor_memory(self) -> None:
        """A Blackwell machine has TMEM, a Hopper machine a queue for wgmma."""
        needed = ("wgmma_queue_steps",) if self.is_hopper else _TMEM_RATES
        for name in needed:
            if getattr(self, name) <= 0:
                raise ValueError(
                    f"machine {self.name!r}: {name}={getattr(self, name)} must be positive with "
                    f"compute_capability={self.compute_capability}"
                )

    # -- what follows --------------------------------------------------------------------------

    @property
    def is_hopper(self) -> bool:
        """Whether MMAs are wgmma, with accumulators in registers."""
        return self.compute_capability < 100

    def tensor_flops_per_cycle(self, element_bytes: int) -> int:
        """Dense FLOPs per cycle per SM for elements of 1 or 2 bytes."""
        if element_bytes == 1:
            return self.tensor_flops_per_cycle_8bit
        return self.tensor_flops_per_cycle_16bit

    @property
    def hbm_bytes_per_cycle(self) -> float:
        """HBM bandwidth of the whole chip, in bytes per SM cycle."""
        return self.hbm_bytes_per_second / self.clock_hz

    def hbm_rate(self, kv_load: str) -> float:
        """What of it a kernel gets that loads K and V by ``"tma"``, or by ``"cp_async"``."""
        share = self.cp_async_hbm_share if kv_load == "cp_async" else 1.0
        return self.hbm_bytes_per_cycle * share

    @property
    def l2_share_bytes_per_cycle(self) -> float:
        """One SM's share of L2 bandwidth when every SM asks."""
        return self.l2_bytes_per_cycle / self.sms

    def seconds(self, cycles: float) -> float:
        """``cycles`` SM cycles in seconds."""
        return cycles / self.clock_hz

    def with_constants(self, **changes: float) -> Machine:
        """A what-if machine; changed constants lose their origin ("changed by hand").

        Raises ``ValueError`` naming an unknown constant.
        """
        known = {spec.name for spec in dataclasses.fields(self)} - {"origins"}
        for name in changes:
            if name not in known:
                raise ValueError(
                    f"machine {self.name!r} has no constant {name!r}; it has "
                    f"{', '.join(sorted(known))}"
                )
        origins = dict(self.origins)
        for name in changes:
            old = origins.get(name)
            low, high = (old.low, old.high) if old else (None, None)
            origins[name] = Origin("measured", "changed by hand", low, high)
        return dataclasses.replace(self, **changes, origins=origins)  # type: ignore[arg-type]


def _constant(name: str, value: object, counted: bool) -> int | float:
    """One constant within what its name allows; ``counted`` ones are whole."""
    if name == "max_operands_per_instruction":
        return int(one_of(name, value, (2, 3)))
    if name == "compute_capability":
        return int(one_of(name, value, (90, 100, 103)))
    number = whole(name, value) if counted else finite(name, value)
    if name.startswith("beside_mma") and number < 1:
        raise ValueError(f"{name}={number} must be 1 (no influence) or more")
    if name in _RATES and number <= 0:
        raise ValueError(f"{name}={number} must be positive")
    if number < 0:
        raise ValueError(f"{name}={number} must be 0 or more")
    low, high = _BOUNDS.get(name, (0.0, MOST_CYCLES if name not in _LARGE else math.inf))
    if not low <= number <= high:
        raise ValueError(
            f"{name}={number:g} must be {low:g} to {high:g}: what lies beyond is no GPU, and its "
            "cycles could not be counted"
        )
    return number


#: Longest latency or time per instruction: far beyond any GPU's, and still quick to simulate.
MOST_CYCLES = 1e6

#: Rates for which a tiny or an enormous number would make a time that cannot be counted.
_BOUNDS: dict[str, tuple[float, float]] = {
    "sms": (1, 10_000),
    "clock_hz": (1e6, 1e11),
    "hbm_bytes_per_second": (1e9, 1e20),
    "l2_bytes_per_cycle": (1, 1e12),
    "tma_bytes_per_cycle": (1e-2, 1e6),
    "tma_store_bytes_per_cycle": (1e-2, 1e6),
    "cp_async_bytes_per_cycle": (1e-2, 1e6),
    "cp_async_hbm_share": (1e-3, 1),
    "hbm_fetch_bytes": (32, 4096),
    "launch_seconds": (0, 10),
    "dependent_launch_seconds": (0, 10),
    **dict.fromkeys(
        (
            *("beside_mma_factor", "beside_mma_issue_factor", "beside_mma_mufu_issue_factor"),
            *("beside_mma_add_issue_factor", "beside_mma_lone_add_issue_factor"),
            *("beside_mma_fma_issue_factor", "beside_mma_lone_fma_issue_factor"),
        ),
        (1, 1000),
    ),
    "fma_steals_mma_cycles": (0, 1000),
}

#: Sizes, which may be as large as they like.
_LARGE = frozenset(
    (
        *("tensor_flops_per_cycle_16bit", "tensor_flops_per_cycle_8bit", "smem_bytes_per_cycle"),
        *("smem_bytes_per_cta", "tmem_columns", "tmem_load_bytes_per_cycle"),
        *("tmem_store_bytes_per_cycle", "registers_per_sm", "l2_bytes", "share_burst_bytes"),
        "share_burst_in_step_bytes",
    )
)


#: Rates and sizes: nothing happens on a machine where one of them is 0.
_RATES = frozenset(
    (
        *("sms", "clock_hz", "tensor_flops_per_cycle_16bit", "tensor_flops_per_cycle_8bit"),
        *("mufu_cycles_per_warp", "fma_cycles_per_warp", "fma_packed_cycles_per_warp"),
        *("alu_cycles_per_warp", "convert_cycles_per_warp", "smem_bytes_per_cycle"),
        *("tma_bytes_per_cycle", "tma_store_bytes_per_cycle", "l2_bytes", "l2_bytes_per_cycle"),
        *("cp_async_bytes_per_cycle", "cp_async_hbm_share", "hbm_fetch_bytes"),
        *("hbm_bytes_per_second", "smem_bytes_per_cta", "registers_per_sm"),
    )
)

#: The same of a machine that has TMEM.
_TMEM_RATES = ("tmem_columns", "tmem_load_bytes_per_cycle", "tmem_store_bytes_per_cycle")
