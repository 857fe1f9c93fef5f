"""Rows from anywhere in global memory into a tile in shared memory, copied by threads (`cp.async`).

TMA takes rows at equal distances, a multiple of which a tile begins at. Rows of packed query heads
whose number does not divide a tile are no such box. So the threads of the load warps copy
them, 16 bytes at a time, into the swizzled slabs in which TMA would have put them.

As many threads as a slab has 16-byte pieces stand side by side on a row, so that a warp reads whole
lines. If each computed the address of the row that it copies from, all of them would compute the
same one. Instead the computation is transposed: each thread computes addresses of other rows, all
threads together each row's once, and hands them around by shuffles.

Source: flash_attn/cute/paged_kv.py, and pull request 2104 of flash-attention.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import gcd
from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass import Int32, Int64

from fa4kernel.forward.config import TILE, WARP, swizzle_bytes

PIECE = 16  # bytes that a thread copies at a time
ATOM = 8  # rows after which the swizzle repeats


@dataclass(frozen=True)
class Team:
    """The threads that fill a tile together.

    Attributes:
        threads: how many: 32, 64 or 128.
        per_row: how many of them stand side by side on a row.
        thread: the number of the one that asks (Int32).
    """

    threads: int
    per_row: int
    thread: Any

    @property
    def groups(self) -> int:
        """Rows that are copied at a time."""
        return self.threads // self.per_row

    @property
    def entries(self) -> int:
        """Addresses that each thread computes for a tile."""
        return TILE // self.threads

    def rows(self) -> list[Any]:
        """The rows whose addresses this thread computes; its neighbours copy them, too.

        Row i * groups + g, the i-th of those that group g copies, is looked after by thread
        i % per_row of the group.
        """
        first = self.thread % self.per_row * self.groups + self.thread // self.per_row
        return [first + entry * self.threads for entry in range(self.entries)]

    def handed_around(self, values: list[Any], nth: int) -> Any:
        """Of the `nth` row that this thread copies what its neighbour computed.

        Args:
            values: a number for each of `rows`.
            nth: of TILE / groups.
        """
        clamp = (WARP - self.per_row) << 8 | WARP - 1  # lanes of the same group only
        return cute.arch.shuffle_sync(
            values[nth // self.per_row], nth % self.per_row, mask_and_clamp=clamp
        )


def team(threads: int, widths: tuple[int, ...], thread: Any) -> Team:
    """The team that fills tiles of so many bytes a row each.

    >>> team(64, (256, 256), 0).per_row, team(128, (192, 192), 0).per_row
    (8, 4)
    """
    return Team(threads, gcd(*widths, 128) // PIECE, thread)


def copy(
    team: Team, target: Any, shape: tuple[int, int], addresses: list[Any], present: Any
) -> None:
    """Start this thread's share of the copies of a tile.

    Args:
        team: the threads, of which this is one.
        target: address of the tile in shared memory (Int32).
        shape: bytes that a row has in shared memory, and in global memory; of what there is not,
            zeros are written.
        addresses: of the rows `team.rows()` in global memory (Int64); valid ones, even if the row
            is not there.
        present: rows from this one on are not there.
    """
    row_bytes, there = shape
    lane, group = team.thread % team.per_row, team.thread // team.per_row
    width = swizzle_bytes(row_bytes, 1)
    place = _places(team, target, width)
    last = row_bytes // PIECE - team.per_row  # of the pieces that lane 0 copies
    padding = Int32(PIECE)
    if row_bytes > there:
        padding = cutlass.select_(last + lane < there // PIECE, padding, Int32(0))
    for nth in range(TILE // team.groups):
        row = nth * team.groups
        source = team.handed_around(addresses, nth) + Int64(lane * PIECE)
        pieces = []
        for piece in range(0, last + 1, team.per_row):
            slab, within = divmod(piece * PIECE, width)
            offset = slab * TILE * width + row * width
            size = "padded" if row_bytes > there and piece == last else "size"
            pieces.append((place(nth, within), offset, piece * PIECE, size))
        _start(pieces, source, present - group, row, padding)


def _places(team: Team, target: Any, width: int) -> Callable[[int, int], Any]:
    """Where this thread's pieces lie, but for what is known when the kernel is compiled.

    Rows whose numbers are equal modulo 8 are swizzled alike, so there are few different places.
    """
    lane, group = team.thread % team.per_row, team.thread // team.per_row
    found: dict[tuple[int, int], Any] = {}

    def place(nth: int, within: int) -> Any:
        """The address of the piece at column byte `within` of the first slab in row `nth`."""
        key = nth * team.groups % ATOM, within
        if key not in found:
            line = (key[0] + group) * width >> 7  # the swizzle exchanges pieces of 128-byte lines
            column = within | lane * PIECE
            swizzled = column ^ (line & width // PIECE - 1) * PIECE
            found[key] = target + group * width + swizzled
        return found[key]

    return place


def _start(pieces: list[Any], source: Any, present: Any, row: int, padding: Any) -> None:
    """Start the copies of this thread's pieces of a row.

    Whether the row is there is asked here, for every row again: the compiler would ask once for K,
    V and Q, and run out of registers to keep the answers in.

    Args:
        pieces: of each its place in shared memory, how far from there, how far from `source`, and
            what it takes of global memory: "size", or "padded" if columns may be missing.
        source: where the first begins in global memory.
        present: rows from this one on are not there.
        row: the row's number.
        padding: bytes of the padded piece that there are.
    """
    copies = " ".join(
        f"cp.async.cg.shared.global [{{$r{number + 3}}}+{offset}], [{{$r0}}+{ahead}], {PIECE}, "
        f"{size};"
        for number, (_, offset, ahead, size) in enumerate(pieces)
    )
    cute.arch.inline_ptx(
        "{.reg .pred there; .reg .b32 size, padded; "
        f"setp.lt.s32 there, {row}, {{$r1}}; selp.b32 size, {PIECE}, 0, there; "
        f"and.b32 padded, size, {{$r2}}; {copies}}}",
        read_only_args=[source, present, padding, *(place for place, *_ in pieces)],
    )
