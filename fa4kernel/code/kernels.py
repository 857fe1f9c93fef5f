"""How our kernel and the official one are compiled for a shape, and launched."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec

import fa4sim
from fa4kernel.code.shapes import LONG, Shape, keys, queries
from fa4kernel.emulator.launch import Launch
from fa4kernel.forward import launch as forward
from fa4kernel.forward.compile import compile_ptx
from fa4kernel.forward.config import Config
from fa4kernel.forward.design import design_for
from fa4kernel.forward.launch import Arrays
from fa4kernel.official.compile import compiled, interpreter, missing, versions
from fa4kernel.official.launches import launches
from fa4kernel.official.problem import Problem
from fa4kernel.official.variant import TILE, Pages, Variant
from fa4sim.specs import B200

PACKAGE, DSL = "flash-attn-4", "nvidia-cutlass-dsl"
#: How the official kernel calls sizes of pages; any other is "other".
_PAGES: dict[int | None, Pages | None] = {None: None, TILE: "tile"}


class AbsentError(ValueError):
    """A kernel cannot be compiled here; the message says what is missing."""


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
        ratio=shape.group, rows="one tile" if shape.decode else "many", causal=shape.causal,
        used_k=shape.page_size is not None, varlen_q=shape.varlen, varlen_k=shape.varlen,
        lse=True, descale=shape.descale,
        split=shape.splits > 1, pages=_PAGES.get(shape.page_size, "other"), pair=shape.pair,
    )  # fmt: skip
    kernels = compiled(variant)

    def launch(given: Arrays) -> Launch:
        call = Problem(
            variant, given.q, given.k, given.v, given.o, softmax_scale=shape.head_dim**-0.5,
            max_seqlen_q=queries(given), max_seqlen_k=keys(given), lse=given.lse,
            cu_seqlens_q=given.cu_seqlens_q, cu_seqlens_k=given.cu_seqlens_k,
            out_partial=given.partial_o, lse_partial=given.partial_lse,
            seqused_k=given.seqused_k, page_table=given.page_table,
            descales=None if given.descales is None else tuple(given.descales),
            splits=shape.splits, sms=shape.ctas,
        )  # fmt: skip
        return next(made for each, made in launches(call, kernels) if each is kernels["forward"])

    installed = versions(interpreter())
    title = ", ".join(f"{name} {installed[name]}" for name in (PACKAGE, DSL))
    return Kernel("official", title, kernels["forward"].ptx, launch)


def config_of(shape: Shape) -> Config:
    """The configuration of our kernel that does what the official one does with long problems."""
    problem = shape.problem(1, 1 if shape.decode else LONG, LONG)
    return Config.of(
        problem, design_for(problem, B200, cta_group=shape.ctas), descale=shape.descale
    )


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
            given,
            softmax_scale=shape.head_dim**-0.5,
            window=(None, 0 if shape.causal else None),
            sms=shape.ctas,
        )

    title = f"fa4sim {fa4sim.__version__}, {DSL} {version(DSL)}"
    return Kernel("ours", title, compile_ptx(config), launch)


#: Kernels that can be looked at, by name.
KERNELS: dict[str, Callable[[Shape], Kernel]] = {"ours": ours, "official": official}
