"""What is compared: shapes, and how our kernel and the official one are compiled and launched."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

import fa4sim
from fa4kernel.emulator.launch import Launch
from fa4kernel.forward import launch as forward
from fa4kernel.forward.compile import compile_ptx
from fa4kernel.forward.config import Config
from fa4kernel.official.compile import compiled, interpreter, missing, versions
from fa4kernel.official.launches import launches
from fa4kernel.official.problem import Problem
from fa4kernel.official.variant import DType, Variant
from fa4sim.numerics import from_bits8, to_bits8, to_bits16
from fa4sim.specs import B200, FP8

Bits = NDArray[np.unsignedinteger[Any]]

PACKAGE, DSL = "flash-attn-4", "nvidia-cutlass-dsl"

#: Rows of Q that one CTA works on at a time, and keys of a block.
TILE_ROWS = 256
BLOCK = 128
#: Length of the problem by which a design is chosen: many tiles.
LONG = 2048
#: By how much scores rise from a block of keys to the one that is processed after it: in log2 far
#: more than the 8 that FA4 lets pass before it rescales O (head dim 128: 48 · 4 / √128 · log2 e).
#: FP8 rescales whatever the rise: there, each block has the next number that it can tell apart.
RISE = 48.0


class AbsentError(ValueError):
    """A kernel cannot be compiled here; the message says what is missing."""


@dataclass(frozen=True)
class Shape:
    """A problem, except for its lengths.

    Attributes:
        name: as the command calls it.
        head_dim: elements of a row of Q and K.
        head_dim_v: elements of a row of V and O.
        causal: mask.
        pair: two CTAs work as one.
        dtype: of Q, K, V and O.
    """

    name: str
    head_dim: int = 128
    head_dim_v: int = 128
    causal: bool = False
    pair: bool = False
    dtype: DType = "bf16"

    @property
    def title(self) -> str:
        """In words."""
        mask = "causal" if self.causal else "full"
        ctas = "pair of CTAs" if self.pair else "one CTA"
        dims = dict.fromkeys((self.head_dim, self.head_dim_v))
        return f"head dim {' and '.join(map(str, dims))}, {mask}, {ctas}, {self.dtype}"

    @property
    def ctas(self) -> int:
        """CTAs that work as one."""
        return 2 if self.pair else 1


SHAPES = {
    shape.name: shape
    for shape in (
        Shape("full-128"),
        Shape("causal-128", causal=True),
        Shape("pair-128", pair=True),
        Shape("full-64", head_dim=64, head_dim_v=64),
        Shape("full-96", head_dim=96, head_dim_v=96),
        Shape("causal-192", head_dim=192, causal=True),
    )
}


@dataclass(frozen=True)
class Arrays:
    """Inputs and outputs of one head: raw bits, (1, length, 1, columns); LSE (1, 1, length)."""

    q: Bits
    k: Bits
    v: Bits
    out: Bits
    lse: NDArray[np.float32]


def arrays(shape: Shape, tiles: int, blocks: int, rising: bool) -> Arrays:
    """A problem of so many tiles of Q and blocks of keys, one head.

    Causal masks end at the last key for the last row, so a block more is one more for every tile.

    Args:
        shape: what else the problem is.
        tiles: of ``TILE_ROWS`` rows for each CTA.
        blocks: of ``BLOCK`` keys.
        rising: whether each block of keys has greater scores than the one behind it, which is
            processed before it; else all scores of a row are the same, and O is never rescaled.
    """
    rows, keys = tiles * TILE_ROWS * shape.ctas, blocks * BLOCK
    rng = np.random.default_rng(0)
    q = np.zeros((1, rows, 1, shape.head_dim), np.float32)
    q[..., 0] = 4
    k = np.zeros((1, keys, 1, shape.head_dim), np.float32)
    if rising:
        steps = (blocks - 1 - np.arange(keys) // BLOCK)[None, :, None]
        fp8 = shape.dtype in FP8
        k[..., 0] = from_bits8((48 + steps).astype(np.uint8), shape.dtype) if fp8 else RISE * steps
    v = rng.standard_normal((1, keys, 1, shape.head_dim_v), dtype=np.float32)
    lse = np.zeros((1, 1, rows), np.float32)
    encode = to_bits8 if shape.dtype in FP8 else to_bits16
    q_bits, k_bits, v_bits = (encode(x, shape.dtype) for x in (q, k, v))
    out = np.zeros((1, rows, 1, shape.head_dim_v), np.uint16)
    return Arrays(q_bits, k_bits, v_bits, out, lse)


@dataclass(frozen=True)
class Kernel:
    """A compiled kernel.

    Attributes:
        name: "ours" or "official".
        title: what it is, with versions.
        ptx: its text.
        launch: describes a launch on given arrays on a GPU with room for one CTA (or pair).
    """

    name: str
    title: str
    ptx: str
    launch: Callable[[Arrays], Launch]


def official(shape: Shape) -> Kernel:
    """The official kernel, compiled by the interpreter that ``FA4_PYTHON`` names.

    Raises:
        AbsentError: the official package is not installed there.
    """
    if reason := missing():
        raise AbsentError(reason)
    variant = Variant(
        dtype=shape.dtype, head_dim=shape.head_dim, head_dim_v=shape.head_dim_v,
        causal=shape.causal, pair=shape.pair, lse=True,
    )  # fmt: skip
    kernels = compiled(variant)

    def launch(given: Arrays) -> Launch:
        rows, keys = given.q.shape[1], given.k.shape[1]
        call = Problem(
            variant, given.q, given.k, given.v, given.out, softmax_scale=shape.head_dim**-0.5,
            max_seqlen_q=rows, max_seqlen_k=keys, lse=given.lse, sms=shape.ctas,
        )  # fmt: skip
        ((_, made),) = launches(call, kernels)
        return made

    installed = versions(interpreter())
    title = ", ".join(f"{name} {installed[name]}" for name in (PACKAGE, DSL))
    return Kernel("official", title, kernels["forward"].ptx, launch)


def config_of(shape: Shape) -> Config:
    """The configuration of our kernel that does what the official one does with long problems."""
    problem = fa4sim.Problem(
        batch=1, heads=1, seqlen_q=LONG, seqlen_k=LONG, head_dim=shape.head_dim,
        head_dim_v=shape.head_dim_v, causal=shape.causal, dtype=shape.dtype,
    )  # fmt: skip
    return Config.of(problem, fa4sim.Design.for_problem(problem, B200, cta_group=shape.ctas))


def ours(shape: Shape) -> Kernel:
    """Our kernel, see :func:`config_of`.

    Raises:
        AbsentError: the CuTe DSL is not installed.
        CompilationError: it refuses the kernel.
    """
    if find_spec("cutlass") is None:
        raise AbsentError("our kernel needs the CuTe DSL: pip install 'fa4sim[kernel]'")
    config = config_of(shape)

    def launch(given: Arrays) -> Launch:
        return forward.launch(
            config,
            forward.Arrays(given.q, given.k, given.v, given.out, given.lse),
            softmax_scale=shape.head_dim**-0.5,
            window=(None, 0 if shape.causal else None),
            sms=shape.ctas,
        )

    title = f"fa4sim {fa4sim.__version__}, {DSL} {version(DSL)}"
    return Kernel("ours", title, compile_ptx(config), launch)


#: Kernels that can be looked at, by name.
KERNELS: dict[str, Callable[[Shape], Kernel]] = {"ours": ours, "official": official}
