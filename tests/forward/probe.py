"""A kernel that writes down which tiles it would work on, for the tests of `forward.tiles`.

It has the grid, the sizes and the sequences of a real launch, and one warp for each CTA; a tile
is a line of 11 numbers, as `tiles.Tile` has them. The number of tiles of a CTA comes first.
"""

from __future__ import annotations

from dataclasses import asdict
from math import prod
from typing import Any

import cutlass
import cutlass.cute as cute
import numpy as np
from cutlass import AddressSpace, Constexpr, Int32
from cutlass.cute.runtime import make_fake_stream, make_ptr

from fa4kernel.compiling import compile_module
from fa4kernel.emulator import Launch, emulate
from fa4kernel.forward import tiles
from fa4kernel.forward.arguments import Arguments, Sizes
from fa4kernel.forward.config import Config
from fa4kernel.forward.launch import Plan
from fa4sim.specs import Design, Machine, Problem

FIELDS = len(tiles.Tile._fields)
USES = ("fa4kernel.forward", "tests.forward")


@cute.kernel
def probe_kernel(a: Arguments, out: cute.Pointer, most: Int32, cfg: Constexpr) -> None:
    """Write this CTA's tiles."""
    x, y, z = cute.arch.block_idx()
    columns, rows, _ = cute.arch.grid_dim()
    cta = x + columns * (y + rows * z)
    mine = cute.make_tensor(out + cta * (1 + most * FIELDS), cute.make_layout(1 + most * FIELDS))
    count = tiles.count(cfg, a)
    with cute.arch.elect_one():
        mine[0] = count
        for nth in cutlass.range(count, unroll=1):
            tile = tiles.tile(cfg, a, nth)
            for i in cutlass.range_constexpr(FIELDS):
                mine[1 + nth * FIELDS + i] = tile[i]


@cute.jit
def probe(
    out: cute.Pointer,
    cu_seqlens_q: Any,
    cu_seqlens_k: Any,
    sizes: Sizes,
    most: Int32,
    grid: tuple[Int32, Int32, Int32],
    stream: Any,
    cfg: Constexpr,
) -> None:
    """Start it."""
    a = Arguments(
        None, None, None, None, None, None, None, cu_seqlens_q, cu_seqlens_k, sizes, None, None
    )
    probe_kernel(a, out, most, cfg).launch(
        grid=grid, block=(32, 1, 1), cluster=(cfg.cta_group, 1, 1), stream=stream
    )


def build(**config: Any) -> Any:
    """Compile; called by `fa4kernel.compiling`."""
    cfg, one = Config(**config), Int32(1)

    def pointer(wanted: bool = True) -> Any:
        return make_ptr(Int32, 16, AddressSpace.gmem, assumed_align=16) if wanted else None

    sizes = Sizes(*(one for _ in Sizes._fields))
    return cute.compile(
        probe, pointer(), pointer(cfg.varlen_q), pointer(cfg.varlen_k), sizes, one,
        (one, one, one), make_fake_stream(), cfg,
    )  # fmt: skip


def tiles_of(problem: Problem, design: Design, machine: Machine) -> list[list[tiles.Tile]]:
    """The tiles that each CTA (of a pair, the leader) would work on, in its order."""
    cfg = Config.of(problem, design)
    starts_q, starts_k = (
        None if lengths is None else np.cumsum([0, *lengths]).astype(np.int32)
        for lengths in (problem.seqlens_q, problem.seqlens_k)
    )
    assert problem.seqlen_k is not None and problem.kv_heads is not None
    q = (problem.batch, problem.seqlen_q, problem.heads, problem.head_dim)
    k = (problem.batch, problem.seqlen_k, problem.kv_heads, problem.head_dim)
    window = (None, 0) if problem.causal else problem.window or (None, None)
    plan = Plan.of(cfg, q, k, k, starts_q, starts_k, window)
    grid = plan.grid(machine.sms, design.num_splits)
    ctas = prod(grid)
    clusters = plan.ctas(machine.sms) // cfg.cta_group
    most = -(-plan.tiles // clusters)  # tiles of a CTA
    out = np.full((ctas, 1 + most * FIELDS), -1, np.int32)
    arguments = [each for each in (starts_q, starts_k) if each is not None]
    arguments += [np.int32(number) for number in plan.sizes]
    launch = Launch(
        grid, (32, 1, 1), (cfg.cta_group, 1, 1),
        arguments=[*arguments, out, np.int32(most)],
    )  # fmt: skip
    ptx = compile_module("tests.forward.probe", **asdict(cfg))
    emulation = emulate(ptx, launch)
    assert not emulation.hazards
    found = []
    for row in out[:: cfg.cta_group]:
        lines = row[1 : 1 + row[0] * FIELDS].reshape(-1, FIELDS)
        found.append([tiles.Tile(*(int(x) for x in line)) for line in lines])
    return found
