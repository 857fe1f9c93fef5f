"""Where things lie in shared memory and in tensor memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass import Float32, Int32

from fa4kernel.forward.config import TILE, Config

ELEMENT_TYPES = {
    "bf16": cutlass.BFloat16,
    "fp16": cutlass.Float16,
    "e4m3": cutlass.Float8E4M3FN,
    "e5m2": cutlass.Float8E5M2,
    "fp32": cutlass.Float32,
}
COLUMNS = 512  # of tensor memory: a CTA takes all, 128 lanes × 4 bytes each


@dataclass(frozen=True)
class SharedMemory:
    """What a CTA keeps in shared memory, beside its barriers."""

    tmem_address: Any  # pointer to one Int32
    statistics: Any  # pointer to Float32: per Q stage and row the factor or sum, then the maxima
    sq: Any  # pointers to bytes, each at a multiple of 1,024
    so: Any
    ring: Any
    cfg: Config

    @staticmethod
    def place(memory: Any, cfg: Config) -> SharedMemory:
        """Take room for it from an allocator of shared memory."""
        address = memory.allocate_array(Int32)
        statistics = memory.allocate_array(Float32, 2 * cfg.q_stages * TILE)
        q, o = cfg.q_stages * cfg.q_bytes, cfg.q_stages * cfg.o_bytes
        sq = memory.allocate(max(q, o) if cfg.overlap_o_q else q, 1024)
        so = sq if cfg.overlap_o_q else memory.allocate(o, 1024)
        return SharedMemory(address, statistics, sq, so, memory.allocate(cfg.ring_bytes, 1024), cfg)

    def q(self, stage: Any) -> Any:
        """Q[stage]."""
        return self.sq + stage * self.cfg.q_bytes

    def o(self, stage: Any) -> Any:
        """O[stage]."""
        return self.so + stage * self.cfg.o_bytes

    def slot(self, slot: Any, wrap: Any) -> Any:
        """A slot of the K/V ring, used for the `wrap`-th time.

        An even ring has slots of equal size. The uneven one interlocks large K and small V tiles
        of head dims (192, 128), counted in slabs of 16 KiB:

            even wraps   K 0..2   V 3..4   K 5..7
            odd wraps    V 0..1   K 2..4   V 5..6
        """
        cfg = self.cfg
        if not cfg.uneven_kv_ring:
            return self.ring + slot * max(cfg.k_bytes, cfg.v_bytes)
        middle = cfg.k_bytes - (cfg.k_bytes - cfg.v_bytes) * (wrap & 1)
        return self.ring + ((slot & 1) * middle + (slot >> 1) * (cfg.k_bytes + cfg.v_bytes))

    def factor(self, stage: Any, row: Any) -> Any:
        """Where a row's factor, and at the end its sum, is handed to the correction."""
        return self.statistics + (stage * TILE + row)

    def maximum(self, stage: Any, row: Any) -> Any:
        """Where a row's final maximum is handed to the correction."""
        return self.statistics + ((self.cfg.q_stages + stage) * TILE + row)


def s_column(stage: Any) -> Any:
    """First of the 128 columns of S[stage] in tensor memory, f32."""
    return stage * TILE


def p_column(stage: Any) -> Any:
    """First of the 64 columns of P[stage], of FP8 32, in the upper half of S."""
    return stage * TILE + TILE // 2


def o_column(cfg: Config, stage: Any) -> Any:
    """First column of O[stage], f32."""
    return 2 * TILE + stage * cfg.head_dim_v


def load_shared(pointer: Any) -> Any:
    """One number from shared memory."""
    return cute.make_tensor(pointer, cute.make_layout(1))[0]


def store_shared(pointer: Any, value: Any) -> None:
    """One number to shared memory."""
    cute.make_tensor(pointer, cute.make_layout(1))[0] = value


def element_type(cfg: Any) -> Any:
    """The DSL's name of the type of Q, K, V and P."""
    return ELEMENT_TYPES[cfg.dtype]


def output_type(cfg: Any) -> Any:
    """The DSL's name of the type of O."""
    return ELEMENT_TYPES[cfg.out_dtype]
