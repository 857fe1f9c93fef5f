"""What the parts of the official kernel are called: as everywhere in this project.

Barriers have the names of :mod:`fa4sim.pipelines.fa4.barriers`, slots and tensors those of the
simulator. The kernel's own names for its pipelines are those of its source.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fa4kernel.emulator.labels import Labels, Ring

#: By what flash_fwd_sm100.py and tile_scheduler.py call them.
BARRIERS: dict[str | int, str] = {
    "pipeline_q.full": "load_Q_full",
    "pipeline_q.empty": "load_Q_empty",
    "pipeline_kv.full": "load_KV_full",
    "pipeline_kv.empty": "load_KV_empty",
    "pipeline_s_p_o.full": "S_full",
    "pipeline_s_p_o.empty": "P_full_O_rescaled",
    "pipeline_p_lastsplit.full": "P_full_lastsplit",
    "pipeline_o_acc.full": "O_full",
    "pipeline_sm_stats.empty": "softmax_stats_empty",
    "pipeline_o_epi.full": "O_epi_full",
    "pipeline_o_epi.empty": "O_epi_empty",
    "pipeline_load_epi.full": "load_epi_full",
    "pipeline_load_epi.empty": "load_epi_empty",
    "_pipeline.full": "clc_full",
    "_pipeline.empty": "clc_empty",
    "tmem.free": "tmem_dealloc",
}
#: named_barrier.py, ``NamedBarrierFwdSm100``.
NAMED = {1: "Epilogue", 2: "TmemPtr", **{3 + warp: f"SoftmaxStatsW{warp}" for warp in range(8)}}
ROLES: dict[str | int, str] = {"store": "epilogue", "prefetch": "scheduler"}
RINGS = {
    "load_Q_full": Ring("sQ", "load_Q_empty"),
    "load_KV_full": Ring("sKV", "load_KV_empty"),
}
#: The kernel for head dim 256 has other pipelines; these two are as in the others.
BARRIERS_256: dict[str | int, str] = {
    "load_q.full": "load_Q_full",
    "load_q.empty": "load_Q_empty",
    "load_kv.full": "load_KV_full",
    "load_kv.empty": "load_KV_empty",
    "tmem.free": "tmem_dealloc",
}


PRODUCTS = {"shared": "S", "tensor": "O"}


def labels(
    tensors: Mapping[int, str], head_dim: int = 128, load_warps: Sequence[int] = ()
) -> Labels:
    """Labels of the forward kernel.

    Args:
        tensors: by the number of the kernel's parameter.
        head_dim: of the kernel; there is one of its own for 256.
        load_warps: those that load: of several the first may have more to do than the others.
    """
    if head_dim == 256:
        return Labels(BARRIERS_256, {}, {}, tensors, RINGS, PRODUCTS, "P")
    roles = ROLES | dict.fromkeys(load_warps, "load")
    return Labels(BARRIERS, NAMED, roles, tensors, RINGS, PRODUCTS, "P")
