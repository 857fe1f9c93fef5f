"""Launches of the official kernels, from a problem's arrays.

What the official host functions compute and pass is written again here, in their order. A kernel's
facts, read from its own code, say what each parameter is; any disagreement is an error.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from fa4kernel.emulator.labels import PLAIN, Labels
from fa4kernel.emulator.launch import Launch
from fa4kernel.official.compile import Kernel
from fa4kernel.official.facts import Facts
from fa4kernel.official.labels import labels
from fa4kernel.official.problem import Ints, Problem
from fa4kernel.official.schedulers import Grid, schedule, uses_clc
from fa4kernel.official.views import Divmod, View, encode

LOG2_E = math.log2(math.e)


def launches(problem: Problem, kernels: Mapping[str, Kernel]) -> Iterator[tuple[Kernel, Launch]]:
    """Kernels and launches of one call, in order; each must have run before the next is asked.

    Args:
        problem: the call; its outputs are written by the launches.
        kernels: from :func:`fa4kernel.official.compile.compiled`.
    """
    problem.check()
    metadata: dict[str, Ints] = {}
    if "prepare" in kernels:
        metadata = _metadata(problem)
        yield kernels["prepare"], _prepare(problem, metadata, kernels["prepare"].facts)
    forward = kernels["forward"]
    if problem.variant.head_dim == 256:
        yield forward, _forward_256(problem, forward.facts)
        return
    yield forward, _forward(problem, metadata, forward.facts)
    if "combine" in kernels:
        yield kernels["combine"], _combine(problem, metadata, kernels["combine"].facts)


def bind(facts: Facts, grid: Grid, values: list[Any], labels: Labels = PLAIN) -> Launch:
    """The launch that passes ``values``, one for each parameter of the kernel.

    Later versions of the package pass each divisor twice, encoded and plain.

    Args:
        facts: of the kernel.
        grid: CTAs.
        values: see there.
        labels: for reports.

    Raises:
        ValueError: there are more or fewer values than parameters.
    """
    twice = [w for v in values for w in ((v, v.divisor) if isinstance(v, Divmod) else (v,))]
    if len(twice) == len(facts.arguments):
        values = twice
    if len(values) != len(facts.arguments):
        kinds = ", ".join(argument.kind for argument in facts.arguments)
        given = ", ".join(
            str(v) if isinstance(v, int | float) else type(v).__name__ for v in values
        )
        raise ValueError(f"{len(values)} values ({given}) for other parameters: {kinds}")
    arguments = [encode(*pair) for pair in zip(facts.arguments, values, strict=True)]
    return Launch(
        grid=grid,
        block=facts.block,
        cluster=facts.cluster,
        shared_bytes=facts.shared_bytes,
        arguments=arguments,
        entry=facts.entry,
        labels=labels,
    )


def named(values: list[Any], **tensors: View) -> dict[int, str]:
    """Names of tensors, by the numbers of the parameters that they are passed as."""
    names = {id(view): name for name, view in tensors.items()}
    return {i: names[id(value)] for i, value in enumerate(values) if id(value) in names}


def _forward(problem: Problem, metadata: dict[str, Ints], facts: Facts) -> Launch:
    """flash_fwd_sm100.py, ``__call__`` and ``kernel``."""
    p, v, ratio = problem, problem.variant, problem.pack_ratio
    q = View.of(p.q, (0, 2, 1) if v.varlen_q else (1, 3, 2, 0)).packed(ratio, 2)
    k = View.of(p.k, (0, 2, 1) if v.varlen_k else (1, 3, 2, 0))
    value = View.of(p.v, (2, 0, 1) if v.varlen_k else (3, 1, 2, 0))
    if p.is_split:
        assert p.out_partial is not None
        out = View.of(p.out_partial, (1, 3, 2, 0) if v.varlen_q else (2, 4, 3, 1, 0))
        lse = _view(p.lse_partial, (2, 1, 0) if v.varlen_q else (3, 2, 1, 0))
    else:
        out = View.of(p.out, (0, 2, 1) if v.varlen_q else (1, 3, 2, 0))
        lse = _view(p.lse, (1, 0) if v.varlen_q else (2, 1, 0))
    out = out.packed(ratio, 2)
    lse = None if lse is None else lse.packed(ratio, 1)
    lengths = [_view(a, (0,)) for a in (p.cu_seqlens_q, p.cu_seqlens_k, p.seqused_q, p.seqused_k)]
    maps = [
        q if p.tma_q else None,
        k if p.tma_kv else None,
        value if p.tma_kv else None,
        out if p.tma_out else None,
    ]
    scales = [LOG2_E, p.softmax_scale] if v.softcap else [p.softmax_scale * LOG2_E]
    window = [_bound(p, side) for side in (0, 1)]
    descales = [_view(a, (0, 1)) for a in p.descales or ()]
    tiles, grid = schedule(p, metadata)
    assert facts.cluster == (p.cluster, 1, 1), (facts.cluster, p.cluster)
    optional: list[Any] = [
        *(q, k, value, out, lse),
        *lengths,
        _view(p.page_table, (0, 1)),
        *maps,
        *scales,
        *window,
        _view(p.sink, (0,)),
        *descales,
    ]
    values: list[Any] = [value for value in optional if value is not None]
    values += [None, None, *tiles, p.splits]
    names = ("num_splits", "semaphore", "heads_in_l2")
    values += [View.of(metadata[name], (0,)) for name in names if name in metadata]
    if v.packed:
        values.append(Divmod(v.ratio))
    tensors = named(values, Q=q, K=k, V=value, O=out)
    return bind(facts, grid, values, labels(tensors, load_warps=p.load_warps))


def _bound(problem: Problem, side: int) -> int | None:
    """A window's bound, or None where the kernel has no parameter for it."""
    v = problem.variant
    if not v.local:
        return None
    if side == 1 and v.causal:
        return 0
    return problem.window[side]


