"""The Blackwell machines the simulator knows, as tables of (value, origin).

Constants that Hopper shares with Blackwell are stand-ins measured on an H200; what Hopper cannot
tell (TMEM, packed f32x2, the tensor pipe's own latencies) is assumed inside a stated range, and at
most four constants are fitted on three published rows: see ``docs/validation/b200.md``.
"""

from __future__ import annotations

from collections.abc import Mapping

from fa4sim.specs.checks import word
from fa4sim.specs.constants import Constant, build, from_h200, h200_ratio
from fa4sim.specs.hopper_machines import H100, H200
from fa4sim.specs.machine import Machine
from fa4sim.specs.measured import h200_origin, h200_value
from fa4sim.specs.origin import assumed, fitted, published

PAPER = "FlashAttention-4 paper, arXiv 2603.05451"
PTX = "PTX ISA manual"
SEMIANALYSIS = "SemiAnalysisAI/microbench-blackwell, B200 result files of May 2026"
UTCMMA = "AndreSlavescu/flashinfer-competition, B200 tcgen05 micro-benchmarks of March 2026"
CHIPS_AND_CHEESE = "Chips and Cheese, Nvidia's B200 (December 2025)"
QUICKRUN = "ademeure/QuickRunCUDA, Blackwell catalogue of April 2026"
CUDNN_1178 = "cudnn-frontend pull request 1178 (micro-benchmark on sm_100a)"


#: What wgmma's accumulators in registers do to other instructions.
BESIDE_WGMMA = (
    "beside_mma_issue_factor", "beside_mma_mufu_issue_factor", "beside_mma_add_issue_factor",
    "beside_mma_lone_add_issue_factor", "beside_mma_fma_issue_factor",
    "beside_mma_lone_fma_issue_factor",
)  # fmt: skip
IN_TMEM = published(f"{PTX}: accumulators are in TMEM, not in the register file")

