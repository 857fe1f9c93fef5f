"""How far special functions are from the truth: all inputs of ex2, many of the others.

The truth is the C library's float64 function. Kept are counts, largest errors and the first
differences, not the values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tests.emulator.device import opcodes
from tests.emulator.isa.case import Case, evaluate, op

if TYPE_CHECKING:
    from fa4kernel.device import Gpu

_SMALLEST = 2.0**-126
_TWO_PI = 2 * math.pi


@dataclass(frozen=True)
class Sweep:
    """One function.

    Attributes:
        text: the line.
        truth: of float64 values.
        bound: a region of inputs (low, high), and what is bounded there: "ulp", "relative" or
            "absolute"; where the manual gives a bound.
        promised: that bound.
    """

    text: str
    truth: Callable[[np.ndarray], np.ndarray]
    bound: tuple[float, float, str]
    promised: float

    @property
    def case(self) -> Case:
        """The line as a case."""
        return op(self.text, "f32 -> f32")


SWEEPS = (
    Sweep("ex2.approx.ftz.f32 d, a;", np.exp2, (-126, 128, "ulp"), 2),
    Sweep("ex2.approx.f32 d, a;", np.exp2, (-126, 128, "ulp"), 2),
    Sweep("lg2.approx.f32 d, a;", np.log2, (2.0, 3e38, "relative"), 2.0**-22),
    Sweep("lg2.approx.ftz.f32 d, a;", np.log2, (0.5, 2.0, "absolute"), 2.0**-22),
    Sweep("rcp.approx.ftz.f32 d, a;", np.reciprocal, (1e-37, 1e37, "ulp"), 1),
    Sweep("rcp.approx.f32 d, a;", np.reciprocal, (1e-37, 1e37, "ulp"), 1),
    Sweep("sqrt.approx.f32 d, a;", np.sqrt, (1e-37, 3e38, "relative"), 2.0**-23),
    Sweep("sqrt.approx.ftz.f32 d, a;", np.sqrt, (1e-37, 3e38, "relative"), 2.0**-23),
    Sweep("rsqrt.approx.f32 d, a;", lambda x: 1 / np.sqrt(x), (1e-37, 3e38, "relative"), 2**-22.9),
    Sweep("rsqrt.approx.ftz.f32 d, a;", lambda x: 1 / np.sqrt(x), (1e-37, 3e38, "relative"),
          2**-22.9),
    Sweep("tanh.approx.f32 d, a;", np.tanh, (-1e30, 1e30, "relative"), 2.0**-11),
    Sweep("sin.approx.f32 d, a;", np.sin, (-_TWO_PI, _TWO_PI, "absolute"), 2**-20.5),
    Sweep("sin.approx.ftz.f32 d, a;", np.sin, (-100 * math.pi, 100 * math.pi, "absolute"),
          2**-14.7),
    Sweep("cos.approx.f32 d, a;", np.cos, (-_TWO_PI, _TWO_PI, "absolute"), 2**-20.5),
    Sweep("cos.approx.ftz.f32 d, a;", np.cos, (-100 * math.pi, 100 * math.pi, "absolute"),
          2**-14.7),
)  # fmt: skip

_PTX = (
    opcodes.HEAD
    + """.visible .entry k(.param .u64 target, .param .u32 start, .param .u32 step)
{{
.reg .b64 %to;
.reg .b32 %i, %j, %k;
.reg .f32 a, d;
ld.param.u64 %to, [target];
mov.u32 %i, %ctaid.x;
mov.u32 %j, %tid.x;
mad.lo.u32 %i, %i, 256, %j;
mad.wide.u32 %to, %i, 4, %to;
ld.param.u32 %j, [start];
ld.param.u32 %k, [step];
mad.lo.u32 %i, %i, %k, %j;
mov.b32 a, %i;
{text}
st.global.f32 [%to], d;
ret;
}}
"""
)


def ptx(sweep: Sweep) -> str:
    """The kernel: thread i has the float with bits start + i * step."""
    return _PTX.format(text=sweep.text)


def chunks(gpu: Gpu, sweep: Sweep, step: int, size: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Bits of inputs and of results, ``size`` at a time, over all 2**32 / step inputs."""
    module = gpu.load(ptx(sweep))
    function, target = gpu.function(module, "k"), gpu.allocate(4 * size)
    for first in range(0, (1 << 32) // step, size):
        start = (first * step) & 0xFFFFFFFF
        parameters = [target.to_bytes(8, "little"), start.to_bytes(4, "little"),
                      step.to_bytes(4, "little")]  # fmt: skip
        gpu.start(gpu.prepare(function, parameters, (size // 256, 1, 1), (256, 1, 1)))
        gpu.wait()
        results = np.empty(size, np.uint32)
        gpu.download(target, results)
        inputs = (np.arange(size, dtype=np.uint64) * np.uint64(step) + np.uint64(start)).astype(
            np.uint32
        )
        yield inputs, results
    gpu.free(target)
    gpu.unload(module)


def judged(sweep: Sweep, inputs: np.ndarray, results: np.ndarray) -> dict[str, Any]:
    """Errors of some results against the truth, and differences from the emulator's."""
    x, y = inputs.view(np.float32), results.view(np.float32)
    ftz = ".ftz" in sweep.text
    with np.errstate(all="ignore"):
        wide = x.astype(np.float64)
        truth = sweep.truth(wide)
        model = evaluate(sweep.case, [inputs.astype(np.uint64)])[0].view(np.float32)
        nearest = truth.astype(np.float32)
        usual = np.isfinite(y) & (np.abs(truth) >= _SMALLEST) & (np.abs(truth) < 2.0**128)
        usual &= np.abs(x) >= _SMALLEST if ftz else np.isfinite(x)
        usual &= (y.view(np.uint32) & np.uint32(0x7F800000)) != 0
        low, high, measure = sweep.bound
        inside = usual & (x > low) & (x < high)
        error = np.abs(y.astype(np.float64) - truth)
        unit = np.ldexp(1.0, np.frexp(truth)[1] - 24)
        ulps = error / unit
        own = np.abs(model.astype(np.float64) - truth) / unit
        scale = {"ulp": unit, "relative": np.abs(truth), "absolute": 1.0}[measure]
        apart = results.view(np.int32).astype(np.int64) - nearest.view(np.int32)
        other = results.view(np.int32).astype(np.int64) - model.view(np.int32)
        alike = (
            (np.isnan(y) == np.isnan(model))
            & (np.isinf(y) == np.isinf(model))
            & ((y == 0) == (model == 0))
            & ((np.signbit(y) == np.signbit(model)) | np.isnan(y))
        )
    same_nan = np.isnan(y) & np.isnan(model)
    differs = (results != model.view(np.uint32)) & ~same_nan
    nans = np.unique(results[np.isnan(y)][:1000])

    def listed(which: np.ndarray, most: int) -> list[list[str]]:
        at = np.flatnonzero(which)[:most]
        rows = zip(inputs[at], results[at], model.view(np.uint32)[at], strict=True)
        return [[f"{int(v):08x}" for v in row] for row in rows]

    def counted(values: np.ndarray) -> dict[str, int]:
        counts = np.bincount(np.clip(values, -9, 9) + 9, minlength=19)
        return {str(i - 9): int(n) for i, n in enumerate(counts) if n}

    def largest(values: np.ndarray, where: np.ndarray) -> list[Any]:
        if not where.any():
            return [0.0, ""]
        at = np.flatnonzero(where)[values[where].argmax()]
        return [float(values[at]), f"{int(inputs[at]):08x}"]

    subnormal = np.isfinite(y) & np.isfinite(model) & ~usual & differs
    return {
        "inputs": len(inputs),
        "from nearest, ulps": counted(apart[usual]),
        "from the model, ulps": counted(other[usual & alike]),
        "largest error, ulps": largest(ulps, usual),
        "largest error of the model, ulps": largest(own, usual),
        "largest error where bounded": largest(error / scale, inside),
        "differences": int(differs.sum()),
        "first differences": listed(differs & usual, 8),
        "special": int((~alike).sum()),
        "first special": listed(~alike, 12),
        "subnormal": int(subnormal.sum()),
        "first subnormal": listed(subnormal, 8),
        "nans": [f"{int(v):08x}" for v in nans[:4]],
    }


def merged(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """Findings about several parts of the inputs as one, in the order of the parts."""
    found: dict[str, Any] = {}
    for key, value in parts[0].items():
        values = [part[key] for part in parts]
        if isinstance(value, int):
            found[key] = sum(values)
        elif isinstance(value, dict):
            names = sorted({n for v in values for n in v}, key=int)
            found[key] = {n: sum(v.get(n, 0) for v in values) for n in names}
        elif key.startswith("largest"):
            found[key] = max(values, key=lambda pair: pair[0])
        elif key == "nans":
            found[key] = sorted({n for v in values for n in v})[:4]
        else:
            found[key] = [row for rows in values for row in rows][:12]
    return found


def swept(gpu: Gpu, sweep: Sweep, step: int, workers: int = 16) -> dict[str, Any]:
    """The findings over every ``step``-th float."""
    size, piece = 1 << 24, 1 << 19
    size = min(size, (1 << 32) // step)
    parts: list[dict[str, Any]] = []
    with ThreadPoolExecutor(workers) as pool:
        for inputs, results in chunks(gpu, sweep, step, size):
            cuts = range(0, size, piece)
            jobs = [
                pool.submit(judged, sweep, inputs[i : i + piece], results[i : i + piece])
                for i in cuts
            ]
            parts.append(merged([job.result() for job in jobs]))
    return merged(parts)


HALVES = (
    op("ex2.approx.f16 d, a;", "f16 -> f16"),
    op("ex2.approx.ftz.bf16 d, a;", "bf16 -> bf16"),
    op("tanh.approx.f16 d, a;", "f16 -> f16"),
    op("tanh.approx.bf16 d, a;", "bf16 -> bf16"),
)
