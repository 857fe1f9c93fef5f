"""The Hopper machines the simulator knows, as tables of (value, origin).

Two constants are fitted (`fa4kernel.bench.fit`, docs/decisions/0021-beside-wgmma.md); the others of
an H200 were measured on one or are published. An H100 has the same SMs, so it takes them over but
for its clock and its memories. What only one of the two methods of measuring tells (how much of a
wgmma's latency lies before its first multiply) is assumed inside a range.
"""

from __future__ import annotations

from collections.abc import Mapping

from fa4sim.specs.constants import Constant, build, from_h200, h200_ratio
from fa4sim.specs.measured import h200_origin, h200_value
from fa4sim.specs.origin import Origin, assumed, fitted, measured, published

PTX = "PTX ISA manual"
GUIDE = "CUDA programming guide"
WHITE_PAPER = "NVIDIA H100 Tensor Core GPU architecture, white paper"
NOT_HERE = published(f"{PTX}: Hopper has no tensor memory, no CTA pairs and no launch control")

#: The two fitted constants; all else is published, measured or assumed.
MUFU_PORT, BURST_BYTES = 5.0, 8192
FITTED = "six points of docs/validation/h200.md, named there"

#: Of a wgmma's latency beyond its multiplies: what lies before the first one, operands in SMEM.
START_CYCLES = 30


def _by_hand(what: str) -> Origin:
    """Measured on the same H200 and day as the data file's rows, by code that is not kept here."""
    return measured(f"{what}, on an NVIDIA H200, driver 580.159.04, 2026-11-30")


