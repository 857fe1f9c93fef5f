"""The machines the simulator knows, as tables of (value, origin).

Constants that Hopper shares with Blackwell are stand-ins measured on an H200; what Hopper cannot
tell (TMEM, packed f32x2, the tensor pipe's own latencies) is assumed inside a stated range, and at
most four constants are fitted on three published rows: see ``docs/validation/b200.md``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from fa4sim.specs.machine import Machine
from fa4sim.specs.origin import Origin, assumed, measured, published

PAPER = "FlashAttention-4 paper, arXiv 2603.05451"
PTX = "PTX ISA manual"
H200 = "NVIDIA H200, docs/benchmarks_h200.md"
CUDNN_1178 = "cudnn-frontend pull request 1178 (micro-benchmark on sm_100a)"


class Constant(NamedTuple):
    """One number of a machine and where it comes from."""

    value: float
    origin: Origin


_B200: Mapping[str, Constant] = {
    "sms": Constant(148, published(PAPER)),
    "clock_hz": Constant(1.85e9, published(f"{PAPER}, roofline clock")),
    "tensor_flops_per_cycle_16bit": Constant(8192, published(PAPER)),
    "tensor_flops_per_cycle_8bit": Constant(16384, published("B200 datasheet: twice bf16")),
    "mma_start_cycles": Constant(
        24, assumed("no public measurement; a few pipeline stages", 0, 100)
    ),
    "mma_commit_cycles": Constant(
        60, assumed("wgmma adds 58 to 68 cycles beyond its tensor time on an H200", 20, 160)
    ),
    "mma_issue_cycles": Constant(
        8, assumed("wgmma issue of 8 k-steps took 117 cycles on an H200", 4, 20)
    ),
    "mufu_cycles_per_warp": Constant(2.0 * 4, published(f"{PAPER}: 16 per clk per SM")),
    "fma_cycles_per_warp": Constant(32 / 30, published(f"{CUDNN_1178}: 120 lanes/clk/SM")),
    "fma_packed_cycles_per_warp": Constant(64 / 30, published(f"{CUDNN_1178}: 120 lanes/clk/SM")),
    "alu_cycles_per_warp": Constant(2.0, measured(H200)),
    "convert_cycles_per_warp": Constant(2.0, measured(H200)),
    "exp2_polynomial_fma_cycles_per_warp": Constant(
        7.45 * 32 / 30, published(f"{CUDNN_1178}: 7.45 lane slots at 120 lanes/clk/SM")
    ),
    "exp2_polynomial_issue_slots": Constant(
        5.0, assumed("packed instruction count: 3 FMA, 3 add, 2 max, 2 shift-add per pair", 4, 8)
    ),
    "mask_cycles_per_element": Constant(2.7, measured(H200)),
    "max_operands_per_instruction": Constant(3, published(f"{PTX}: max.f32 with 3 inputs")),
    "dependent_issue_cycles": Constant(4, measured(H200)),
    "mufu_latency_cycles": Constant(17, measured(H200)),
    "vote_cycles": Constant(21, measured(H200)),
    "smem_bytes_per_cycle": Constant(128, published(PAPER)),
    "smem_latency_cycles": Constant(23, measured(H200)),
    "smem_bytes_per_cta": Constant(232448, published("CUDA programming guide: 227 KiB")),
    "tmem_columns": Constant(512, published(PTX)),
    "tmem_load_bytes_per_cycle": Constant(
        128, assumed("32 lanes of 4 bytes per clk per sub-partition", 64, 256)
    ),
    "tmem_store_bytes_per_cycle": Constant(
        128, assumed("32 lanes of 4 bytes per clk per sub-partition", 64, 256)
    ),
    "tmem_load_latency_cycles": Constant(30, assumed("no trusted public measurement", 10, 100)),
    "tmem_store_latency_cycles": Constant(30, assumed("no trusted public measurement", 10, 100)),
    "registers_per_sm": Constant(65536, published("CUDA programming guide")),
    "setmaxnreg_cycles": Constant(60, measured(H200)),
    "mbarrier_resume_cycles": Constant(58, measured(H200)),
    "mbarrier_try_wait_cycles": Constant(14, measured(H200)),
    "mbarrier_arrive_cycles": Constant(6, measured(H200)),
    "mbarrier_remote_cycles": Constant(81, measured(H200)),
    "named_barrier_cycles": Constant(34, measured(H200)),
    "named_barrier_arrive_cycles": Constant(7, measured(H200)),
    "proxy_fence_cycles": Constant(9, measured(H200)),
    "elect_cycles": Constant(4, measured(H200)),
    "tma_issue_cycles": Constant(149, measured(H200)),
    "tma_l2_latency_cycles": Constant(425, measured(H200)),
    "tma_hbm_extra_cycles": Constant(440, measured(H200)),
    "tma_bytes_per_cycle": Constant(107, measured(H200)),
    "tma_store_latency_cycles": Constant(180, measured(H200)),
    "tma_store_bytes_per_cycle": Constant(32, measured(H200)),
    "l2_bytes": Constant(126 * 2**20, published("B200 specification pages: 126 MB")),
    "l2_bytes_per_cycle": Constant(36.0 * 148, assumed("36 B/clk/SM as on an H200", 3700, 9500)),
    "hbm_bytes_per_second": Constant(8.0e12, published("B200 datasheet")),
    "share_burst_bytes": Constant(65536, assumed("two K/V tiles in flight", 0, 262144)),
    "cta_turnover_cycles": Constant(379, measured(H200)),
    "cta_prologue_cycles": Constant(700, assumed("start to first load", 200, 2000)),
    "cluster_sync_cycles": Constant(365, measured(H200)),
    "clc_fetch_cycles": Constant(800, assumed("a round trip to the work distributor", 300, 2000)),
    "launch_seconds": Constant(1.8e-6, measured(f"{H200}: kernel to dependent kernel, stream")),
}


def build(name: str, table: Mapping[str, Constant]) -> Machine:
    """A machine from its table of constants. Raises ``TypeError`` for a missing one."""
    values = {key: constant.value for key, constant in table.items()}
    origins = {key: constant.origin for key, constant in table.items()}
    return Machine(name=name, origins=origins, **values)  # type: ignore[arg-type]


B200 = build("B200", _B200)
B300 = build(
    "B300",
    {
        **_B200,
        "mufu_cycles_per_warp": Constant(4.0, published(f"{PAPER}: 32 per clk per SM")),
        "clock_hz": Constant(1.85e9, assumed("as B200; not published", 1.6e9, 2.0e9)),
    },
)

#: The machines ``--machine`` knows, by lower-case name.
MACHINES: Mapping[str, Machine] = {"b200": B200, "b300": B300}


def machine_named(name: str) -> Machine:
    """The machine called ``name`` (any case).

    >>> machine_named("B200").sms
    148

    Raises ``ValueError`` that lists the known names.
    """
    try:
        return MACHINES[name.lower()]
    except KeyError:
        raise ValueError(
            f"machine {name!r} is not known; use one of {', '.join(sorted(MACHINES))}"
        ) from None
