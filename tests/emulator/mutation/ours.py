"""Our kernel as problems for mutation: the sizes at which the official one is broken.

Four tiles for each CTA (or pair), so that the ring of keys and values wraps at every place of the
text where it can, and scores that rise towards the keys which come last, so that O is rescaled. The
causal kernel isn't persistent: there each CTA has one tile.

    python -m fa4kernel.emulator.mutation tests.emulator.mutation.ours:single \\
        tests.emulator.mutation.ours:pair tests.emulator.mutation.ours:causal \\
        tests.emulator.mutation.ours:paged tests.emulator.mutation.ours:decode \\
        --checks strict-isa --seconds 300 --page docs/validation/our_kernel.md

`strict-isa`, because this kernel has the fences of tensor memory that the manual asks for; the
official one has none, and the default checks don't miss them.
"""

from __future__ import annotations

from fa4kernel.emulator.mutation.problem import Prepared, Problem, Remark
from fa4sim.specs import Problem as Attention
from tests.forward.cases import Case
from tests.forward.launching import kernel_of, starter

#: How far outputs may be from the original's: MMAs in one queue are one sum in float32.
TOLERANCES = (2.0**-6, 1e-3)
#: What reading the kernel tells about survivors.
REMARKS: dict[str, tuple[Remark, ...]] = {
    "single": (
        Remark(
            "wait",
            "dropped",
            "load.py:94",
            "The wait for a slot of keys just before it tells of the same MMAs: Q0 was last read "
            "before the MMAs whose commit gave that slot back. This wait tells of newer MMAs, "
            "too, on which nothing depends.",
        ),
    ),
    "pair": (),
    "paged": (),
    "decode": (),
    "causal": (
        Remark(
            "wait",
            "on the next barrier",
            "softmax.py:132",
            "The softmax warps of the first tile wait for the scores of the second, which come "
            "later; those of the second wait for the P of the first, which is written after that "
            "wait.",
        ),
    ),
}


def single() -> Problem:
    """One CTA, four tiles of 256 rows, four blocks of keys in a ring of three slots."""
    attention = Attention(seqlen_q=1024, seqlen_k=512)
    case = Case("single", attention, {"cta_group": 1}, sms=1, rising=True)
    return _ours(case, "one CTA, full attention")


def pair() -> Problem:
    """A pair of CTAs, four tiles of 512 rows, four blocks of keys in a ring of six slots."""
    attention = Attention(seqlen_q=2048, seqlen_k=512)
    return _ours(Case("pair", attention, sms=2, rising=True), "a pair of CTAs, full attention")


def causal() -> Problem:
    """Three CTAs with one causal tile each."""
    attention = Attention(seqlen_q=768, seqlen_k=768, causal=True)
    return _ours(Case("causal", attention, rising=True), "one CTA, causal")


def paged() -> Problem:
    """One CTA, four tiles of 256 rows, three or four blocks of keys in pages of 16."""
    attention = Attention(seqlen_q=512, seqlens_k=(500, 300), page_size=16)
    case = Case("paged", attention, sms=1, rising=True)
    return _ours(case, "keys in pages of 16, copied by threads")


def decode() -> Problem:
    """One CTA, six tiles of one query of four heads, keys in pages of one in a ring of 5 slots."""
    attention = Attention(heads=8, kv_heads=2, seqlen_q=1, seqlens_k=(700, 129, 500), page_size=1)
    case = Case("decode", attention, sms=1, rising=True)
    return _ours(case, "one query, keys in pages of 1")


def _ours(case: Case, title: str) -> Problem:
    start = starter(case)

    def prepare() -> Prepared:
        started = start()
        return Prepared(started.launch, started.outputs, started.problems)

    title, text = f"our kernel, {title}", kernel_of(case).ptx
    return Problem(case.name, title, text, prepare, TOLERANCES, REMARKS[case.name])
