"""The figures that the simulator may read, and the bounds that physics sets to them.

A result outside its bounds is a broken measurement, not a surprising GPU: a loop was folded, a unit
starved, an output unwritten. Bounds of throughputs are the architectural rates of Hopper, within
2 %, since a unit cannot be faster and a good loop is hardly slower; other bounds are wide.
"""

from __future__ import annotations

from typing import NamedTuple


class Bounds(NamedTuple):
    """Lowest and highest credible value, and what sets them."""

    low: float
    high: float
    why: str


def _rate(architectural: float, why: str) -> Bounds:
    return Bounds(architectural * 0.98, architectural * 1.02, why)


_HAND_OFF = "a few dozen cycles: more than a dependent load, less than a trip to L2"
_L2 = "shared memory is nearer, HBM farther"
_CLOCK = "between the base and the boost clock of the part"

EXPECTED: dict[str, Bounds] = {
    # Units of a sub-partition, cycles per warp instruction.
    "mufu_ex2_cycles_per_warp": _rate(8, "16 special functions per cycle and SM"),
    "ffma_cycles_per_warp": _rate(1, "128 FP32 operations per cycle and SM"),
    "fadd_cycles_per_warp": _rate(1, "128 FP32 operations per cycle and SM"),
    "fmul_cycles_per_warp": _rate(1, "128 FP32 operations per cycle and SM"),
    "fmnmx_cycles_per_warp": _rate(2, "64 ALU operations per cycle and SM"),
    "f2fp_cycles_per_warp": _rate(2, "64 conversions of two values per cycle and SM"),
    "iadd3_cycles_per_warp": _rate(2, "64 ALU operations per cycle and SM"),
    "lop3_cycles_per_warp": _rate(2, "64 ALU operations per cycle and SM"),
    "shf_cycles_per_warp": _rate(2, "64 ALU operations per cycle and SM"),
    "shfl_cycles_per_warp": _rate(4, "32 shuffled lanes per cycle and SM"),
    "mufu_ex2_latency_cycles": Bounds(8, 40, "a short pipeline"),
    "ffma_latency_cycles": _rate(4, "four-cycle dependent issue"),
    "fmnmx_latency_cycles": _rate(4, "four-cycle dependent issue"),
    "f2fp_latency_cycles": _rate(4, "four-cycle dependent issue"),
    "vote_ballot_latency_cycles": Bounds(8, 60, "crosses lanes once"),
    "shfl_latency_cycles": Bounds(15, 40, "crosses lanes once"),
    "poly_exp2_deg3_cycles_per_warp": Bounds(8, 10, "eight instructions on two pipes"),
    "mask_apply_cycles_per_element": Bounds(2, 4, "one select on the ALU and a share of the rest"),
    "softmax_step_all_mufu_1_warp_cycles": Bounds(1032, 2500, "129 exponentials at 8 cycles"),
    "softmax_step_all_mufu_2_warps_cycles": Bounds(1032, 2500, "129 exponentials at 8 cycles"),
    # Shared memory.
    "lds128_16_warps_bytes_per_cycle": _rate(128, "128 bytes per cycle and SM"),
    "sts128_16_warps_bytes_per_cycle": _rate(128, "128 bytes per cycle and SM"),
    "lds32_latency_cycles": Bounds(15, 40, "shared memory"),
    # Barriers.
    "mbarrier_arrive_to_resume_cycles": Bounds(20, 150, _HAND_OFF),
    "mbarrier_arrive_to_resume_elected_cycles": Bounds(20, 150, _HAND_OFF),
    "mbarrier_arrive_to_resume_all_lanes_cycles": Bounds(20, 150, _HAND_OFF),
    "mbarrier_arrive_to_resume_4_warps_all_lanes_cycles": Bounds(20, 150, _HAND_OFF),
    "mbarrier_arrive_issue_cycles": Bounds(1, 30, "one instruction"),
    "mbarrier_expect_tx_issue_cycles": Bounds(1, 30, "one instruction"),
    "mbarrier_try_wait_hit_cycles": Bounds(10, 100, "one trip to the barrier unit and a branch"),
    "named_barrier_64_cycles": Bounds(10, 100, _HAND_OFF),
    "named_barrier_128_cycles": Bounds(10, 100, _HAND_OFF),
    "named_barrier_256_cycles": Bounds(10, 100, _HAND_OFF),
    "named_barrier_416_cycles": Bounds(10, 100, _HAND_OFF),
    "named_barrier_512_cycles": Bounds(10, 120, _HAND_OFF),
    "named_barrier_arrive_issue_cycles": Bounds(1, 30, "one instruction"),
    "bar_sync_128_cycles": Bounds(10, 100, _HAND_OFF),
    "bar_sync_512_cycles": Bounds(10, 120, _HAND_OFF),
    "cluster_remote_arrive_cycles": Bounds(80, 400, "one trip between SMs"),
    "cluster_barrier_cycles": Bounds(150, 800, "a round trip between SMs"),
    "elect_sync_cycles": Bounds(1, 20, "a few instructions"),
    "syncwarp_cycles": Bounds(1, 10, "one instruction"),
    "fence_proxy_async_cycles": Bounds(2, 100, "nothing outstanding"),
    # TMA.
    "tma_l2_base_cycles": Bounds(200, 800, _L2),
    "tma_l2_bytes_per_cycle": Bounds(64, 128, "at most what shared memory takes"),
    "tma_hbm_extra_cycles": Bounds(150, 1200, "HBM behind the L2"),
    "cp_async_turn_cycles": Bounds(10, 150, "a copy reads its registers, and a branch"),
    "tma_first_load_l2_16kib_cycles": Bounds(300, 3000, "a load and a fetch of its tensor map"),
    "tma_issue_cycles": Bounds(4, 300, "two instructions"),
    "tma_issue_per_box_cycles": Bounds(2, 100, "one instruction"),
    "tma_l2_one_sm_peak_bytes_per_cycle": Bounds(64, 128, "at most what shared memory takes"),
    "tma_l2_all_sms_peak_bytes_per_cycle": Bounds(20, 64, "the L2's bandwidth over the SMs"),
    "tma_hbm_all_sms_peak_bytes_per_second": Bounds(3.0e12, 4.8e12, "4.8 TB/s by the datasheet"),
    "tma_store_base_cycles": Bounds(10, 800, "shared memory to L2"),
    "tma_store_bytes_per_cycle": Bounds(16, 128, "at most what shared memory gives"),
    # Tensor core.
    "wgmma_n128_per_kstep_cycles": _rate(64, "4096 dense bf16 FLOP per cycle and SM"),
    "wgmma_n128_2_warpgroup_flop_per_cycle": _rate(4096, "4096 dense bf16 FLOP per cycle and SM"),
    "wgmma_commit_to_wait_cycles": Bounds(20, 300, "the pipeline's depth"),
    "wgmma_commit_to_waiter_cycles": Bounds(40, 500, "the pipeline's depth and a hand-off"),
    # Around the work.
    "cta_turnover_cycles": Bounds(100, 2000, "launch of one CTA"),
    "cta_turnover_cluster2_cycles": Bounds(100, 4000, "launch of a pair of CTAs"),
    "cta_prologue_cycles": Bounds(50, 3000, "some dozens of instructions and a barrier"),
    "setmaxnreg_cycles": Bounds(10, 500, "hand-over of registers"),
    "setmaxnreg_dec_cycles": Bounds(5, 300, "hand-over of registers"),
    "setmaxnreg_inc_cycles": Bounds(5, 300, "hand-over of registers"),
    "launch_graph_us": Bounds(0.2, 5, "one node of a graph"),
    "launch_stream_us": Bounds(0.5, 30, "one launch by the host"),
    "kernel_to_kernel_stream_cycles": Bounds(500, 20_000, "one launch already queued"),
    "kernel_to_kernel_graph_cycles": Bounds(300, 20_000, "one launch already queued"),
    "atomic_add_global_latency_cycles": Bounds(150, 1000, _L2),
    "ld_global_l2_latency_cycles": Bounds(150, 500, _L2),
    "ld_global_hbm_latency_cycles": Bounds(300, 1500, "HBM behind the L2"),
    # Chip.
    "hbm_copy_bytes_per_second": Bounds(3.0e12, 4.8e12, "4.8 TB/s by the datasheet"),
    "hbm_read_bytes_per_second": Bounds(3.0e12, 4.8e12, "4.8 TB/s by the datasheet"),
    "l2_read_bytes_per_second": Bounds(5.0e12, 17e12, "at most 64 bytes per cycle and SM"),
    "sm_clock_light_hz": Bounds(1.2e9, 1.99e9, _CLOCK),
    "sm_clock_sustained_hz": Bounds(1.0e9, 1.99e9, _CLOCK),
    "sm_clock_hbm_read_hz": Bounds(1.0e9, 1.99e9, _CLOCK),
    "wgmma_sustained_flop_per_second": Bounds(5.0e14, 9.9e14, "989 TFLOP/s by the datasheet"),
}


def complaints(values: dict[str, float]) -> list[str]:
    """What is missing from `values` (by name) or out of bounds; empty if nothing is.

    >>> complaints({name: b.low for name, b in EXPECTED.items()})
    []
    >>> complaints({name: b.low for name, b in EXPECTED.items()} | {"ffma_cycles_per_warp": 0.5})
    ['ffma_cycles_per_warp is 0.5, not within 0.98 to 1.02 (128 FP32 operations per cycle and SM)']
    """
    found = []
    for name, (low, high, why) in EXPECTED.items():
        if name not in values:
            found.append(f"{name} is missing")
        elif not low <= values[name] <= high:
            found.append(f"{name} is {values[name]:g}, not within {low:g} to {high:g} ({why})")
    return found
