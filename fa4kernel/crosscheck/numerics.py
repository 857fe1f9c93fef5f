"""Part 5: pipeline, kernel and reference compute the same attention."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fa4kernel.crosscheck.inputs import Inputs
from fa4kernel.crosscheck.verdict import Part
from fa4sim.numerics import attention_float64
from fa4sim.specs import Problem

#: Largest ‖A − B‖ / ‖B‖ that passes. P and O are rounded to the dtype, with a relative error of at
#: most 2⁻⁸ each in bf16, 1.6e-3 in the mean square: together 2.3e-3 on random inputs. fp16 has
#: three bits more. FP8 rounds P to four or three bits: 2.6e-2 and twice as much in the mean square.
#: Pipeline and kernel round at the same places: they are held to half of that.
LIMITS = {"bf16": 4e-3, "fp16": 5e-4, "e4m3": 4e-2, "e5m2": 8e-2}
#: Largest difference of LSE.
LSE_LIMIT = 1e-3
SAME_BITS = "elements equal with the kernel's scores"

Floats = NDArray[np.floating]


@dataclass(frozen=True)
class Result:
    """``out`` (batch, seqlen_q, heads, head_dim_v) and ``lse`` (batch, heads, seqlen_q)."""

    name: str
    out: Floats
    lse: Floats


def reference(problem: Problem, inputs: Inputs) -> Result:
    """Attention in float64."""
    out, lse = attention_float64(
        inputs.q, inputs.k, inputs.v, sink=inputs.sink, causal=problem.causal,
        window=problem.window, softmax_scale=problem.softmax_scale, softcap=problem.softcap,
        seqlens_q=problem.seqlens_q, seqlens_k=problem.seqlens_k,
    )  # fmt: skip
    return Result("reference", out, lse)


def compare_numerics(
    problem: Problem, inputs: Inputs, pipeline: Result, fed: Result, kernel: Result
) -> Part:
    """Compare the three in pairs, and the kernel's bits with those of a pipeline fed its scores."""
    part = Part("numerics")
    truth = reference(problem, inputs)
    limit = LIMITS[problem.dtype]
    pairs = ((pipeline, truth, limit), (kernel, truth, limit), (pipeline, kernel, limit / 2))
    for one, other, most in pairs:
        relative, largest = errors(one.out, other.out)
        logs = lse_error(one.lse, other.lse)
        name = f"{one.name} and {other.name}"
        part.holds(f"{name}: relative error {relative:.2e} of at most {most:.0e}", relative <= most)
        part.holds(f"{name}: LSE off by {logs:.2e} of at most {LSE_LIMIT:.0e}", logs <= LSE_LIMIT)
        part.figures[name] = {
            "rel_err": relative, "max_abs_err": largest, "lse_max_abs_err": logs,
        }  # fmt: skip
    same = float(np.mean(fed.out == kernel.out))
    part.figures[SAME_BITS] = same
    part.notes.append(f"fed the kernel's scores, {same:.2%} of the pipeline's elements are equal")
    return part


def errors(one: Floats, other: Floats) -> tuple[float, float]:
    """‖A − B‖ / ‖B‖, and the largest difference; infinite if one has what the other has not."""
    difference = one.astype(np.float64) - other
    if not np.isfinite(difference).all():
        return float("inf"), float("inf")
    norm = float(np.linalg.norm(other))
    off = float(np.linalg.norm(difference))
    return off / norm if norm else float(off > 0), float(np.max(np.abs(difference), initial=0.0))


def lse_error(one: Floats, other: Floats) -> float:
    """The largest difference; rows that see no key are −inf in both, which is none."""
    with np.errstate(invalid="ignore"):
        off = np.where(one == other, 0.0, np.abs(one - other))
    return float(np.max(off, initial=0.0)) if np.isfinite(off).all() else float("inf")
