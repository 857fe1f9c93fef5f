"""Every barrier of the kernel, in one table: how many there are, and what completes a phase.

Names and counts are those of the simulator (`fa4sim.pipelines.fa4.barriers`), and tested equal.
What a role does with them is in `barriers`.
"""

from __future__ import annotations

from fa4kernel.forward.config import TILE, WARP, WARPGROUP, Config

# Named barriers, by their hardware numbers; 0 is the whole CTA's.
EPILOGUE_BARRIER = 1
TMEM_PTR_BARRIER = 2
SOFTMAX_STATS_BARRIER = 3  # and the seven after it: one for each softmax warp


def table(cfg: Config) -> dict[str, tuple[int, int]]:
    """``name -> (stages, arrivals)`` of the mbarriers that this kernel has.

    >>> table(Config())["P_full_O_rescaled"]
    (2, 256)
    """
    q, c = cfg.q_stages, cfg.cta_group
    loaders = len(cfg.load_warps)
    # One thread of the load warp, and the bytes that TMA brings; or all threads that copy.
    q_full, kv_full = (1 if how == "tma" else WARP * loaders for how in (cfg.q_load, cfg.kv_load))
    rows = {
        "load_Q_full": (q, q_full),
        "load_Q_empty": (q, 1),  # a commit
        "load_KV_full": (cfg.kv_stages, kv_full),
        "load_KV_empty": (cfg.kv_stages, 1),  # a commit
        "S_full": (q, 1),  # a commit
        "P_full_O_rescaled": (q, 2 * WARPGROUP * c),  # all threads of softmax and correction
        "O_full": (q, 1),  # a commit
        "softmax_stats_empty": (q, WARPGROUP),  # all correction threads
    }
    if cfg.p_first_columns < TILE:
        rows["P_full_lastsplit"] = (q, 4 * c)  # one thread of each softmax warp
    if cfg.epilogue == "tma":
        rows["O_epi_full"] = (q, WARPGROUP)  # all correction threads
        rows["O_epi_empty"] = (q, WARP)  # the epilogue warp
    if cfg.load_epi:
        rows["load_epi_full"] = (1, 1 if cfg.epilogue == "tma" else 4)
        rows["load_epi_empty"] = (1, loaders)
    if cfg.pair:
        rows["tmem_dealloc"] = (1, WARP)  # the other CTA's MMA warp
    return rows


def named_table(cfg: Config) -> dict[str, tuple[int, int]]:
    """``name -> (hardware number, threads)`` of the named barriers that this kernel has."""
    users = cfg.softmax_threads + WARPGROUP + WARP
    rows = {"TmemPtr": (TMEM_PTR_BARRIER, users)}
    if cfg.epilogue == "correction":
        rows["Epilogue"] = (EPILOGUE_BARRIER, WARPGROUP)
    for warp in range(4 * cfg.q_stages):
        rows[f"SoftmaxStatsW{warp}"] = (SOFTMAX_STATS_BARRIER + warp, 2 * WARP)
    return rows
