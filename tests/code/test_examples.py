"""The example kernels, counted: a block is K columns of the product's inner dimension."""

import pytest

pytest.importorskip("fa4kernel.examples", reason="needs the CuTe DSL: pip install 'fa4sim[kernel]'")

import numpy as np

from fa4kernel.code.kernels import Kernel
from fa4kernel.code.measure import measure
from fa4kernel.code.shapes import BLOCK, SHAPES, TILE_ROWS
from fa4kernel.examples import gemm_pair, ring
from fa4kernel.examples.matrices import matrix


def counted(example, shape, rows, columns, depth, **options):
    """The measurement of an example whose CTA, or pair, has tiles of `rows` x `columns`."""
    compiled = example.compile_ptx()

    def launch(given):
        tiles = given.q.shape[1] // TILE_ROWS // shape.ctas
        blocks = given.k.shape[1] // BLOCK
        sizes = ((tiles * rows, blocks * depth), (columns, blocks * depth), (tiles * rows, columns))
        return compiled.launch(*(matrix(np.zeros(size)) for size in sizes), **options)

    return measure(Kernel("ours", example.__name__, compiled.ptx, launch), shape)


def test_a_ring_of_roles_has_its_work_per_block_and_tile():
    found = counted(ring, SHAPES["full-128"], ring.M, ring.N, ring.K, ctas=1)
    warps = {role.name: role.warps for role in found.roles}
    assert warps == {"correction": (0, 1, 2, 3), "mma": (4,), "load": (5,)}
    assert found.persistent
    assert found.step == {
        "mmas": 4, "flops": 2 * ring.M * ring.N * ring.K,
        "loads": 2, "loaded": 2 * (ring.M + ring.N) * ring.K, "stores": 0, "stored": 0, "copied": 0,
    }  # fmt: skip
    assert found.tile["stored"] == 2 * ring.M * ring.N
    assert found.tile["flops"] == found.tile["loaded"] == 0
    mma, load = found.role("mma"), found.role("load")
    assert (mma.step["MMA"], mma.step["commit"], mma.step["mbarrier wait"]) == (4, 1, 1)
    assert (load.step["TMA"], load.step["mbarrier wait"]) == (2, 1)
    assert mma.tile["commit"] == 1


def test_a_pair_shares_its_mmas_and_each_cta_loads_half():
    found = counted(gemm_pair, SHAPES["pair-128"], gemm_pair.M, gemm_pair.N, gemm_pair.K)
    assert not found.persistent
    assert found.step["flops"] == 2 * gemm_pair.M * gemm_pair.N * gemm_pair.K
    assert found.step["loaded"] == 2 * (gemm_pair.M + gemm_pair.N) * gemm_pair.K
