"""A consumer's products, by wgmma: S = Q Kᵀ from shared memory, O += P V with P in registers.

wgmma is asynchronous: a product is started as a group; `wait(n)` waits until at most n younger
groups are under way. Until then nobody may touch its registers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cutlass.cute as cute
from cutlass import Float32
from cutlass.cute.nvgpu import warpgroup
from cutlass.utils import hopper_helpers

from fa4kernel.forward.arguments import tile_layout
from fa4kernel.forward.memory import element_type
from fa4kernel.hopper.config import ROWS, Config


def qk_mma(cfg: Config) -> Any:
    """S (64 × tile_n) = Q (64 × head_dim) Kᵀ, one warpgroup's."""
    dtype, along_k = element_type(cfg), warpgroup.OperandMajorMode.K
    return hopper_helpers.make_trivial_tiled_mma(
        dtype, dtype, along_k, along_k, Float32, (1, 1, 1), (ROWS, cfg.tile_n)
    )


def pv_mma(cfg: Config) -> Any:
    """O (64 × head_dim_v) += P (64 × tile_n) V, P being in registers."""
    dtype, modes = element_type(cfg), warpgroup.OperandMajorMode
    return hopper_helpers.make_trivial_tiled_mma(
        dtype, dtype, modes.K, modes.MN, Float32, (1, 1, 1), (ROWS, cfg.head_dim_v),
        warpgroup.OperandSource.RMEM,
    )  # fmt: skip


@dataclass(frozen=True)
class Products:
    """What a consumer thread needs for its products."""

    cfg: Config
    thread: Any  # of the warpgroup, 0 to 127

    def scores(self) -> Any:
        """Registers for S."""
        return self._registers(qk_mma(self.cfg), self.cfg.tile_n)

    def output(self) -> Any:
        """Registers for O."""
        return self._registers(pv_mma(self.cfg), self.cfg.head_dim_v)

    def _registers(self, mma: Any, columns: int) -> Any:
        return cute.make_rmem_tensor(mma.partition_shape_C((ROWS, columns)), Float32)

    def probabilities(self) -> Any:
        """Registers for P: 16-bit, in the order in which wgmma takes A."""
        shape = ((2, 2, 2), 1, self.cfg.tile_n // 16)
        return cute.make_rmem_tensor(shape, element_type(self.cfg))

    def qk(self, scores: Any, q: Any, k: Any) -> None:
        """Start S = Q Kᵀ. `q` and `k` point to tiles in shared memory."""
        cfg, mma = self.cfg, qk_mma(self.cfg)
        part = mma.get_slice(self.thread)
        a = mma.make_fragment_A(part.partition_A(_tile(cfg, q, ROWS, cfg.head_dim)))
        b = mma.make_fragment_B(part.partition_B(_tile(cfg, k, cfg.tile_n, cfg.head_dim)))
        _issue(mma, scores, a, b, False)

    def pv(self, output: Any, probabilities: Any, v: Any, more: Any) -> None:
        """Start O += P V, or O = P V without `more`. `v` points to a tile in shared memory."""
        cfg, mma = self.cfg, pv_mma(self.cfg)
        tile = _tile(cfg, v, cfg.tile_n, cfg.head_dim_v)
        turned = cute.make_ordered_layout((cfg.head_dim_v, cfg.tile_n), order=(1, 0))
        part = mma.get_slice(self.thread)
        b = mma.make_fragment_B(part.partition_B(cute.composition(tile, turned)))
        _issue(mma, output, probabilities, b, more)


def wait(younger: int) -> None:
    """Until at most so many of the youngest products are under way."""
    warpgroup.wait_group(younger)


def _tile(cfg: Config, pointer: Any, rows: int, columns: int) -> Any:
    """A tile at a place in shared memory, as TMA has written it."""
    layout = tile_layout(element_type(cfg), rows, columns)
    return cute.make_tensor(cute.recast_ptr(pointer, layout.inner, element_type(cfg)), layout.outer)


def _issue(mma: Any, total: Any, a: Any, b: Any, more: Any) -> None:
    """Start a product, 16 columns of A at a time, as one group."""
    warpgroup.fence()
    for k in range(cute.size(a, mode=[2])):
        mma.set(warpgroup.Field.ACCUMULATE, more if k == 0 else True)
        cute.gemm(mma, total, a[None, None, k], b[None, None, k], total)
    warpgroup.commit_group()
