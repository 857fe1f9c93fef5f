"""What is fixed when the Hopper kernel is compiled: types, tile sizes, masks, warps, registers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fa4kernel.forward.config import SCHEDULERS
from fa4sim.specs.checks import quoted, whole

WARP, WARPGROUP = 32, 128
ROWS = 64  # of Q for each consumer: what one wgmma multiplies
SMALL_BYTES = 1024  # barriers
ALIGNMENT = 1024  # of tiles: the pattern of the widest swizzle repeats so often

#: Phases whose end a traced kernel writes down. Of a consumer, for each block: it has begun, K is
#: there, its turn has come, Q K and P V (of the block before) are started, V is there, S is
#: complete, the softmax is done, O is complete, P is ready; for a tile's last block also: V is
#: there, O is complete, O is on its way. Of the load warp: K's slot is free, K is asked for, V's
#: slot is free, V is asked for.
STAMPS = (
    "begin", "K", "turn", "QK", "V", "PV", "S", "softmax", "O", "P", "last V", "last O", "stored",
)  # fmt: skip
LOAD_STAMPS = {"K free": 0, "K asked": 1, "V free": 2, "V asked": 3}


@dataclass(frozen=True)
class Config:
    """One kernel to compile.

    `consumers` warpgroups multiply 64 rows of Q each with every block of `tile_n` keys, which one
    producer warp loads into rings of `kv_stages` slots. With `overlap`, Q K of the next block runs
    beside the softmax of this one. With `ping_pong`, consumers take turns at the tensor core.
    `registers` are those of a consumer thread, and of a producer thread. `group` query heads share
    a K/V head. A window bounds the side of `window_left` or `window_right`; causal is the latter
    with no key to the right. With `trace` the kernel writes down when each phase ended, see
    `STAMPS`.

    Raises:
        ValueError: the kernel has no such form.

    >>> Config(tile_n=176).shared_bytes
    214016
    """

    dtype: str = "bf16"
    head_dim: int = 128
    head_dim_v: int = 128
    group: int = 1
    causal: bool = False
    window_left: bool = False
    window_right: bool = False
    lse: bool = True
    consumers: int = 2
    tile_n: int = 128
    kv_stages: int = 2
    overlap: bool = True
    ping_pong: bool = True
    scheduler: str = "static_persistent"
    registers: tuple[int, int] = (240, 24)
    trace: bool = False

    def __post_init__(self) -> None:
        for name in ("head_dim", "head_dim_v", "group", "consumers", "tile_n", "kv_stages"):
            object.__setattr__(self, name, whole(name, getattr(self, name)))
        object.__setattr__(self, "registers", _pair(self.registers))
        for name, value, allowed in (
            ("dtype", self.dtype, ("bf16", "fp16")),
            ("scheduler", self.scheduler, SCHEDULERS[:3]),
            ("consumers", self.consumers, (2, 3)),
        ):
            if value not in allowed:
                words = ", ".join(str(each) for each in allowed)
                raise ValueError(f"{name}={value!r}: the Hopper kernel knows {words}")
        for name in ("head_dim", "head_dim_v"):
            value = getattr(self, name)
            if value % 16 or not 16 <= value <= 128:
                raise ValueError(f"{name}={value}: must be a multiple of 16 from 16 to 128")
        if self.tile_n % 16 or not 16 <= self.tile_n <= 256:
            raise ValueError(f"tile_n={self.tile_n}: must be a multiple of 16 from 16 to 256")
        if self.k_bytes % ALIGNMENT or self.v_bytes % ALIGNMENT:
            raise ValueError(
                f"tile_n={self.tile_n} with head dims ({self.head_dim}, {self.head_dim_v}): K and "
                f"V tiles must be multiples of {ALIGNMENT} bytes; use tile_n=128"
            )
        if self.kv_stages < 2:
            raise ValueError(f"kv_stages={self.kv_stages}: must be 2 or more")
        if self.shared_bytes > 232_448:
            raise ValueError(
                f"kv_stages={self.kv_stages} of {self.tile_n} keys need {self.shared_bytes:,} "
                "bytes of shared memory with Q; there are 232,448"
            )

    # The shared code of tiles and tensors asks for these.
    cta_group = 1
    ratio = 1
    varlen_q = varlen_k = sink = pack_gqa = split = False

    @property
    def masked(self) -> bool:
        """Whether a mask depends on the row."""
        return self.window_left or self.window_right

    @property
    def tile_rows(self) -> int:
        """Rows of a work tile."""
        return ROWS * self.consumers

    @property
    def threads(self) -> int:
        """Of a CTA: the producer's warpgroup and the consumers'."""
        return WARPGROUP * (1 + self.consumers)

    @property
    def q_bytes(self) -> int:
        """Bytes of one consumer's Q tile, in whose place its O goes at the end."""
        return 2 * ROWS * max(self.head_dim, self.head_dim_v)

    @property
    def k_bytes(self) -> int:
        """Bytes of a K tile."""
        return 2 * self.tile_n * self.head_dim

    @property
    def v_bytes(self) -> int:
        """Bytes of a V tile."""
        return 2 * self.tile_n * self.head_dim_v

    @property
    def shared_bytes(self) -> int:
        """Dynamic shared memory of a CTA."""
        ring = self.kv_stages * (self.k_bytes + self.v_bytes)
        return SMALL_BYTES + self.consumers * self.q_bytes + ring


def _pair(registers: Any) -> tuple[int, int]:
    """Registers of a consumer's thread and of a producer's."""
    given = tuple(registers) if isinstance(registers, tuple | list) else ()
    if len(given) != 2:
        raise ValueError(
            f"registers={quoted(registers)} must be those of a consumer's thread and of a "
            "producer's, as (240, 24)"
        )
    return whole("registers", given[0]), whole("registers", given[1])