def _forward_256(problem: Problem, facts: Facts) -> Launch:
    """sm100_hd256_2cta_fmha_forward.py, ``__call__``: heads as (in group, group), with batch."""
    p, v = problem, problem.variant
    q = _grouped(p.q, v.ratio, v.varlen_q)
    out = _grouped(p.out, v.ratio, v.varlen_q)
    if v.pages:
        k, value = View.of(p.k, (1, 3, 2, 0)), View.of(p.v, (3, 1, 2, 0))
    else:
        k = _grouped(p.k, v.ratio, v.varlen_k, repeat=True)
        value = _grouped(p.v, v.ratio, v.varlen_k, repeat=True)
        value = View(
            value.array,
            (value.shape[1], value.shape[0], value.shape[2]),
            (value.stride[1], value.stride[0], value.stride[2]),
        )
    values: list[Any] = [None, None, q, q, k, k, value, value, out]
    values += [View.of(a, (0,)) for a in (p.cu_seqlens_q, p.cu_seqlens_k) if a is not None]
    rows = p.q.shape[-3]
    if p.lse is not None:
        shape = (rows, ((v.ratio, p.kv_heads), 1 if v.varlen_q else p.batch))
        step = 0 if v.varlen_q else p.heads * rows
        values.append(View(p.lse, shape, (1, ((rows, v.ratio * rows), step))))
    values += [p.softmax_scale * LOG2_E, p.softmax_scale, 1.0]
    if p.page_table is not None:
        values += [View.of(p.page_table, (0, 1)), p.page_table.shape[1] * p.k.shape[1]]
    blocks = math.ceil(rows / 128)
    values += [blocks, p.heads, p.batch]
    tensors = named(values, Q=q, K=k, V=value, O=out)
    return bind(facts, (math.ceil(blocks / 2) * 2, p.heads, p.batch), values, labels(tensors, 256))


