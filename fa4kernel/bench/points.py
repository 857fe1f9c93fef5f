"""What is measured: problems, and variants of the kernel."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from fa4sim.specs import Problem

TOKENS = 32_768  # batch × length, as in the published figures
HIDDEN = 2048  # heads × head dim, likewise
LENGTHS = (512, 1024, 2048, 4096, 8192, 16_384, 32_768)

#: Changes of the Hopper kernel's design by name. Each has a mechanism of its own.
VARIANTS: dict[str, dict[str, Any]] = {
    "no ping-pong": {"ping_pong": False},
    "no overlap": {"overlap": False},
    "neither": {"ping_pong": False, "overlap": False},
    "3 slots": {"kv_stages": 3},
    "80 keys, 3 consumers": {"tile_n": 80, "consumers": 3, "registers": (160, 32)},
    "96 keys": {"tile_n": 96},
    "2 consumers": {"consumers": 2, "registers": (240, 24)},
}


@dataclass(frozen=True)
class Point:
    """A problem, and how the kernel's design is changed for it.

    ``variant`` is "" for the kernel as it chooses itself, or a name of `VARIANTS`.
    """

    head_dim: int
    causal: bool
    seqlen: int
    batch: int
    heads: int
    kv_heads: int
    variant: str = ""
    changes: dict[str, Any] = field(default_factory=dict, compare=False)

    @property
    def problem(self) -> Problem:
        """What is computed."""
        return Problem(
            batch=self.batch, heads=self.heads, kv_heads=self.kv_heads, seqlen_q=self.seqlen,
            head_dim=self.head_dim, causal=self.causal,
        )  # fmt: skip

    @property
    def name(self) -> str:
        """In words.

        >>> standard(128, True, 4096).name
        'd128 causal 4096 b8 h16'
        """
        mask = "causal" if self.causal else "full"
        heads = f"h{self.heads}" + (f"/{self.kv_heads}" if self.kv_heads != self.heads else "")
        name = f"d{self.head_dim} {mask} {self.seqlen} b{self.batch} {heads}"
        return f"{name}, {self.variant}" if self.variant else name


def standard(head_dim: int, causal: bool, seqlen: int, variant: str = "") -> Point:
    """A point of the published grid: 32 k tokens, hidden size 2048."""
    heads = HIDDEN // head_dim
    changes = VARIANTS[variant] if variant else {}
    return Point(
        head_dim, causal, seqlen, TOKENS // seqlen, heads, heads, variant, dict(changes)
    )  # fmt: skip


def grid() -> Iterator[Point]:
    """All points: lengths, variants of the kernel, few heads, grouped heads."""
    for head_dim in (128, 64):
        for causal in (False, True):
            yield from (standard(head_dim, causal, seqlen) for seqlen in LENGTHS)
    for causal in (False, True):
        for seqlen in (1024, 4096, 16_384):
            for variant in VARIANTS:
                if variant != "2 consumers":
                    yield standard(128, causal, seqlen, variant)
            yield standard(64, causal, seqlen, "no ping-pong")
            yield standard(64, causal, seqlen, "2 consumers")
    for causal in (False, True):
        for seqlen, heads in ((1024, 8), (2048, 16), (4096, 16), (8192, 4), (32_768, 1)):
            yield Point(128, causal, seqlen, 1, heads, heads)
        yield Point(128, causal, 4096, 4, 32, 4)
        yield Point(64, causal, 4096, 4, 32, 8)
