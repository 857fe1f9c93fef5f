"""Our kernel as subjects of a soak: cases of its matrix, small enough for a hundred runs."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from fa4kernel.emulator.soak.subject import Prepared, Subject
from fa4sim.specs import Problem
from tests.forward import cases
from tests.forward.launching import Started, kernel_of, starter

#: What each does, the case it is made of, and what is smaller than there.
SUBJECTS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "pair": (
        "a pair of CTAs, four tiles, a ring of 6 slots for 8 loads a tile, O rescaled", "pair-WTR",
        {},
    ),
    "single": (
        "one CTA, two tiles, a ring of 3 slots for 12 loads a tile, O rescaled", "single-WTR",
        {"problem": Problem(seqlen_q=512, seqlen_k=768)},
    ),
    "causal": (
        "two CTAs, causal mask, O rescaled", "causal-WR",
        {"problem": Problem(seqlen_q=512, seqlen_k=512, causal=True)},
    ),
    "causal-persistent": (
        "one CTA, three causal tiles, O over Q, uneven ring", "causal-d192-persistent-WT",
        {},
    ),
    "uneven": (
        "one CTA, two tiles, the uneven ring of 3 slots", "single-d192-uneven-ring-WT",
        {"problem": Problem(seqlen_q=512, seqlen_k=640, head_dim=192, head_dim_v=128)},
    ),
    "window": ("a window on both sides, O rescaled", "window-both-R", {}),
    "packed": ("four query heads in a tile, causal", "packed-4-causal", {}),
    "varlen": ("sequences of different lengths, two empty", "varlen-empty", {}),
    "one-q-tile": ("one Q tile, four tiles a CTA", "one-tile-T", {}),
    "paged": ("keys in pages of 16, copied by threads, three tiles", "page-16-WTR", {
        "problem": Problem(seqlen_q=256, seqlens_k=(500, 300, 7), page_size=16),
    }),
    "decode": ("one query of four heads, keys in pages of one", "page-1-decode-T", {}),
    "odd": ("five query heads in a tile, Q copied by threads", "odd-5-WT", {}),
    "by-correction": (
        "O stored by the correction warps over the memory of Q", "stored-by-correction-d192-T", {},
    ),
}  # fmt: skip
NAMES = tuple(SUBJECTS)


def subject(name: str) -> Subject:
    """One of the cases."""
    what, made_of, smaller = SUBJECTS[name]
    case = replace(cases.named(made_of), **smaller)
    start = starter(case)
    kernels = {"forward": kernel_of(case).ptx}
    return Subject(f"our kernel, {name}", what, kernels, partial(_prepare, start))


def _prepare(start: Any) -> Prepared:
    started: Started = start()
    return Prepared([("forward", started.launch)], started.outputs, started.problems)
