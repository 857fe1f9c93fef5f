"""What a launch hands to the kernel: tensors in global memory, sizes, scales.

Q, K, V and O are arrays (sequence, token, head, column), contiguous in this order; of a batch of
variable length, (token of all sequences, head, column) and the places where sequences begin.
TMA sees each as a tensor of rows × columns × heads × sequences. When query heads are packed, a row
is one query head of one token: row `r` is token `r // ratio`, head `r % ratio` of its group.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import cutlass.cute as cute
from cutlass import Float32, Int32, Int64
from cutlass.cute.nvgpu import cpasync, tcgen05

from fa4kernel.forward.config import TILE, Config, swizzle_bytes


class Moved(NamedTuple):
    """A tensor that TMA moves: its map, its coordinates, the layout of its tiles in SMEM."""

    copy: cute.CopyAtom
    tensor: cute.Tensor  # (rows, columns, heads, sequences)
    layout: cute.ComposedLayout  # of one tile

    def boxes(self, tile: tuple[int, int], column: Any, row: Any, head: Any, batch: Any) -> Any:
        """The tiles of one head, (rows, columns, number of the tile along the rows).

        Args:
            tile: rows and columns of a tile.
            column: which tile along the columns.
            row: row of the tensor where tile 0 begins.
            head, batch: which head, which sequence.
        """
        one = self.tensor[None, None, head, batch]
        return cute.local_tile(cute.domain_offset((row, 0), one), tile, (None, column))

    def place(self, memory: Any, dtype: Any) -> Any:
        """A tile at a place in shared memory."""
        pointer = cute.recast_ptr(memory, self.layout.inner, dtype)
        return cute.make_tensor(pointer, self.layout.outer)

    def split(self, tile: Any, boxes: Any) -> Any:
        """Views of a tile and of the boxes; their first mode is what one copy moves."""
        tile, boxes = cute.group_modes(tile, 0, 2), cute.group_modes(boxes, 0, 2)
        return cpasync.tma_partition(self.copy, 0, cute.make_layout(1), tile, boxes)


class Sizes(NamedTuple):
    """Numbers of a launch."""

    seqlen_q: Int32  # of every sequence; of a batch of variable length, the longest
    seqlen_k: Int32  # likewise; of sequences whose lengths `seqused_k` tells, the most there may be
    heads: Int32  # of the grid: query heads, or K/V heads if these are packed
    batch: Int32
    m_blocks: Int32  # work tiles along the rows of a head
    window_left: Int32  # keys to the left of the diagonal that a row sees
    window_right: Int32
    section: Int32  # heads that share L2 at a time


class Pages(NamedTuple):
    """How sequences find their keys if K and V lie in pages."""

    table: Any  # pointer to int32 (sequences, width), the pages of each sequence in their order
    width: Int32
    page_size: Int32  # keys of a page


class Arguments(NamedTuple):
    """Everything a launch hands over; `None` for what this kernel does not take."""

    q: Any  # Moved, or where threads copy Q, its first row, a tensor (columns)
    k: Any  # likewise
    v: Any
    o: Any  # Moved, where TMA writes O
    out: Any  # the first row of O, a tensor (columns), where threads write it themselves
    lse: Any  # pointer to float32 (sequence, query head, token), natural logarithms
    sink: Any  # pointer to float32 (query head)
    cu_seqlens_q: Any  # pointer to int32 (sequences + 1)
    cu_seqlens_k: Any
    sizes: Sizes
    total_q: Int32  # rows of a head in `lse`
    scale_log2: Float32  # of the scores, times log2(e)
    seqused_k: Any = None  # pointer to int32 (sequences), keys of each
    pages: Any = None  # Pages
    stamps: Any = None  # pointer to int32, where a traced kernel writes the clock
    stamp_turns: Any = None  # how many blocks of a CTA there is room for
    q_descale: Any = None  # pointers to float32 (sequence, K/V head): factors of FP8 values
    k_descale: Any = None
    v_descale: Any = None


def tile_layout(dtype: Any, rows: int, columns: int) -> Any:
    """A tile in shared memory: slabs of `swizzle_bytes`, each with all rows."""
    kinds = tcgen05.SmemLayoutAtomKind
    width = swizzle_bytes(columns, dtype.width // 8)
    kind = {128: kinds.K_SW128, 64: kinds.K_SW64, 32: kinds.K_SW32}[width]
    atom = tcgen05.make_smem_layout_atom(kind, dtype)
    return cute.tile_to_shape(atom, (rows, columns), order=(0, 1))


def view(pointer: Any, ratio: int, tokens: Any, heads: Any, columns: int, batch: Any) -> Any:
    """An array (batch, tokens, heads, columns) as (rows, columns, heads / ratio, batch)."""
    token, sequence = Int64(heads * columns), Int64(heads * columns) * tokens
    rows, pitch = ((ratio, tokens), (columns, token)) if ratio > 1 else (tokens, token)
    return cute.make_tensor(
        pointer,
        cute.make_layout(
            (rows, columns, heads // ratio, batch),
            stride=(pitch, 1, columns * ratio, sequence),
        ),
    )


def describe(cfg: Config, *arrays: tuple[Any, ...]) -> list[Any]:
    """On the host: Q, K, V and O as the kernel takes them, each given by `view`'s arguments.

    Returns:
        `Moved` of each that TMA moves; of the others the first row, a tensor (columns).
    """
    group = tcgen05.CtaGroup.TWO if cfg.pair else tcgen05.CtaGroup.ONE
    load, store = cpasync.CopyBulkTensorTileG2SOp(group), cpasync.CopyBulkTensorTileS2GOp()
    described: list[Any] = []
    for array, how, operation, rows, width in zip(
        arrays,
        (cfg.q_load, cfg.kv_load, cfg.kv_load, cfg.epilogue),
        (load, load, load, store),
        (TILE, cfg.k_rows, TILE, TILE),
        (cfg.head_dim, cfg.head_dim, cfg.v_columns, cfg.head_dim_v),
        strict=True,
    ):
        if how == "tma":
            tensor = view(*array)
            layout = tile_layout(tensor.element_type, rows, width)
            copy, coordinates = cpasync.make_tiled_tma_atom(
                operation, tensor, layout, (rows, width)
            )
            described.append(Moved(copy, coordinates, layout))
        else:
            pointer, _, _, _, columns, _ = array
            described.append(cute.make_tensor(pointer, cute.make_layout(columns)))
    return described