_B200: Mapping[str, Constant] = {
    "compute_capability": Constant(100, published(f"{PTX}: sm_100a")),
    "sms": Constant(148, published(PAPER)),
    "clock_hz": Constant(1.85e9, published(f"{PAPER}, roofline clock")),
    # -- tensor pipe ---------------------------------------------------------------------------
    "tensor_flops_per_cycle_16bit": Constant(8192, published(PAPER)),
    "tensor_flops_per_cycle_8bit": Constant(16384, published("B200 datasheet: twice bf16")),
    "mma_start_cycles": Constant(
        40, published(f"{SEMIANALYSIS}: an SS MMA reaches its waiter N/2 + 136 cycles after issue")
    ),
    "mma_start_tmem_cycles": Constant(
        8, published(f"{SEMIANALYSIS}: with A from TMEM, N/2 + 104 cycles")
    ),
    "mma_commit_cycles": Constant(
        45, published(f"{SEMIANALYSIS}: what N/2 + 136 leaves behind issue, start and wake-up")
    ),
    "mma_pair_cycles": Constant(34, published(f"{SEMIANALYSIS}: CTA pair, N/2 + 170 cycles")),
    "mma_issue_cycles": Constant(
        3, assumed("compiled kernel: 0 to 2 instructions between two MMAs, 1 to 4 cycles", 1, 15)
    ),
    "mma_resume_cycles": Constant(
        28, assumed("compiled kernel: 22 to 50 cycles of instructions from wait to MMA", 20, 60)
    ),
    # -- sub-partitions ------------------------------------------------------------------------
    "mufu_cycles_per_warp": Constant(8.0, published(f"{PAPER}; {CUDNN_1178}: 16 per clk per SM")),
    "fma_cycles_per_warp": Constant(32 / 30, published(f"{CUDNN_1178}: 120 lanes/clk/SM")),
    "fma_packed_cycles_per_warp": Constant(
        64 / 30, published(f"{CUDNN_1178}: 120 lanes/clk/SM; {QUICKRUN}: packed adds no lanes")
    ),
    "alu_cycles_per_warp": from_h200("fmnmx_cycles_per_warp", whole=False),
    "convert_cycles_per_warp": from_h200("f2fp_cycles_per_warp", whole=False),
    "exp2_polynomial_fma_cycles_per_warp": Constant(
        7.45 * 32 / 30, published(f"{CUDNN_1178}: 7.45 lane slots at 120 lanes/clk/SM")
    ),
    "exp2_polynomial_issue_slots": Constant(
        5.0, assumed("packed instruction count: 3 FMA, 3 add, 2 max, 2 shift-add per pair", 4, 8)
    ),
    "mask_cycles_per_element": from_h200("mask_apply_cycles_per_element", whole=False),
    "max_operands_per_instruction": Constant(3, published(f"{PTX}: max.f32 with 3 inputs")),
    "beside_mma_factor": Constant(
        1.55,
        fitted(
            "rows full 4k, full 16k, causal 4k; an H200's softmax step takes 1.59 times as long "
            "beside wgmma (public kernels' accumulators moved to TMEM since)",
            1.0,
            1.6,
        ),
    ),
    "dependent_issue_cycles": from_h200("ffma_latency_cycles"),
    "mufu_latency_cycles": from_h200("mufu_ex2_latency_cycles"),
    "vote_cycles": from_h200("vote_ballot_latency_cycles"),
    # -- memories of an SM ---------------------------------------------------------------------
    "smem_bytes_per_cycle": Constant(128, published(PAPER)),
    "smem_latency_cycles": from_h200("lds32_latency_cycles"),
    "smem_bytes_per_cta": Constant(232448, published("CUDA programming guide: 227 KiB")),
    "tmem_columns": Constant(512, published(PTX)),
    "tmem_load_bytes_per_cycle": Constant(
        128, assumed("32 lanes of 4 bytes per clk per sub-partition", 64, 256)
    ),
    "tmem_store_bytes_per_cycle": Constant(
        225, published(f"{UTCMMA}: 0.57 cycles per column between st x32 and st x64")
    ),
    "tmem_load_latency_cycles": Constant(
        13,
        assumed(
            f"as wait::ld ({UTCMMA}: 12.8 cycles); public remarks go up to 200 under load", 10, 220
        ),
    ),
    "tmem_store_latency_cycles": Constant(13, published(f"{UTCMMA}: wait::st")),
    "tmem_allocate_cycles": Constant(253, published(f"{QUICKRUN}: tcgen05.alloc")),
    "registers_per_sm": Constant(65536, published("CUDA programming guide")),
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
    "tma_l2_latency_cycles": Constant(
        650,
        fitted(
            "rows full 4k, full 16k, causal 4k; an H200's near half takes 313, and B200 reads its "
            "other die's L2 some 350 later",
            313,
            900,
        ),
    ),
    "tma_hbm_extra_cycles": from_h200("tma_hbm_extra_cycles"),
    "tma_bytes_per_cycle": from_h200("tma_l2_one_sm_peak_bytes_per_cycle", whole=False),
    "tma_store_latency_cycles": from_h200("tma_store_base_cycles"),
    "tma_store_bytes_per_cycle": from_h200("tma_store_bytes_per_cycle", whole=False),
    "cp_async_latency_cycles": Constant(
        650,
        assumed(
            "as TMA's: on an H200 1 to 2 KiB take 441 to 464 cycles by TMA, 461 by cp.async",
            313,
            900,
        ),
    ),
    "cp_async_bytes_per_cycle": from_h200("l2_read_one_sm_bytes_per_cycle", whole=False),
    "cp_async_turn_cycles": from_h200("cp_async_turn_cycles"),
    "cp_async_hbm_share": h200_ratio(
        "page_rows_4_heads_random_page_128_bytes_per_second",
        "page_boxes_4_heads_random_page_128_bytes_per_second",
    ),
    "load_l1_latency_cycles": Constant(39, published(f"{CHIPS_AND_CHEESE}: 19.6 ns")),
    "load_l2_latency_cycles": from_h200("ld_global_l2_latency_cycles"),
    "load_hbm_extra_cycles": Constant(
        round(
            h200_value("ld_global_hbm_latency_cycles") - h200_value("ld_global_l2_latency_cycles")
        ),
        h200_origin("ld_global_hbm_latency_cycles", "ld_global_l2_latency_cycles"),
    ),
    "hbm_fetch_bytes": Constant(
        64, assumed("two sectors; what L2 prefetches on a miss is not documented", 32, 128)
    ),
    "l2_bytes": Constant(126 * 2**20, published("B200 specification pages: 126 MB")),
    "l2_bytes_per_cycle": Constant(
        10550.0, published(f"{QUICKRUN}: 20.5 TB/s at 1.942 GHz by TMA from a 64 MiB set")
    ),
    "hbm_bytes_per_second": Constant(
        6.0e12,
        fitted(
            "rows full 4k, full 16k, causal 4k; by TMA 5.4 to 7.2 TB/s with 32 to 64 KiB in flight "
            f"per SM ({SEMIANALYSIS}); the range goes 15 % below, as a margin; datasheet 8.0",
            4.6e12,
            7.2e12,
        ),
    ),
    "share_burst_bytes": Constant(
        65536, assumed("agreement with simulating every CTA at shared servers", 16384, 131072)
    ),
    "share_burst_in_step_bytes": Constant(
        20480, assumed("agreement with simulating every CTA at shared servers", 0, 32768)
    ),
    "global_atomic_cycles": from_h200("atomic_add_global_latency_cycles"),
    # -- CTA life ------------------------------------------------------------------------------
    "cta_turnover_cycles": from_h200("cta_turnover_cycles"),
    "cta_turnover_pair_cycles": Constant(
        round(h200_value("cta_turnover_cluster2_cycles") - h200_value("cta_turnover_cycles")),
        h200_origin("cta_turnover_cluster2_cycles", "cta_turnover_cycles"),
    ),
    "cta_prologue_cycles": from_h200("cta_prologue_cycles"),
    "cluster_sync_cycles": Constant(102, published(f"{QUICKRUN}: relaxed cluster barrier")),
    "clc_fetch_cycles": Constant(800, assumed("a round trip to the work distributor", 300, 2000)),
    "launch_seconds": Constant(
        h200_value("kernel_to_kernel_stream_cycles") / h200_value("sm_clock_light_hz"),
        h200_origin("kernel_to_kernel_stream_cycles", "sm_clock_light_hz"),
    ),
    "dependent_launch_seconds": Constant(
        0.78e-6,
        assumed(
            "an H200 is past griddepcontrol.wait 1,500 to 1,590 cycles after the end of the kernel "
            "before, 1,186 in a graph; a kernel in its turn takes as long as launch_seconds",
            0.6e-6,
            1.87e-6,
        ),
    ),
    # -- what only Hopper's kernel meets -------------------------------------------------------
    "shuffle_cycles": from_h200("shfl_latency_cycles"),
    "wgmma_queue_steps": Constant(0, published(f"{PTX}: no wgmma on sm_100a")),
    **dict.fromkeys(BESIDE_WGMMA, Constant(1.0, IN_TMEM)),
    "fma_steals_mma_cycles": Constant(0.0, IN_TMEM),
}


B200 = build("B200", _B200)
B300 = build(
    "B300",
    {
        **_B200,
        "compute_capability": Constant(103, published(f"{PTX}: sm_103a")),
        "mufu_cycles_per_warp": Constant(4.0, published(f"{PAPER}: 32 per clk per SM")),
        "clock_hz": Constant(1.85e9, assumed("as B200; not published", 1.6e9, 2.0e9)),
    },
)

#: The machines ``--machine`` knows, by lower-case name.
MACHINES: Mapping[str, Machine] = {"b200": B200, "b300": B300, "h100": H100, "h200": H200}


def machine_named(name: str) -> Machine:
    """The machine called ``name`` (any case).

    >>> machine_named("B200").sms
    148

    Raises ``ValueError`` that lists the known names.
    """
    try:
        return MACHINES[word("machine", name, "a machine's name").lower()]
    except KeyError:
        raise ValueError(
            f"machine {name!r} is not known; use one of {', '.join(sorted(MACHINES))}"
        ) from None
