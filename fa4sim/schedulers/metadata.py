"""What the prepare kernel works out for a batch of variable length, before attention runs.

One CTA reads all lengths and decides, for each sequence by itself, into how many splits its keys
are cut: so many that every SM gets about an equal number of K/V blocks. Whoever asked for splits
only sets the most there may be.

Source: ``FlashPrepareScheduler`` of flash_attn/cute/prepare_scheduler.py at flash-attention commit
0251105a.
"""

from __future__ import annotations

from collections.abc import Sequence

#: Sequences that one warp looks at in one go (its last lane has none), and warps of the CTA.
GROUP = 31
MOST_WARPS = 32

#: With more sequences than one CTA holds, nothing is split.
MOST_SEQUENCES = GROUP * MOST_WARPS


def splits_by_sequence(
    m_blocks: Sequence[int], n_blocks: Sequence[int], heads: int, sms: int, most: int
) -> list[int]:
    """Splits of each sequence.

    Args:
        m_blocks: tiles of 128 (packed) rows of each sequence, whatever a work tile holds.
        n_blocks: K/V blocks of each sequence.
        heads: heads of the grid (K/V heads if query heads are packed).
        sms: SMs of the GPU.
        most: splits that were asked for, or that the heuristic gave for the longest sequence.

    >>> splits_by_sequence([1] * 3, [1000, 100, 1], heads=8, sms=148, most=18)
    [15, 2, 1]
    """
    if most == 1 or len(m_blocks) > MOST_SEQUENCES:
        return [1] * len(m_blocks)
    total = sum(m * n for m, n in zip(m_blocks, n_blocks, strict=True))
    margin = max(sms / 128 + 0.001, 1.1)
    per_sm = max(1, int(total * margin * heads / sms))
    return [max(1, min(-(-n // per_sm), most)) for n in n_blocks]


def prepare_warps(batch: int) -> int:
    """Warps of the prepare kernel's CTA: one for 31 sequences, rounded up to a power of two."""
    needed = max(1, min(-(-batch // GROUP), MOST_WARPS))
    return 1 << (needed - 1).bit_length()
