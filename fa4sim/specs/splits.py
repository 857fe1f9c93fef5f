"""Split-KV: into how many parts the kernel cuts the keys of a work tile.

A decode step has one work tile per sequence and K/V head, which leaves most of a GPU without work.
Cut into splits, every tile becomes several, each over a part of its keys; a second kernel combines
their partial results.

Source: ``num_splits_heuristic`` and ``_get_fwd_config`` of flash_attn/cute/interface.py at
flash-attention commit 0251105a.
"""

from __future__ import annotations

from fa4sim.specs.problem import Problem

#: The heuristic's own limit, and the number of K/V blocks up to which it never splits.
MOST_BY_HEURISTIC = 128
FEW_BLOCKS = 4

#: With unequal head dims the kernel splits only from this many blocks on, of half the keys each.
BLOCKS_FOR_UNEQUAL_DIMS = 64


def keys_loaded(problem: Problem, tile_m: int = 128) -> int:
    """Keys of the longest sequence that a work tile may load, as the heuristic counts them.

    With a window these are its two sides and a tile of rows. A side of 0 counts as unbounded, as
    it does in the source (``window_size_right or max_seqlen_k``).

    >>> (
    ...     keys_loaded(Problem(seqlen_k=9000, window=(255, 256))),
    ...     keys_loaded(Problem(seqlen_k=9000, window=(255, 0))),
    ... )
    (640, 9000)
    """
    longest = problem.seqlen_k or 0
    if problem.window is None:
        return longest
    left, right = (side or longest for side in problem.window)
    return max(0, min(longest, left + right + 1 + tile_m))


def heuristic_splits(work_tiles: int, sms: int, key_blocks: int) -> int:
    """How many splits fill the SMs once: ``min(sms // work_tiles, 128, key_blocks)``, at least 1.

    Args:
        work_tiles: work tiles without splitting (sequences x K/V heads x blocks of queries).
        sms: SMs of the GPU.
        key_blocks: K/V blocks of the longest sequence; up to 4 are never split.

    >>> heuristic_splits(1, 148, 1024), heuristic_splits(40, 148, 1024), heuristic_splits(1, 148, 4)
    (128, 3, 1)
    """
    if key_blocks <= FEW_BLOCKS or work_tiles == 0:
        return 1
    return max(1, min(sms // work_tiles, MOST_BY_HEURISTIC, key_blocks))


def resolve_splits(
    problem: Problem,
    sms: int,
    *,
    packed: bool,
    rows: int,
    tile_n: int,
    tile_n_given: bool = False,
) -> tuple[int, int]:
    """``(num_splits, tile_n)`` that the kernel settles on for ``problem.num_splits``.

    With unequal head dims it drops a request to split below 64 blocks of keys; from there on it
    halves ``tile_n``, so that O in float32 fits, and asks the heuristic, whatever was requested.

    Args:
        sms: SMs of the GPU.
        packed: whether the query heads of a group are packed into one tile.
        rows: rows of one CTA's work tile.
        tile_n: keys of a K/V block.
        tile_n_given: whether ``tile_n`` is asked for, and therefore stays.

    >>> long = Problem(heads=8, kv_heads=1, seqlen_q=1, seqlen_k=65536, num_splits=0)
    >>> resolve_splits(long, 148, packed=True, rows=128, tile_n=128)
    (128, 128)
    """
    assert problem.kv_heads is not None
    queries = problem.seqlen_q * (problem.group if packed else 1)
    tiles = problem.batch * problem.kv_heads * -(-queries // rows)
    keys = keys_loaded(problem)
    splits = problem.num_splits or heuristic_splits(tiles, sms, -(-keys // tile_n))
    if splits > 1 and problem.head_dim != problem.dim_v:
        if -(-keys // tile_n) < BLOCKS_FOR_UNEQUAL_DIMS:
            return 1, tile_n
        tile_n = tile_n if tile_n_given else 64
        splits = heuristic_splits(tiles, sms, -(-keys // tile_n))
    return splits, tile_n
