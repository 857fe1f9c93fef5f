"""Attention by our kernels: on a GPU if there is one, in the emulator everywhere.

The emulator is a checker for kernels meant for NVIDIA GPUs: it is exact and slow, and looks for
hazards as it runs.
"""

from __future__ import annotations

import inspect
import sys
import time
import warnings
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from fa4kernel.call import Call, Window
from fa4kernel.emulator import Emulation, emulate
from fa4kernel.hopper.config import Config as HopperConfig
from fa4kernel.kernels import kernel_for
from fa4kernel.traces import in_simulator_words
from fa4sim.specs import B200, Design, Machine, Problem
from fa4sim.specs.checks import quoted

BACKENDS = ("auto", "gpu", "emulator")


@dataclass(frozen=True)
class Result:
    """What a call of the kernel gave.

    Attributes:
        out: as q, with the columns of v; of q's library, type and device. Of FP8 it is bf16, or
            float32 if q is NumPy's float32 or uint8.
        lse: float32 (batch, heads, seqlen_q), or (heads, total_q); natural logarithms.
        backend: "gpu" or "emulator".
        problem, design: what was run, and how.
        wall_s: seconds, compilation included.
        emulation: what the emulator saw: hazards, statistics; None from a GPU. If keys were split,
            the statistics are those of the forward kernel, the hazards of both.
        combination: what it saw of the kernel that combined the splits, if there was one.
    """

    out: Any
    lse: Any
    backend: str
    problem: Problem
    design: Design | HopperConfig
    wall_s: float
    emulation: Emulation | None = None
    combination: Emulation | None = None


def attention(
    q: Any,
    k: Any,
    v: Any,
    *,
    causal: bool = False,
    window: Window | None = None,
    softmax_scale: float | None = None,
    sink: Any = None,
    return_lse: bool = False,
    cu_seqlens_q: Any = None,
    cu_seqlens_k: Any = None,
    page_table: Any = None,
    seqused_k: Any = None,
    q_descale: Any = None,
    k_descale: Any = None,
    v_descale: Any = None,
    num_splits: int = 1,
    dtype: str | None = None,
    backend: str = "auto",
    **options: Any,
) -> Any:
    """softmax(Q Kᵀ · softmax_scale) V, by the forward kernel.

    Args:
        q: bfloat16, float16, float8_e4m3fn or float8_e5m2 (batch, seqlen_q, heads, head_dim),
            NumPy's or PyTorch's; of a batch of variable length (total_q, heads, head_dim). float32
            is rounded to `dtype`; uint8 are the bit patterns of FP8.
        k: (batch, seqlen_k, kv_heads, head_dim) or (total_k, kv_heads, head_dim); with a
            `page_table` (pages, page_size, kv_heads, head_dim).
        v: as k, with head_dim_v columns.
        causal: causal mask, aligned at the bottom right.
        window: keys that a row sees to the left and right of the diagonal, None for unbounded.
        softmax_scale: of the scores; head_dim**-0.5 if not given.
        sink: (heads,), a logit per head that joins the sum but has no value. One that is 80 or more
            above all scores of a row may make its LSE inf and, with split keys, its output NaN: the
            sum is float32, as in the published kernel.
        return_lse: whether to return the LSE, too.
        cu_seqlens_q, cu_seqlens_k: int32 (batch + 1,), where sequences begin; `cu_seqlens_k` is
            `cu_seqlens_q` if not given.
        page_table: int32 (batch, max_pages), the pages of each sequence in their order; what is
            beyond a sequence's last page does not matter.
        seqused_k: int32 (batch,), keys of each sequence; all that k or the table has room for if
            not given. What lies behind them in a block of 128, in one piece or in a page of 128, is
            multiplied by 0, so it must be finite; in pages of other sizes it is not read.
        q_descale, k_descale, v_descale: float32 (batch, kv_heads), by which FP8 values are
            multiplied; 1 if not given.
        num_splits: into how many parts the keys are cut, whose results a second kernel combines, so
            that few queries keep many multiprocessors busy; at most 256. 0 leaves the number to the
            published kernel's heuristic.
        dtype: "bf16", "fp16", "e4m3" or "e5m2", if the arrays are float32; one of the last two, if
            they are uint8.
        backend: "gpu", "emulator", or "auto": a Blackwell or Hopper GPU if there is one, else the
            emulator; a line on standard error says which.
        options: see `run`.

    Returns:
        out, as q with head_dim_v columns, of FP8 in bf16; with `return_lse` also lse, float32
        (batch, heads, seqlen_q) or (heads, total_q), natural logarithms, -inf for rows that see no
        key.

    Raises:
        ValueError: something does not fit together, or the kernel does not do it.
        DeadlockError: the emulator found one.

    >>> import numpy as np
    >>> q = np.ones((1, 2, 1, 64), np.float16)
    >>> out = attention(q, q, q, causal=True, backend="emulator")  # doctest: +SKIP
    >>> out.shape  # doctest: +SKIP
    (1, 2, 1, 64)
    """
    for name in options:
        if name not in inspect.signature(run).parameters:
            raise TypeError(
                f"attention() has no argument {name!r}; beside its own it takes those of "
                "fa4kernel.run: design, machine, architecture, schedule, checks, processes, trace"
            )
    result = run(
        q, k, v, causal=causal, window=window, softmax_scale=softmax_scale, sink=sink,
        cu_seqlens_q=cu_seqlens_q, cu_seqlens_k=cu_seqlens_k, page_table=page_table,
        seqused_k=seqused_k, q_descale=q_descale, k_descale=k_descale, v_descale=v_descale,
        num_splits=num_splits, dtype=dtype, backend=backend, **options,
    )  # fmt: skip
    if backend == "auto":
        print(f"fa4kernel: attention ran on the {result.backend}", file=sys.stderr)
    if result.emulation is not None and result.emulation.hazards:
        found = "\n".join(str(hazard) for hazard in result.emulation.hazards)
        warnings.warn(f"the emulator reports hazards:\n{found}", RuntimeWarning, stacklevel=2)
    return (result.out, result.lse) if return_lse else result.out


