"""Work tiles: which query rows and key blocks one CTA (or pair) works through in one go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate

from fa4sim.numerics.masks import NO_MASK, BlockStep, block_range, block_steps
from fa4sim.specs import AnyDesign, Problem


@dataclass(frozen=True)
class WorkTile:
    """One work tile of one CTA or pair.

    ``steps`` are its K/V blocks in processing order with the masking of each; a split without
    blocks has none. ``head`` counts query heads, or K/V heads when they are packed. ``split`` says
    which of its sequence's ``splits`` parts of the keys it is. ``rows`` of its rows of Q belong to
    the problem; the others are padding. The K/V of its first ``hbm_steps`` steps comes
    from HBM, for ``kv_sharers`` clusters at once (on average, where tiles visit different parts of
    the same keys); that of the others is in L2, where somebody else has brought it. Q always comes
    from HBM. O goes there, or as a partial result that is read at once only to L2 (``o_to_l2``).
    ``active_sms`` share L2 and HBM while it runs. A warp takes ``lookup_cycles`` to find out that
    this is its tile. ``page_phase`` says where in the repeating pattern of page table reads its
    last block stands, or that of another tile whose reads take as long, one by one.
    """

    index: int
    m_block: int
    head: int
    batch: int
    steps: tuple[BlockStep, ...]
    split: int = 0
    splits: int = 1
    rows: int = 1 << 30
    o_to_l2: bool = False
    lookup_cycles: int = 0
    page_phase: int = 0
    hbm_steps: int = 0
    kv_sharers: float = 1.0
    active_sms: int = 1

    @property
    def blocks(self) -> int:
        """K/V blocks this tile works through: at least 1, unless it is an empty split."""
        return len(self.steps)

    @property
    def first_block(self) -> int:
        """Number of the block that comes first: the last one of its range (-1 of an empty one)."""
        return self.steps[0].n_block if self.steps else -1

    def rows_of(self, design: AnyDesign, stage: int, rank: int = 0) -> int:
        """Rows of one MMA tile (a stage of a CTA) that belong to the problem."""
        before = (stage * design.cta_group + rank) * design.tile_m
        return max(0, min(design.tile_m, self.rows - before))

    @property
    def shape(self) -> tuple[object, ...]:
        """What decides how long this tile takes: equal shapes take equal time."""
        return (
            mask_runs(self.steps),
            self.page_phase,
            self.rows,
            self.o_to_l2,
            self.lookup_cycles,
            min(self.hbm_steps, self.blocks),
            self.kv_sharers,
            self.active_sms,
        )

    def at(self, **changes: object) -> WorkTile:
        """This tile with some fields changed."""
        return replace(self, **changes)  # type: ignore[arg-type]


@lru_cache(maxsize=4096)
def mask_runs(steps: tuple[BlockStep, ...]) -> tuple[tuple[str, int], ...]:
    """The masking kinds of a tile's steps as (kind, how many in a row)."""
    runs: list[tuple[str, int]] = []
    for step in steps:
        if runs and runs[-1][0] == step.kind:
            runs[-1] = (step.kind, runs[-1][1] + 1)
        else:
            runs.append((step.kind, 1))
    return tuple(runs)


def without_most_of_its_steady_part(tile: WorkTile, most: int) -> tuple[WorkTile, int]:
    """The tile with at most ``most`` unmasked steps in a row, and how many steps that left out."""
    start = 0
    kept: list[BlockStep] = []
    for kind, count in mask_runs(tile.steps):
        keep = min(count, most) if kind == NO_MASK else count
        kept += tile.steps[start : start + keep]
        start += count
    from_hbm = len(kept) if tile.hbm_steps >= tile.blocks else min(tile.hbm_steps, len(kept))
    return tile.at(steps=tuple(kept), hbm_steps=from_hbm), tile.blocks - len(kept)


def middle_tile(tiles: Sequence[WorkTile]) -> WorkTile:
    """The median of the tiles by number of blocks, each counted for its blocks."""
    ordered = sorted(tiles, key=lambda tile: tile.blocks)
    sums = list(accumulate(tile.blocks for tile in ordered))
    return next(tile for tile, upto in zip(ordered, sums, strict=True) if 2 * upto >= sums[-1])


def packed_rows(problem: Problem, design: AnyDesign, batch: int) -> int:
    """Rows of Q that one (head, sequence) brings: with packing, every head of the group."""
    seqlen_q, _ = problem.lengths(batch)
    return seqlen_q * (problem.group if design.pack_gqa else 1)


def grid_heads(problem: Problem, design: AnyDesign) -> int:
    """Heads the grid counts: query heads, or K/V heads when query heads are packed."""
    assert problem.kv_heads is not None
    return problem.kv_heads if design.pack_gqa else problem.heads


def kv_head_of(problem: Problem, design: AnyDesign, head: int) -> int:
    """The K/V head that grid head ``head`` reads."""
    return head if design.pack_gqa else head // problem.group


def m_blocks(problem: Problem, design: AnyDesign, batch: int) -> int:
    """Work tiles along the queries of one (head, sequence)."""
    return -(-packed_rows(problem, design, batch) // (design.work_rows * design.cta_group))


def work_tile(
    problem: Problem, design: AnyDesign, index: int, m_block: int, head: int, batch: int,
    split: int = 0, splits: int = 1,
) -> WorkTile:  # fmt: skip
    """The work tile at grid coordinates ``(m_block, head, batch)``, or one split of it.

    A kernel for splits skips a tile that sees no block even where a sequence has one split.
    """
    seqlen_q, seqlen_k = problem.lengths(batch)
    masked = problem.causal or problem.is_local
    tile_rows = design.work_rows * design.cta_group
    steps = _steps(  # without a mask of rows every tile of a sequence has the same
        m_block if masked else 0, tile_rows, design.tile_n, seqlen_q, seqlen_k,
        problem.causal, problem.window, problem.group if design.pack_gqa else 1, split, splits,
        skips_empty=design.num_splits > 1,
    )  # fmt: skip
    rows = min(tile_rows, packed_rows(problem, design, batch) - m_block * tile_rows)
    return WorkTile(index, m_block, head, batch, steps, split, splits, rows)


@lru_cache(maxsize=8192)
def _steps(
    m_block: int,
    rows: int,
    tile_n: int,
    seqlen_q: int,
    seqlen_k: int,
    causal: bool,
    window: tuple[int | None, int | None] | None,
    ratio: int,
    split: int,
    splits: int,
    skips_empty: bool,
) -> tuple[BlockStep, ...]:
    where = (m_block, rows, tile_n, seqlen_q, seqlen_k, causal, window, ratio, split, splits)
    first, end = block_range(*where)
    return () if skips_empty and first >= end else tuple(block_steps(*where))


def useful_rows(design: AnyDesign, tiles: Sequence[WorkTile]) -> float:
    """Of the rows that the tensor pipe multiplies, the fraction that the problem has; 1 for none.

    Rows count for every K/V block they are multiplied with.
    """
    rows = design.work_rows * design.cta_group
    done = sum(tile.blocks for tile in tiles) * rows
    return sum(min(rows, tile.rows) * tile.blocks for tile in tiles) / done if done else 1.0


def needs_mask(step: BlockStep) -> bool:
    """Whether the softmax applies a mask in this step."""
    return step.kind != NO_MASK


def first_row(design: AnyDesign, tile: WorkTile, stage: int, rank: int) -> int:
    """First (packed) row of stage ``stage`` in CTA ``rank`` of the pair."""
    return ((tile.m_block * design.q_stages + stage) * design.cta_group + rank) * design.tile_m
