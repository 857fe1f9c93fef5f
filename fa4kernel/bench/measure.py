"""Times on the GPU that is here, ours and others'.

A run is timed between two events, one by one, behind a few that do not count. Everybody has a turn
in every round; the median of all rounds is reported. The clock is what the GPU chose, its mean over
our runs. Others are started by PyTorch, whose own time shows where a problem is very small.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np

from fa4kernel.bench.points import Point
from fa4kernel.device import Loaded, MeanClock
from fa4kernel.forward.launch import Arrays
from fa4kernel.gpu import gpu, shadow
from fa4kernel.kernels import Kernel

ROUNDS, RUNS, WARM_UP, PAUSE_S = 4, 10, 3, 0.15
#: PyTorch's cuDNN and FlashAttention-2, and FlashAttention-4 (`flash-attn-4`), if installed.
BASELINES = ("cudnn", "fa2", "fa4")


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
        For each point its fields; for "ours" and the baselines `race`'s; `rel_err` against
        PyTorch's.
    """
    found = []
    for point in points:
        if time.monotonic() > until:
            tell(f"no time left before {point.name}")
            break
        inputs = draw(point)
        row = {"name": point.name, **{k: v for k, v in vars(point).items() if k != "changes"}}
        made, ptx = kernel(point)
        ours = Ours(point, inputs, made, ptx)
        entrants: dict[str, Callable[[], list[float]]] = {
            name: partial(other_times, point, inputs, name)
            for name in baselines
            if not point.variant
        }
        entrants["ours"] = ours.times
        row |= race(entrants)
        row |= {"rel_err": ours.error(), "design": str(made.design)}
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


def race(entrants: dict[str, Callable[[], list[float]]]) -> dict[str, Any]:
    """Medians and quartiles of everybody's times, and the mean clock at which each ran.

    A GPU at its limit of power slows down the longer it works, and what came before matters. So
    everybody has a turn in every round, behind a pause, in an order that turns around.
    """
    times: dict[str, list[float]] = {name: [] for name in entrants}
    clocks: dict[str, list[float]] = {name: [] for name in entrants}
    order = list(entrants)
    for name in order:  # whatever compiles when it is first called
        entrants[name]()
    for _ in range(ROUNDS):
        for name in order:
            clock = MeanClock(gpu())
            time.sleep(PAUSE_S)
            with clock:
                times[name] += entrants[name]()
            clocks[name].append(clock.hz)
        order.reverse()
    return {
        name: {**summary(times[name]), "clock_hz": round(float(np.mean(clocks[name])))}
        for name in entrants
        if times[name]
    }


class Ours:
    """Our kernel on a point's inputs."""

    def __init__(self, point: Point, inputs: list[Any], kernel: Kernel, ptx: str) -> None:
        import torch

        self.point, self.inputs = point, inputs
        self.out = torch.zeros_like(inputs[0])
        lse = torch.zeros((point.batch, point.heads, point.seqlen), device="cuda")
        self._tensors = [*inputs, self.out, lse]  # as long as the kernel may write to them
        self._shadows = [shadow(tensor) for tensor in self._tensors]
        q, k, v, o, logs = self._shadows
        pairs = zip(self._shadows, self._tensors, strict=True)
        there = {id(each): tensor.data_ptr() for each, tensor in pairs}
        self._loaded = Loaded(gpu(), ptx, kernel.launch(Arrays(q, k, v, o, logs), gpu().sms), there)
        torch.cuda.synchronize()

    def times(self) -> list[float]:
        """Milliseconds of some runs."""
        return self._loaded.times(RUNS, WARM_UP)

    def error(self) -> float:
        """‖A − B‖ / ‖B‖ against PyTorch's FlashAttention-2."""
        wanted = other_output(self.point, self.inputs, "fa2").float()
        return float((self.out.float() - wanted).norm() / wanted.norm())


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
        for _ in range(WARM_UP):
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
    clock = row["ours"]["clock_hz"] / 1e9
    return f"{point.name}: {', '.join(rates)} TFLOP/s, {clock:.2f} GHz, err {row['rel_err']:.1e}"