def run(
    q: Any,
    k: Any,
    v: Any,
    *,
    causal: bool = False,
    window: Window | None = None,
    softmax_scale: float | None = None,
    sink: Any = None,
    cu_seqlens_q: Any = None,
    cu_seqlens_k: Any = None,
    page_table: Any = None,
    seqused_k: Any = None,
    q_descale: Any = None,
    k_descale: Any = None,
    v_descale: Any = None,
    num_splits: int = 1,
    dtype: str | None = None,
    backend: str = "auto",
    design: dict[str, Any] | None = None,
    machine: Machine = B200,
    architecture: str | None = None,
    schedule: Any = "lockstep",
    checks: str = "default",
    processes: int = 1,
    trace: bool | str = False,
) -> Result:
    """`attention`, and everything that is known about the run.

    Args:
        q, k, v, causal, window, softmax_scale, sink, cu_seqlens_q, cu_seqlens_k, page_table,
            seqused_k, q_descale, k_descale, v_descale, num_splits, dtype, backend: see `attention`.
        design: fields of the :class:`~fa4sim.specs.Design` to change (`{"cta_group": 1}`).
        machine: the GPU that is imagined; its multiprocessors say how many CTAs start.
        architecture: for which the kernel is compiled: "sm_100a" (Blackwell) or "sm_90a" (Hopper);
            by default that of the GPU, in the emulator "sm_100a". The Hopper kernel's `design`
            has the fields of :class:`fa4kernel.hopper.config.Config`.
        schedule, checks, processes, trace: of the emulator, see
            :func:`fa4kernel.emulator.emulate`; the trace speaks of tiles and blocks, as the
            simulator's do.

    Raises:
        ValueError: as `attention`.
    """
    started = time.perf_counter()
    if backend not in BACKENDS:
        raise ValueError(f"backend={backend!r}: it must be one of {', '.join(BACKENDS)}")
    call = Call.of(
        q, k, v, causal=causal, window=window, softmax_scale=softmax_scale, sink=sink,
        cu_seqlens_q=cu_seqlens_q, cu_seqlens_k=cu_seqlens_k, page_table=page_table,
        seqused_k=seqused_k, dtype=dtype,
        q_descale=q_descale, k_descale=k_descale, v_descale=v_descale, num_splits=num_splits,
    )  # fmt: skip
    chosen, architecture = _choose(backend, architecture)
    descale = call.descales is not None
    kernel = kernel_for(call.problem, architecture, machine, _by_name(design), descale)
    made = partial(Result, backend=chosen, problem=call.problem, design=kernel.design)
    if call.is_empty:
        out, lse = call.nothing()
        return made(out, lse, wall_s=time.perf_counter() - started)
    if chosen == "gpu":
        from fa4kernel import gpu

        out, lse = gpu.run(kernel, call)
        return made(out, lse, wall_s=time.perf_counter() - started)
    arrays = call.arrays(kernel.splits)
    how: dict[str, Any] = {"schedule": schedule, "checks": checks, "processes": processes}
    emulation = emulate(kernel.ptx, kernel.launch(arrays, machine.sms), trace=trace, **how)
    combination = None
    if kernel.combine is not None:
        behind = kernel.combine
        combination = emulate(behind.ptx, behind.launch(arrays, machine.sms), **how)
        emulation = replace(emulation, hazards=emulation.hazards + combination.hazards)
    if emulation.trace is not None and isinstance(kernel.design, Design):
        told = in_simulator_words(emulation.trace, call.problem, kernel.design, machine)
        emulation = replace(emulation, trace=told)
    assert arrays.lse is not None
    out, lse = call.q.result(arrays.o), call.q.like(arrays.lse)
    return made(
        out, lse, wall_s=time.perf_counter() - started, emulation=emulation, combination=combination
    )


def _by_name(design: Any) -> dict[str, Any]:
    """Fields of the design that a call changes. Raises `ValueError` for what are none."""
    given = {} if design is None else design
    if not isinstance(given, dict) or not all(isinstance(name, str) for name in given):
        raise ValueError(f"design={quoted(design)} must be fields by name, as {{'q_stages': 1}}")
    return given


def _choose(backend: str, architecture: str | None) -> tuple[str, str]:
    """Which of the two it will be, and for which GPU the kernel is."""
    if backend == "emulator":
        return backend, architecture or "sm_100a"
    from fa4kernel import gpu

    found = gpu.missing()
    if found is None and architecture in (None, gpu.architecture()):
        return "gpu", gpu.architecture()
    if backend == "gpu":
        found = found or f"architecture={architecture!r}, and the GPU is {gpu.architecture()}"
        raise ValueError(f"backend='gpu', but {found}; use backend='emulator'")
    return "emulator", architecture or "sm_100a"
