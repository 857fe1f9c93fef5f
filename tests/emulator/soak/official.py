"""Official kernels as subjects of a soak: cases of the matrix, small enough for a hundred runs.

Small, but rings of slots wrap, and a CTA has two tiles wherever the kernel is persistent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from fa4kernel.emulator.soak.subject import Prepared, Subject
from fa4kernel.official.compile import Kernel, compiled
from fa4kernel.official.launches import launches
from fa4kernel.official.problem import Problem
from tests.official import cases
from tests.official.cases import Case
from tests.official.inputs import draw, problem, results
from tests.official.reference import Errors, Reference, reference
from tests.official.run import Outcome, _lse_error

#: What each does, the case it is made of, and what is smaller than there.
SUBJECTS: dict[str, tuple[str, str, Mapping[str, Any]]] = {
    "single": (
        "one CTA, two tiles, a ring of 3 slots for 8 loads a tile", "single-WTR",
        {"kv_heads": 1, "sms": 1, "seqlens_q": (512,), "seqlens_k": (512,)},
    ),
    "pair": (
        "a pair of CTAs, two tiles, a ring of 6 slots for 8 loads a tile", "pair-WTR",
        {"kv_heads": 1, "sms": 2, "seqlens_q": (1024,), "seqlens_k": (512,)},
    ),
    "causal": (
        "two CTAs, causal mask, O rescaled", "causal-WR",
        {"kv_heads": 1, "seqlens_q": (512,), "seqlens_k": (512,)},
    ),
    "packed-3-odd": (
        "three query heads in a tile, Q by cp.async", "packed-3-odd", {},
    ),
    "varlen": (
        "sequences of different lengths, one empty tile", "varlen",
        {"kv_heads": 1, "seqlens_q": (300, 17), "seqlens_k": (130, 250)},
    ),
    "decode": ("one token, one Q tile", "decode", {"kv_heads": 1}),
    "split": (
        "keys split over CTAs, and the kernel that combines", "split",
        {"seqlens_q": (1,), "seqlens_k": (700,), "splits": 2},
    ),
    "split-varlen-static": (
        "split keys of two sequences of different lengths", "split-varlen-static",
        {"seqlens_q": (10, 300), "seqlens_k": (300, 150), "splits": 2},
    ),
    "page-1": (
        "keys in pages of 1, by cp.async", "page-1",
        {"seqlens_q": (1, 1), "seqlens_k": (300, 77)},
    ),
    "page-16": ("keys in pages of 16, by cp.async, causal", "page-16", {}),
    "page-128": ("keys in pages of 128, by TMA", "page-128", {}),
    "e4m3": (
        "8-bit inputs with descales, a pair of CTAs", "e4m3-pair",
        {"kv_heads": 1, "sms": 2, "seqlens_q": (1024,), "seqlens_k": (512,)},
    ),
    "d256": (
        "head dim 256, two pairs of CTAs", "d256", {"kv_heads": 1, "seqlens_k": (384,)},
    ),
    "clc": (
        "tiles by cluster launch control, two CTAs at a time", "causal-clc",
        {"kv_heads": 1, "seqlens_q": (1024,), "seqlens_k": (256,)},
    ),
}  # fmt: skip
#: For the emulator.
OPTIONS: dict[str, Mapping[str, Any]] = {"clc": {"resident_ctas": 2}}
#: Why kinds of reports are deserved.
REASONS = {
    "uninitialised-read": "A Q tile that lies wholly beyond the last query is not loaded by "
    "cp.async; it is multiplied all the same, and the product dropped.",
}
NAMES = tuple(SUBJECTS)


def subject(name: str) -> Subject:
    """One of the kernels."""
    what, made_of, smaller = SUBJECTS[name]
    case = replace(next(case for case in cases.ALL if case.name == made_of), **smaller)
    kernels = compiled(case.variant)
    return Subject(
        f"official FA4, {name}",
        what,
        {key: kernel.ptx for key, kernel in kernels.items()},
        partial(_prepare, case, kernels, reference(case, 0)),
        {kind: REASONS[kind] for kind in case.reports},
        OPTIONS.get(name, {}),
    )


def _prepare(case: Case, kernels: Mapping[str, Kernel], expected: Reference) -> Prepared:
    call = problem(case, draw(case, 0))
    names = {id(kernel): name for name, kernel in kernels.items()}
    started = ((names[id(kernel)], launch) for kernel, launch in launches(call, kernels))
    return Prepared(
        started,
        lambda: [array for array in (call.out, call.lse) if array is not None],
        lambda: _problems(case, call, expected),
    )


def _problems(case: Case, call: Problem, expected: Reference) -> list[str]:
    out, lse = results(case, call)
    lse_error = 0.0 if lse is None else _lse_error(lse, expected)
    errors = Errors.of(out, expected.out)
    return Outcome(out, errors, expected.other, lse_error, (), ()).problems()