_H200: Mapping[str, Constant] = {
    "compute_capability": Constant(90, published(f"{PTX}: sm_90a")),
    "sms": Constant(132, published(WHITE_PAPER)),
    # An input of every comparison: power decides it, and light loads run at 1.98 GHz.
    "clock_hz": Constant(h200_value("sm_clock_sustained_hz"), h200_origin("sm_clock_sustained_hz")),
    # -- tensor cores --------------------------------------------------------------------------
    "tensor_flops_per_cycle_16bit": from_h200("wgmma_n128_1_warpgroup_flop_per_cycle"),
    "tensor_flops_per_cycle_8bit": Constant(8192, published(f"{WHITE_PAPER}: twice 16-bit")),
    "mma_start_cycles": Constant(
        START_CYCLES,
        assumed("of the 66 cycles that a wgmma takes beside its multiplies, those before", 10, 56),
    ),
    "mma_start_tmem_cycles": Constant(
        START_CYCLES - 10,
        _by_hand("A from registers: a wgmma of one k-step takes 10 cycles less than from SMEM"),
    ),
    "mma_commit_cycles": Constant(
        round(h200_value("wgmma_commit_to_wait_cycles")) - START_CYCLES,
        h200_origin("wgmma_commit_to_wait_cycles"),
    ),
    "mma_pair_cycles": Constant(0, NOT_HERE),
    "mma_issue_cycles": Constant(
        14, _by_hand("issue and commit of 1, 2, 4, 8 k-steps m64n128k16: 19, 37, 61, 117 cycles")
    ),
    "mma_resume_cycles": Constant(0, published(f"{PTX}: the warps that wait issue the wgmma")),
    "wgmma_queue_steps": Constant(
        8, _by_hand("issue of 8 k-steps takes 117 cycles, of 16 takes 629: 8 wait, the rest stand")
    ),
    # -- sub-partitions ------------------------------------------------------------------------
    "mufu_cycles_per_warp": from_h200("mufu_ex2_cycles_per_warp", whole=False),
    "fma_cycles_per_warp": from_h200("ffma_cycles_per_warp", whole=False),
    "fma_packed_cycles_per_warp": Constant(
        2 * h200_value("ffma_cycles_per_warp"), h200_origin("ffma_cycles_per_warp")
    ),
    "alu_cycles_per_warp": from_h200("fmnmx_cycles_per_warp", whole=False),
    "convert_cycles_per_warp": from_h200("f2fp_cycles_per_warp", whole=False),
    "exp2_polynomial_fma_cycles_per_warp": from_h200("poly_exp2_deg3_cycles_per_warp", whole=False),
    "exp2_polynomial_issue_slots": Constant(8.0, _by_hand("SASS of a degree-3 polynomial exp2")),
    "mask_cycles_per_element": from_h200("mask_apply_cycles_per_element", whole=False),
    "max_operands_per_instruction": Constant(2, published(f"{PTX}: three inputs from sm_100")),
    "beside_mma_factor": Constant(
        h200_value("mufu_2_warps_beside_wgmma_cycles_per_warp")
        / h200_value("mufu_2_warps_alone_cycles_per_warp"),
        h200_origin("mufu_2_warps_beside_wgmma_cycles_per_warp"),
    ),
    "beside_mma_issue_factor": from_h200("fmnmx_2_warps_beside_wgmma_cycles_per_warp", whole=False),
    "beside_mma_mufu_issue_factor": Constant(MUFU_PORT, fitted(FITTED, 1, 6.6)),
    "beside_mma_add_issue_factor": from_h200(
        "fadd_2_warps_beside_wgmma_cycles_per_warp", whole=False
    ),
    "beside_mma_lone_add_issue_factor": from_h200(
        "fadd_1_warps_beside_wgmma_cycles_per_warp", whole=False
    ),
    "beside_mma_fma_issue_factor": from_h200(
        "ffma_2_warps_beside_wgmma_cycles_per_warp", whole=False
    ),
    "beside_mma_lone_fma_issue_factor": from_h200(
        "ffma_1_warps_beside_wgmma_cycles_per_warp", whole=False
    ),
    "fma_steals_mma_cycles": Constant(
        h200_value("ffma_2_warps_beside_wgmma_cycles_per_warp")
        * (1 - h200_value("wgmma_n128_beside_ffma_2_warps_flop_per_cycle") / 4096),
        h200_origin("wgmma_n128_beside_ffma_2_warps_flop_per_cycle"),
    ),
    "dependent_issue_cycles": from_h200("ffma_latency_cycles"),
    "mufu_latency_cycles": from_h200("mufu_ex2_latency_cycles"),
    "shuffle_cycles": from_h200("shfl_latency_cycles"),
    "vote_cycles": from_h200("vote_ballot_latency_cycles"),
    # -- memories of an SM ---------------------------------------------------------------------
    "smem_bytes_per_cycle": from_h200("sts128_16_warps_bytes_per_cycle"),
    "smem_latency_cycles": from_h200("lds32_latency_cycles"),
    "smem_bytes_per_cta": Constant(232448, published(f"{GUIDE}: 227 KiB")),
    "tmem_columns": Constant(0, NOT_HERE),
    "tmem_load_bytes_per_cycle": Constant(0, NOT_HERE),
    "tmem_store_bytes_per_cycle": Constant(0, NOT_HERE),
    "tmem_load_latency_cycles": Constant(0, NOT_HERE),
    "tmem_store_latency_cycles": Constant(0, NOT_HERE),
    "tmem_allocate_cycles": Constant(0, NOT_HERE),
    "registers_per_sm": Constant(65536, published(GUIDE)),
    "setmaxnreg_cycles": from_h200("setmaxnreg_cycles"),
    # -- barriers ------------------------------------------------------------------------------
    "mbarrier_resume_cycles": from_h200("mbarrier_arrive_to_resume_cycles"),
    "mbarrier_try_wait_cycles": from_h200("mbarrier_try_wait_hit_cycles"),
    "mbarrier_arrive_cycles": from_h200("mbarrier_arrive_issue_cycles"),
    "mbarrier_remote_cycles": Constant(
        round(
            h200_value("cluster_remote_arrive_cycles")
            - h200_value("mbarrier_arrive_to_resume_cycles")
        ),
        h200_origin("cluster_remote_arrive_cycles", "mbarrier_arrive_to_resume_cycles"),
    ),
    "named_barrier_cycles": from_h200("named_barrier_64_cycles"),
    "named_barrier_arrive_cycles": from_h200("named_barrier_arrive_issue_cycles"),
    "proxy_fence_cycles": from_h200("fence_proxy_async_cycles"),
    "elect_cycles": from_h200("elect_sync_cycles"),
    # -- TMA, L2, HBM --------------------------------------------------------------------------
    "tma_issue_cycles": from_h200("tma_issue_cycles"),
    "tma_box_cycles": from_h200("tma_issue_per_box_cycles", whole=False),
    "tma_l2_latency_cycles": from_h200("tma_l2_base_cycles"),
    "tma_hbm_extra_cycles": from_h200("tma_hbm_extra_cycles"),
    "tma_bytes_per_cycle": from_h200("tma_l2_one_sm_peak_bytes_per_cycle", whole=False),
    "tma_store_latency_cycles": from_h200("tma_store_base_cycles"),
    "tma_store_bytes_per_cycle": from_h200("tma_store_bytes_per_cycle", whole=False),
    "cp_async_latency_cycles": from_h200("tma_l2_base_cycles"),
    "cp_async_bytes_per_cycle": from_h200("l2_read_one_sm_bytes_per_cycle", whole=False),
    "cp_async_turn_cycles": from_h200("cp_async_turn_cycles"),
    "cp_async_hbm_share": h200_ratio(
        "page_rows_4_heads_random_page_128_bytes_per_second",
        "page_boxes_4_heads_random_page_128_bytes_per_second",
    ),
    "load_l1_latency_cycles": Constant(41, published("arXiv 2402.13499: 40.7 cycles on an H100")),
    "load_l2_latency_cycles": from_h200("ld_global_l2_latency_cycles"),
    "load_hbm_extra_cycles": Constant(
        round(
            h200_value("ld_global_hbm_latency_cycles") - h200_value("ld_global_l2_latency_cycles")
        ),
        h200_origin("ld_global_hbm_latency_cycles", "ld_global_l2_latency_cycles"),
    ),
    "hbm_fetch_bytes": Constant(64, assumed("as on a B200", 32, 128)),
    "l2_bytes": Constant(60 * 2**20, _by_hand("L2 size that the driver reports: 60 MiB")),
    "l2_bytes_per_cycle": Constant(
        132 * h200_value("tma_l2_all_sms_peak_bytes_per_cycle"),
        h200_origin("tma_l2_all_sms_peak_bytes_per_cycle"),
    ),
    "hbm_bytes_per_second": from_h200("tma_hbm_all_sms_peak_bytes_per_second"),
    "share_burst_bytes": Constant(BURST_BYTES, fitted(FITTED, 0, 131072)),
    "share_burst_in_step_bytes": Constant(20480, assumed("as on a B200", 0, 32768)),
    "global_atomic_cycles": from_h200("atomic_add_global_latency_cycles"),
    # -- CTA life ------------------------------------------------------------------------------
    "cta_turnover_cycles": from_h200("cta_turnover_cycles"),
    "cta_turnover_pair_cycles": Constant(0, NOT_HERE),
    "cta_prologue_cycles": from_h200("cta_prologue_cycles"),
    "cluster_sync_cycles": from_h200("cluster_barrier_cycles"),
    "clc_fetch_cycles": Constant(0, NOT_HERE),
    "launch_seconds": Constant(
        h200_value("kernel_to_kernel_stream_cycles") / h200_value("sm_clock_light_hz"),
        h200_origin("kernel_to_kernel_stream_cycles", "sm_clock_light_hz"),
    ),
    "dependent_launch_seconds": Constant(
        1545 / h200_value("sm_clock_light_hz"),
        _by_hand("a dependent kernel in a stream, past griddepcontrol.wait: 1500 to 1590 cycles"),
    ),
}

H200 = build("H200", _H200)
H100 = build(
    "H100",
    {
        **_H200,
        "clock_hz": Constant(
            1.83e9, published(f"{WHITE_PAPER}: 989.4 TFLOP/s of 132 SMs, 4096 FLOP per clock each")
        ),
        "l2_bytes": Constant(50 * 2**20, published(WHITE_PAPER)),
        "hbm_bytes_per_second": Constant(
            3.35e12 * h200_value("tma_hbm_all_sms_peak_bytes_per_second") / 4.8e12,
            assumed("3.35 TB/s of the datasheet, times what an H200 gives of its 4.8", 2.8e12,
                    3.35e12),
        ),
    },
)  # fmt: skip