def _grouped(array: np.ndarray[Any, Any], ratio: int, varlen: bool, repeat: bool = False) -> View:
    """(rows, head_dim, ((in group, group), batch)); with ``repeat``, a group shares its head."""
    axes = (0, 2, 1) if varlen else (1, 3, 2, 0)
    view = View.of(array, axes)
    batch, batch_step = (1, 0) if varlen else (view.shape[3], view.stride[3])
    heads, step = view.shape[2], view.stride[2]
    groups = (ratio, heads) if repeat else (ratio, heads // ratio)
    steps = (0, step) if repeat else (step, step * ratio)
    return View(
        array,
        (view.shape[0], view.shape[1], (groups, batch)),
        (view.stride[0], view.stride[1], (steps, batch_step)),
    )


def _combine(problem: Problem, metadata: dict[str, Ints], facts: Facts) -> Launch:
    """flash_fwd_combine.py, ``__call__``."""
    p, v = problem, problem.variant
    assert p.out_partial is not None and p.lse_partial is not None
    varlen = v.varlen_q
    values: list[Any] = [
        View.of(p.out_partial, (1, 3, 0, 2) if varlen else (2, 4, 0, 3, 1)),
        View.of(p.lse_partial, (2, 0, 1) if varlen else (3, 0, 2, 1)),
        View.of(p.out, (0, 2, 1) if varlen else (1, 3, 2, 0)),
        _view(p.lse, (1, 0) if varlen else (2, 1, 0)),
        _view(p.cu_seqlens_q, (0,)),
        _view(p.seqused_q, (0,)),
        _view(metadata.get("num_splits"), (0,)),
    ]
    values = [value for value in values if value is not None]
    rows = p.q.shape[-3]
    tile = 8 if v.head_dim_v > 64 else 16
    columns = math.ceil(v.head_dim_v / (128 if v.head_dim_v > 64 else 64))
    values += [Divmod(rows), Divmod(p.heads)]
    if v.is_varlen_q:
        total = p.heads * (rows if varlen else rows * p.batch)
        values += [total, p.batch, 50 * 2**20 // ((1 + 1) * 2 * tile)]
        values += [View.of(a, (0,)) for a in (p.cu_seqlens_q, p.seqused_q) if a is not None]
        tiles = (total + p.batch * (tile - 1)) // tile
        return bind(facts, (tiles * columns, 1, 1), values)
    tiles = math.ceil(rows * p.heads / tile)
    values += [tiles, p.batch, Divmod(1)]
    return bind(facts, (tiles, columns, p.batch), values)


def _metadata(problem: Problem) -> dict[str, Ints]:
    """Arrays that the preparing kernel fills (interface.py, ``_get_scheduler_metadata``)."""
    batch = problem.batch
    arrays = {
        "num_m_blocks": np.full(batch, -1, np.int32),
        "num_splits": np.full(batch, -1, np.int32),
    }
    if problem.variant.causal:
        arrays["heads_in_l2"] = np.full(batch, -1, np.int32)
    if not uses_clc(problem):
        arrays["semaphore"] = np.full(1, -1, np.int32)
    return arrays


def _prepare(problem: Problem, metadata: dict[str, Ints], facts: Facts) -> Launch:
    """prepare_scheduler.py, ``__call__``."""
    p = problem
    lengths = (p.cu_seqlens_q, p.cu_seqlens_k, p.seqused_q, p.seqused_k)
    names = ("semaphore", "num_m_blocks", "num_splits", "heads_in_l2")
    values: list[Any] = [p.max_seqlen_q, p.max_seqlen_k, 0]
    values += [View.of(a, (0,)) for a in lengths if a is not None]
    values += [p.batch, p.sms, p.splits, Divmod(128), Divmod(p.tile_keys)]
    values += [View.of(metadata[name], (0,)) for name in names if name in metadata]
    return bind(facts, (math.ceil(p.batch / (31 * 32)), 1, 1), values)


def _view(array: np.ndarray[Any, Any] | None, axes: Any) -> View | None:
    return None if array is None else View.of(array, axes)
