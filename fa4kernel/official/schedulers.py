"""How tiles are handed to CTAs: the scheduler a variant uses, its parameters and its grid.

Each function returns the scheduler's kernel parameters in order, and the grid. Source:
flash_attn/cute/tile_scheduler.py; the choice is made in flash_fwd_sm100.py, ``__init__``.
"""

from __future__ import annotations

import math
from typing import Any

from fa4kernel.official.problem import L2_BYTES, Ints, Problem
from fa4kernel.official.views import Divmod, View

Grid = tuple[int, int, int]
Parameters = list[Any]


def schedule(problem: Problem, metadata: dict[str, Ints]) -> tuple[Parameters, Grid]:
    """Parameters and grid of the scheduler that the problem's variant was compiled with.

    Args:
        problem: the call.
        metadata: arrays of the preparing kernel, by name; empty if it doesn't run.
    """
    v = problem.variant
    clc = uses_clc(problem)
    persistent = is_static_persistent(problem)
    if v.is_varlen_q and not clc and "semaphore" in metadata:
        return _dynamic(problem, metadata)
    if v.is_varlen_q and not clc and persistent:
        return _static_persistent(problem)
    if v.is_varlen_q:
        return _single_tile_varlen(problem, metadata)
    if v.causal or v.local or clc:
        return _longest_first(problem, clc)
    if persistent:
        return _static_persistent(problem)
    return _single_tile(problem)


def is_static_persistent(problem: Problem) -> bool:
    """Whether CTAs stride over the tiles (interface.py, ``is_static_persistent``)."""
    v = problem.variant
    if problem.is_split:
        return False
    return not (v.causal or v.local or v.is_varlen_q) or v.rows != "many"


def uses_clc(problem: Problem) -> bool:
    """Whether tiles come by cluster launch control (interface.py, ``use_clc_scheduler``)."""
    v = problem.variant
    varlen = v.is_varlen_q or v.varlen_k or v.used_k
    refused = (varlen and v.ratio == 1) or not (varlen or v.causal or v.local)
    return v.clc and not refused and problem.tma_kv


def _static_persistent(problem: Problem) -> tuple[Parameters, Grid]:
    cluster = problem.cluster
    clusters = math.ceil(problem.tile_blocks / cluster)
    total = clusters * problem.tile_heads * problem.batch
    grid = min(problem.sms // cluster * cluster, total * cluster)
    return [Divmod(clusters), Divmod(problem.tile_heads), total], (grid, 1, 1)


def _single_tile(problem: Problem) -> tuple[Parameters, Grid]:
    blocks, heads, splits = problem.tile_blocks, problem.tile_heads, problem.splits
    parameters = [blocks, heads, problem.batch, splits, Divmod(splits)]
    return parameters, (blocks, heads * splits, problem.batch)


def _longest_first(problem: Problem, clc: bool) -> tuple[Parameters, Grid]:
    v, splits = problem.variant, problem.splits
    blocks, heads, batch = problem.tile_blocks, problem.tile_heads, problem.batch
    head_bytes = _loaded_keys(problem) * (v.head_dim + v.head_dim_v) * problem.k.itemsize
    section = 1 if head_bytes > L2_BYTES else 1 << (L2_BYTES // head_bytes).bit_length() - 1
    sections, rest = divmod(heads * batch, section)
    parameters = [
        blocks * heads * batch,
        splits,
        blocks,
        heads,
        batch,
        section,
        Divmod(heads),
        Divmod(section),
        Divmod(section * blocks),
        Divmod(max(rest, 1)),
        sections,
        Divmod(splits),
    ]
    if clc:
        return parameters, (blocks, heads, batch * splits)
    return parameters, (blocks * heads * batch, splits, 1)


def _loaded_keys(problem: Problem) -> int:
    """Keys of a sequence as the host function sees them."""
    if problem.page_table is not None:
        return int(problem.k.shape[1] * problem.page_table.shape[1])
    return int(problem.k.shape[-3])


def _single_tile_varlen(problem: Problem, metadata: dict[str, Ints]) -> tuple[Parameters, Grid]:
    parameters = _varlen(problem, metadata)
    return parameters, (_most_tiles(problem) * problem.tile_heads, problem.splits, 1)


def _dynamic(problem: Problem, metadata: dict[str, Ints]) -> tuple[Parameters, Grid]:
    parameters = [*_varlen(problem, metadata), metadata["semaphore"]]
    tiles = _most_tiles(problem) * problem.tile_heads * problem.splits
    return parameters, (min(problem.sms, tiles), 1, 1)


def _varlen(problem: Problem, metadata: dict[str, Ints]) -> Parameters:
    """Parameters of ``VarlenDecoder``."""
    v = problem.variant
    block_bytes = (v.head_dim + v.head_dim_v) * problem.k.itemsize * problem.tile_keys
    numbers = [
        _total_q(problem),
        problem.tile_heads,
        problem.batch,
        problem.splits,
        L2_BYTES // block_bytes,
    ]
    arrays = (
        problem.cu_seqlens_q,
        problem.seqused_q,
        metadata.get("num_splits"),
        metadata.get("heads_in_l2"),
    )
    return [*numbers, *(View.of(array, (0,)) for array in arrays if array is not None)]


def _total_q(problem: Problem) -> int:
    """Query rows of all sequences, as packed."""
    return int(problem.q.size) // int(problem.q.shape[-1] * problem.heads) * problem.pack_ratio


def _most_tiles(problem: Problem) -> int:
    """Tiles of one head, at most."""
    rows = problem.tile_rows
    return (_total_q(problem) + problem.batch * (rows - 1)) // rows
