"""Special registers of every thread of a wave."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fa4kernel.emulator.launch import Launch
from fa4kernel.emulator.machine.registers import Shape


def special_registers(
    launch: Launch, shape: Shape, clusters: NDArray[np.intp], shared_bytes: int
) -> dict[str, NDArray[Any]]:
    """Values of the special registers by name, uint32 for every lane of the wave.

    Args:
        launch: the launch.
        shape: warps and CTAs of the wave.
        clusters: the wave's clusters by their number in the grid, x fastest.
        shared_bytes: shared memory of a CTA.
    """
    lanes = np.arange(shape.lanes)
    slot, lane = lanes // 32, lanes % 32
    cta, warp = slot % shape.ctas, slot // shape.ctas
    rank, cluster = cta // shape.clusters, clusters[cta % shape.clusters]
    thread = warp * 32 + lane
    found: dict[str, Any] = {"rank": rank}

    def spread(name: str, index: Any, size: tuple[int, ...]) -> list[Any]:
        x, y = size[:2]
        parts = [index % x, index // x % y, index // (x * y)]
        for axis, part, length in zip("xyz", parts, size, strict=True):
            found[f"%{name}.{axis}"] = part
            found[f"%n{name}.{axis}"] = np.full(shape.lanes, length)
        return parts

    spread("tid", thread, launch.block)
    per_axis = tuple(g // c for g, c in zip(launch.grid, launch.cluster, strict=True))
    in_grid = spread("clusterid", cluster, per_axis)
    x, y, _ = launch.cluster
    in_cluster = [rank % x, rank // x % y, rank // (x * y)]
    for axis, where, within, size, grid in zip(
        "xyz", in_grid, in_cluster, launch.cluster, launch.grid, strict=True
    ):
        found[f"%ctaid.{axis}"] = where * size + within
        found[f"%nctaid.{axis}"] = np.full(shape.lanes, grid)
        found[f"%cluster_ctaid.{axis}"] = within
        found[f"%cluster_nctaid.{axis}"] = np.full(shape.lanes, size)
    one = np.uint64(1)
    bit = one << lane.astype(np.uint64)
    found |= {
        "%laneid": lane,
        "%warpid": warp,
        "%nwarpid": np.full(shape.lanes, shape.warps),
        "%smid": cta,
        "%nsmid": np.full(shape.lanes, shape.ctas),
        "%gridid": np.zeros(shape.lanes),
        "%cluster_ctarank": rank,
        "%cluster_nctarank": np.full(shape.lanes, shape.size),
        "%is_explicit_cluster": np.full(shape.lanes, int(shape.size > 1)),
        "%dynamic_smem_size": np.full(shape.lanes, launch.shared_bytes),
        "%total_smem_size": np.full(shape.lanes, shared_bytes),
        "%lanemask_eq": bit,
        "%lanemask_lt": bit - one,
        "%lanemask_le": (bit << one) - one,
        "%lanemask_gt": ~((bit << one) - one) & np.uint64(0xFFFFFFFF),
        "%lanemask_ge": ~(bit - one) & np.uint64(0xFFFFFFFF),
    }
    return {name: np.asarray(value).astype(np.uint32) for name, value in found.items()}
