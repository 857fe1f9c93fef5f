"""Times on the GPU that is here, ours and PyTorch's, by PyTorch's memory and the driver's clock.

A run is timed between two events of the driver, one by one, behind a few that do not count; the
median of many is reported. The clock is what the GPU chose, looked at while it works.
"""

from __future__ import annotations

import statistics
import subprocess
import time
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from fa4kernel.bench.points import Point
from fa4kernel.device import Loaded
from fa4kernel.forward.launch import Arrays
from fa4kernel.gpu import gpu, shadow
from fa4kernel.kernels import Kernel

RUNS = 30
#: PyTorch's cuDNN and FlashAttention-2, and FlashAttention-4 (`flash-attn-4`), if installed.
BASELINES = ("cudnn", "fa2", "fa4")
BUSY_S = 0.25  # for how long a kernel is kept running while the clock is looked at


def measure(
    points: Iterable[Point],
    kernel: Callable[[Point], tuple[Kernel, str]],
    baselines: Iterable[str] = BASELINES,
    tell: Callable[[str], None] = print,
    until: float = float("inf"),
) -> list[dict[str, Any]]:
    """Measure points, as far as time reaches.

    Args:
        points: what.
        kernel: of a point, and its PTX.
        baselines: of `BASELINES`, to measure beside, for points without a variant.
        tell: is given a line for each.
        until: `time.monotonic()` at which to stop.

    Returns:
        For each point its fields and, in milliseconds, "ours" and the baselines' medians with
        their quartiles; `rel_err` against PyTorch's; `clock_hz`.
    """
    found = []
    for point in points:
        if time.monotonic() > until:
            tell(f"no time left before {point.name}")
            break
        inputs = draw(point)
        row = {"name": point.name, **{k: v for k, v in vars(point).items() if k != "changes"}}
        for name in baselines if not point.variant else ():
            row[name] = summary(other_times(point, inputs, name))
        made, ptx = kernel(point)
        row |= our_times(point, inputs, made, ptx)
        row["design"] = str(made.design)
        tell(line(point, row))
        found.append(row)
    return found


def draw(point: Point) -> list[Any]:
    """Q, K and V on the GPU: standard normal, bf16, the same for the same shape."""
    import torch

    source = torch.Generator(device="cuda").manual_seed(1)
    shape = point.batch, point.seqlen
    return [
        torch.randn(
            (*shape, heads, point.head_dim), device="cuda", dtype=torch.bfloat16, generator=source
        )
        for heads in (point.heads, point.kv_heads, point.kv_heads)
    ]


def our_times(point: Point, inputs: list[Any], kernel: Kernel, ptx: str) -> dict[str, Any]:
    """Times of our kernel, its error against PyTorch's, and the clock while it ran."""
    import torch

    out = torch.zeros_like(inputs[0])
    lse = torch.zeros((point.batch, point.heads, point.seqlen), device="cuda")
    tensors = [*inputs, out, lse]
    shadows = [shadow(tensor) for tensor in tensors]
    q, k, v, o, logs = shadows
    there = {id(s): t.data_ptr() for s, t in zip(shadows, tensors, strict=True)}
    launch = kernel.launch(Arrays(q, k, v, o, logs), gpu().sms)
    torch.cuda.synchronize()
    with Loaded(gpu(), ptx, launch, there) as loaded:
        times = loaded.times(RUNS)
        clock = clock_while(loaded, statistics.median(times))
    wanted = other_output(point, inputs, "fa2").float()
    error = float((out.float() - wanted).norm() / wanted.norm())
    return {"ours": summary(times), "rel_err": error, "clock_hz": clock}


def clock_while(loaded: Loaded, milliseconds: float) -> int:
    """The multiprocessors' clock while a kernel runs again and again, in Hz; 0 if not known."""
    for _ in range(max(1, round(BUSY_S * 1e3 / milliseconds))):
        loaded.start()
    query = ["nvidia-smi", "--query-gpu=clocks.sm", "--format=csv,noheader,nounits"]
    try:
        text = subprocess.run(query, capture_output=True, text=True, timeout=10).stdout
        clock = int(float(text.split()[0]) * 1e6)
    except (OSError, subprocess.TimeoutExpired, ValueError, IndexError):
        clock = 0
    gpu().wait(60)
    return clock


def other_output(point: Point, inputs: list[Any], backend: str) -> Any:
    """Attention by one of `BASELINES`."""
    import torch.nn.functional as functional
    from torch.nn.attention import SDPBackend, sdpa_kernel

    if backend == "fa4":
        from flash_attn.cute import flash_attn_func

        made = flash_attn_func(*inputs, causal=point.causal)
        return made[0] if isinstance(made, tuple) else made
    chosen = {"cudnn": SDPBackend.CUDNN_ATTENTION, "fa2": SDPBackend.FLASH_ATTENTION}[backend]
    q, k, v = (tensor.transpose(1, 2) for tensor in inputs)
    with sdpa_kernel(chosen):
        made = functional.scaled_dot_product_attention(
            q, k, v, is_causal=point.causal, enable_gqa=point.heads != point.kv_heads
        )
    return made.transpose(1, 2)


def other_times(point: Point, inputs: list[Any], backend: str) -> list[float]:
    """Milliseconds of one of `BASELINES`; none if it refuses, or is not installed."""
    import torch

    try:
        for _ in range(3):
            other_output(point, inputs, backend)
        marks = []
        for _ in range(RUNS):
            first, last = (torch.cuda.Event(enable_timing=True) for _ in "ab")
            first.record()
            other_output(point, inputs, backend)
            last.record()
            marks.append((first, last))
        torch.cuda.synchronize()
    except (RuntimeError, ImportError):
        return []
    return [first.elapsed_time(last) for first, last in marks]


def summary(times: list[float]) -> dict[str, float]:
    """Median and quartiles, in milliseconds."""
    if not times:
        return {}
    low, median, high = np.percentile(times, (25, 50, 75))
    return {
        "ms": round(float(median), 5),
        "low": round(float(low), 5),
        "high": round(float(high), 5),
    }


def line(point: Point, row: dict[str, Any]) -> str:
    """A point in a line."""
    flops = point.problem.flops
    rates = [
        f"{name} {flops / row[name]['ms'] / 1e9:.0f}"
        for name in ("ours", *BASELINES)
        if row.get(name)
    ]
    clock = row["clock_hz"] / 1e9
    return f"{point.name}: {', '.join(rates)} TFLOP/s, {clock:.2f} GHz, err {row['rel_err']:.1e}"
