"""Rows that threads copy: who copies what, who computes addresses, and where pieces go."""

from __future__ import annotations

import pytest

pytest.importorskip("cutlass", reason="needs the CuTe DSL: pip install 'fa4sim[kernel]'")

import numpy as np

from fa4kernel.emulator.tensor import swizzle
from fa4kernel.forward.config import TILE, WARP, swizzle_bytes
from fa4kernel.forward.gather import PIECE, Team, _places, team

THREADS, WIDTHS = (32, 64, 128), (32, 64, 96, 128, 160, 192, 224, 256, 384)
TEAMS = [(threads, width) for threads in THREADS for width in WIDTHS]


def members(threads: int, width: int) -> list[Team]:
    """All threads of a team, as they see it."""
    return [team(threads, (width,), thread) for thread in range(threads)]


@pytest.mark.parametrize("threads, width", TEAMS)
def test_the_address_of_each_row_is_computed_once(threads, width):
    rows = [row for each in members(threads, width) for row in each.rows()]
    assert sorted(rows) == list(range(TILE))


@pytest.mark.parametrize("threads, width", TEAMS)
def test_a_thread_gets_the_address_of_the_row_that_it_copies(threads, width, monkeypatch):
    all_rows = [each.rows() for each in members(threads, width)]

    def shuffle(value, lane, mask_and_clamp):
        """What the lane of the asking thread's segment has in the same register."""
        segment, clamp = mask_and_clamp >> 8, mask_and_clamp & 31
        first = asking.thread % WARP & segment
        assert first + lane <= first | clamp & ~segment  # it is in the segment
        source = asking.thread // WARP * WARP + first + lane
        return all_rows[source][asking.rows().index(value)]

    monkeypatch.setattr("cutlass.cute.arch.shuffle_sync", shuffle)
    for asking in members(threads, width):
        group = asking.thread // asking.per_row
        for nth in range(TILE // asking.groups):
            assert asking.handed_around(asking.rows(), nth) == nth * asking.groups + group


@pytest.mark.parametrize("threads, width", TEAMS)
def test_pieces_lie_where_tma_would_put_them_and_none_is_missing(threads, width):
    slab_width = swizzle_bytes(width, 1)
    seen = set()
    for each in members(threads, width):
        lane, group = each.thread % each.per_row, each.thread // each.per_row
        place = _places(each, 0, slab_width)
        for nth in range(TILE // each.groups):
            for piece in range(0, width // PIECE, each.per_row):
                slab, within = divmod(piece * PIECE, slab_width)
                ahead = (slab * TILE + nth * each.groups) * slab_width
                row, column = nth * each.groups + group, within + lane * PIECE
                linear = np.array([(slab * TILE + row) * slab_width + column])
                put = place(nth, within) + ahead
                assert put == swizzle.apply(linear, f"{slab_width}B")[0]
                seen.add(put)
    assert seen == set(range(0, TILE * width, PIECE))


def test_a_team_serves_tiles_of_two_widths():
    both = team(64, (256, 192), 0)
    assert both.per_row == 4 and both.groups == 16 and both.entries == 2
