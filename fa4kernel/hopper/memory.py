"""Where things lie in shared memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cutlass.cute as cute

from fa4kernel.hopper.config import ALIGNMENT, Config


@dataclass(frozen=True)
class SharedMemory:
    """What a CTA keeps in shared memory, beside its barriers: pointers to bytes."""

    sq: Any
    k_ring: Any
    v_ring: Any
    cfg: Config

    @staticmethod
    def place(memory: Any, cfg: Config) -> SharedMemory:
        """Take room for it from an allocator of shared memory."""
        sq = memory.allocate(cfg.consumers * cfg.q_bytes, ALIGNMENT)
        k_ring = memory.allocate(cfg.kv_stages * cfg.k_bytes, ALIGNMENT)
        v_ring = memory.allocate(cfg.kv_stages * cfg.v_bytes, ALIGNMENT)
        return SharedMemory(sq, k_ring, v_ring, cfg)

    def q(self, consumer: Any) -> Any:
        """A consumer's Q; at the end its O."""
        return self.sq + _aligned(consumer * self.cfg.q_bytes)

    def k(self, slot: Any) -> Any:
        """A slot of the ring of K tiles."""
        return self.k_ring + _aligned(slot * self.cfg.k_bytes)

    def v(self, slot: Any) -> Any:
        """A slot of the ring of V tiles."""
        return self.v_ring + _aligned(slot * self.cfg.v_bytes)


def _aligned(offset: Any) -> Any:
    """An offset, which the compiler is told to be a multiple of the alignment."""
    return offset if isinstance(offset, int) else cute.assume(offset, divby=ALIGNMENT)
