"""How many bytes a token of a model's KV cache takes."""

from __future__ import annotations

from dataclasses import dataclass

from fa4sim.specs.checks import one_of, whole_between
from fa4sim.specs.problem import DTYPE_BYTES

#: Bytes of a page number; the kernel's table holds 32-bit integers.
TABLE_ENTRY_BYTES = 4
MOST = 1_000_000


@dataclass(frozen=True)
class CacheModel:
    """The part of a model that decides on its KV cache, on one GPU.

    ``kv_heads`` are those that this GPU keeps (with tensor parallelism a part of them).
    ``head_dim_v`` is ``head_dim`` if not given. A page holds its tokens' K and V of every layer,
    and one page table serves all layers.

    Raises ``ValueError`` for a count below 1 or an unknown dtype.

    >>> CacheModel(layers=32, kv_heads=8).token_bytes
    131072
    """

    layers: int = 80
    kv_heads: int = 8
    head_dim: int = 128
    head_dim_v: int | None = None
    dtype: str = "bf16"

    def __post_init__(self) -> None:
        for name in ("layers", "kv_heads", "head_dim"):
            object.__setattr__(self, name, whole_between(name, getattr(self, name), 1, MOST))
        if self.head_dim_v is not None:
            given = whole_between("head_dim_v", self.head_dim_v, 1, MOST)
            object.__setattr__(self, "head_dim_v", given)
        one_of("dtype", self.dtype, tuple(DTYPE_BYTES))

    @property
    def token_bytes(self) -> int:
        """Bytes of K and V of one token in all layers."""
        dims = self.head_dim + (self.head_dim if self.head_dim_v is None else self.head_dim_v)
        return self.layers * self.kv_heads * dims * DTYPE_BYTES[self.dtype]

    def page_bytes(self, page_size: int) -> int:
        """Bytes of a page of so many tokens in all layers."""
        return page_size * self.token_bytes

    def table_bytes(self, sequences: int, longest: int, page_size: int) -> int:
        """Bytes of a page table (sequences, pages of the longest one).

        >>> CacheModel().table_bytes(100, 1000, 16)
        25200
        """
        return TABLE_ENTRY_BYTES * sequences * -(-longest // page_size)
