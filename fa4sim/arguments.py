"""What :func:`fa4sim.simulate` is asked to do, checked before anything is done."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fa4sim.numerics.formats import round_to
from fa4sim.numerics.kinds import in_numpy
from fa4sim.numerics.paged import PageTable, check_page_table
from fa4sim.numerics.scales import check_logits, check_positive, check_scales
from fa4sim.specs import FP8, Design, HopperDesign, Machine, Problem
from fa4sim.specs.checks import flag, one_of, quoted, whole

#: What arrays must hold, in messages.
REAL = "real numbers"


def check_arguments(
    problem: Any, design: Any, machine: Any, arrays: Any, sink: Any, page_table: Any, descales: Any,
    scope: Any, seed: Any, exact: Any, tile: Any, on_hazard: Any,
) -> None:  # fmt: skip
    """Raise ``ValueError`` for what has the wrong kind, and for what would be ignored."""
    if not isinstance(problem, Problem):
        raise ValueError(f"problem={quoted(problem)} must be a fa4sim.Problem")
    if not isinstance(machine, Machine):
        raise ValueError(f"machine={quoted(machine)} must be a fa4sim.Machine, as fa4sim.B200")
    kind = HopperDesign if machine.is_hopper else Design
    if not isinstance(design, kind | None):
        raise ValueError(
            f"design={quoted(design)} must be a fa4sim.{kind.__name__} on {machine.name}, or left "
            "out"
        )
    check_scales(_scale(problem), problem.softcap)
    one_of("scope", scope, ("gpu", "cta"))
    one_of("on_hazard", on_hazard, ("raise", "record"))
    whole("seed", seed)
    flag("exact", exact)
    if tile is not None:
        whole("tile", tile)
        if scope == "gpu":
            raise ValueError(
                f"tile={tile} is for scope='cta', which simulates one tile; scope='gpu' runs all"
            )
    if arrays is None:
        if sink is not None:
            raise ValueError("sink= needs arrays=(q, k, v) too; without values only time is told")
        if page_table is not None:
            raise ValueError(
                "page_table= needs arrays=(q, k, v) too; without values only the page size counts"
            )
        if descales is not None:
            raise ValueError("descales= needs arrays=(q, k, v) too; they change values, not time")
        return
    if scope != "gpu":
        raise ValueError("arrays are computed for the whole problem; leave scope='cta' out")
    if exact:
        raise ValueError("with arrays every CTA is simulated anyway; leave exact=True out")


def check_arrays(
    problem: Problem, arrays: Any
) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]:
    """``(q, k, v)`` as float32 values of the problem's dtype. Raises ValueError quoting shapes."""
    if not isinstance(arrays, Sequence | np.ndarray) or len(arrays) != 3:
        raise ValueError(f"arrays={quoted(arrays)} must be (q, k, v)")
    kv_heads = problem.kv_heads or 0
    keys: tuple[int, ...] = (problem.batch, problem.seqlen_k or 0)
    if problem.page_size is not None:
        keys = (len(np.atleast_1d(in_numpy("k", arrays[1], REAL))), problem.page_size)
    wanted = {
        "q": (problem.batch, problem.seqlen_q, problem.heads, problem.head_dim),
        "k": (*keys, kv_heads, problem.head_dim),
        "v": (*keys, kv_heads, problem.dim_v),
    }
    out = []
    for array, (name, shape) in zip(arrays, wanted.items(), strict=True):
        given = in_numpy(name, array, REAL)
        if given.shape != shape:
            paged = problem.page_size is not None and name != "q"
            raise ValueError(
                f"{name} has shape {given.shape}; this problem needs {shape} "
                f"({'pages, page_size' if paged else 'batch, seqlen'}, heads, head_dim)"
            )
        if given.dtype.kind not in "fiu":
            raise ValueError(f"{name} has dtype {given.dtype}; give real numbers")
        out.append(round_to(given.astype(np.float32), problem.dtype))
    return out[0], out[1], out[2]


def check_pages(
    problem: Problem, k: NDArray[np.float32], page_table: ArrayLike | None
) -> PageTable | None:
    """The page table as int32, or None. Raises ValueError if it does not fit K and the lengths."""
    if problem.page_size is None:
        if page_table is not None:
            raise ValueError(
                "page_table is given but the problem has page_size=None; set it, or leave the "
                "table out"
            )
        return None
    if page_table is None:
        raise ValueError(
            f"this problem has pages of {problem.page_size}; give page_table= with shape (batch, "
            "pages of the longest sequence) and k and v as (pages, page_size, kv_heads, head_dim)"
        )
    table = in_numpy("page_table", page_table, "int32")
    check_page_table(k, table, [problem.lengths(b)[1] for b in range(problem.batch)])
    return table


def check_descales(
    problem: Problem, descales: Any
) -> tuple[NDArray[np.float32] | None, NDArray[np.float32] | None, NDArray[np.float32] | None]:
    """``(q, k, v)`` descales, each float32 (batch, kv_heads) or None. ValueError quotes shapes."""
    if descales is None:
        return None, None, None
    if problem.dtype not in FP8:
        raise ValueError(
            f"descales= are for FP8 inputs ({', '.join(FP8)}), not dtype={problem.dtype!r}"
        )
    if not isinstance(descales, Sequence | np.ndarray) or len(descales) != 3:
        raise ValueError(
            f"descales={quoted(descales)} must be (q, k, v), each of shape "
            f"({problem.batch}, {problem.kv_heads}) or None"
        )
    found: list[NDArray[np.float32] | None] = []
    for given, name in zip(descales, "qkv", strict=True):
        factors = None if given is None else _float32(f"the descale of {name}", given)
        if factors is not None and factors.shape != (problem.batch, problem.kv_heads):
            raise ValueError(
                f"the descale of {name} has shape {factors.shape}; this problem needs "
                f"({problem.batch}, {problem.kv_heads}): one factor per sequence and K/V head"
            )
        if factors is not None:
            check_positive(f"the descale of {name}", factors)
        found.append(factors)
    q, k, _ = (1.0 if factors is None else factors for factors in found)
    check_scales(_scale(problem), 0.0, q, k)
    return found[0], found[1], found[2]


def check_sink(problem: Problem, sink: ArrayLike | None) -> NDArray[np.float32] | None:
    """The sink logits as float32 (heads,), or None. Raises ValueError if they do not fit."""
    if sink is None:
        if problem.sink:
            raise ValueError(
                f"this problem has a learnable sink; give sink= with shape ({problem.heads},)"
            )
        return None
    logits = _float32("sink", sink)
    if not problem.sink:
        raise ValueError("sink logits are given but the problem has sink=False; set sink=True")
    if logits.shape != (problem.heads,):
        raise ValueError(f"sink has shape {logits.shape}; this problem needs ({problem.heads},)")
    check_logits(logits)
    return logits


def _scale(problem: Problem) -> float:
    """What multiplies the scores."""
    given = problem.softmax_scale
    return float(problem.head_dim**-0.5 if given is None else given)


def _float32(name: str, given: Any) -> NDArray[np.float32]:
    """A list or array of real numbers as float32."""
    array = in_numpy(name, given, REAL)
    if array.dtype.kind not in "fiu":
        raise ValueError(f"{name} has dtype {array.dtype}; give real numbers")
    with np.errstate(over="ignore"):  # what becomes infinite is refused
        return array.astype(np.float32)
