"""What is fixed when the combine kernel is compiled."""

from __future__ import annotations

from dataclasses import dataclass

from fa4sim.numerics.splits import MOST_SPLITS

THREADS = 256
WARP = 32
VECTOR = 4  # float32 of one 16-byte copy: the columns of a thread
STAGES = 4  # of partial O on its way, per thread

DTYPES = ("bf16", "fp16")


@dataclass(frozen=True)
class Config:
    """One kernel to compile.

    Attributes:
        dtype: of O.
        head_dim_v: columns of O.

    Raises:
        ValueError: the kernel has no such form.
    """

    dtype: str = "bf16"
    head_dim_v: int = 128

    def __post_init__(self) -> None:
        if self.dtype not in DTYPES:
            raise ValueError(f"dtype={self.dtype!r}: results are combined to {', '.join(DTYPES)}")
        if self.head_dim_v % 8 or not 8 <= self.head_dim_v <= 128:
            raise ValueError(
                f"head_dim_v={self.head_dim_v}: must be a multiple of 8 from 8 to 128, as a row is "
                "combined by at most one warp"
            )

    @property
    def lanes(self) -> int:
        """Threads that share a row: a warp, or half of one.

        >>> Config(head_dim_v=64).lanes, Config(head_dim_v=72).lanes
        (16, 32)
        """
        return WARP // 2 if self.head_dim_v <= WARP // 2 * VECTOR else WARP

    @property
    def rows(self) -> int:
        """Rows that a CTA combines."""
        return THREADS // self.lanes

    @property
    def stage_bytes(self) -> int:
        """Shared memory for partial O on its way."""
        return 4 * VECTOR * STAGES * THREADS

    @property
    def shared_bytes(self) -> int:
        """Shared memory: partial O on its way, and weights of all splits."""
        return self.stage_bytes + 4 * MOST_SPLITS * self.rows
