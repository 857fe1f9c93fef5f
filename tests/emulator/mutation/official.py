"""The official kernel as problems for mutation: small, but they take every way through it.

Four tiles for each CTA (or pair), so that the ring of keys and values wraps at every place of the
text where it can, and scores that rise towards the keys which come last, so that O is rescaled. The
causal kernel isn't persistent: there each CTA has one tile.
"""

from __future__ import annotations

from dataclasses import replace

from fa4kernel.emulator.mutation.problem import Prepared, Problem, Remark
from fa4kernel.official.compile import compiled
from fa4kernel.official.launches import launches
from fa4kernel.official.problem import Floats
from tests.official.cases import FORWARD, Case
from tests.official.inputs import draw, problem, results
from tests.official.reference import Errors, reference
from tests.official.run import Outcome, _lse_error

#: What reading the kernel tells about survivors.
REMARKS = {
    "single": Remark(
        "wait",
        "dropped",
        "flash_fwd_sm100.py:3197",
        "The wait for a slot of keys just before it tells of the same MMAs: Q0 was last read "
        "before the MMAs whose commit gave that slot back. This wait tells of newer MMAs, too, on "
        "which nothing depends.",
    ),
    "pair": Remark(
        "named barrier",
        "sync → arrive",
        "flash_fwd_sm100.py:1375",
        "Softmax warps of the odd CTA would not hear that the MMA warp of their own CTA has "
        "allocated tensor memory. But the pair allocates together, and the MMA warp of the even "
        "CTA, for whose commits they wait, knows.",
    ),
    "causal": Remark(
        "wait",
        "on the next barrier",
        "flash_fwd_sm100.py:2458",
        "The softmax warps of the first tile wait for the scores of the second, which come later; "
        "those of the second wait for the P of the first, which is written after that wait.",
    ),
}


def single() -> Problem:
    """One CTA, four tiles of 256 rows, four blocks of keys in a ring of three slots."""
    case = replace(_case("single-WTR"), kv_heads=1, sms=1, seqlens_q=(1024,), seqlens_k=(512,))
    return _official("single", "one CTA, full attention", case)


def pair() -> Problem:
    """A pair of CTAs, four tiles of 512 rows, four blocks of keys in a ring of six slots."""
    case = replace(_case("pair-WTR"), kv_heads=1, sms=2, seqlens_q=(2048,), seqlens_k=(512,))
    return _official("pair", "a pair of CTAs, full attention", case)


def causal() -> Problem:
    """Three CTAs with one causal tile each."""
    case = replace(_case("causal-WR"), kv_heads=1, seqlens_q=(768,), seqlens_k=(768,))
    return _official("causal", "one CTA, causal", case)


def _case(name: str) -> Case:
    return next(case for case in FORWARD if case.name == name)


def _official(name: str, title: str, case: Case) -> Problem:
    kernels = compiled(case.variant)
    inputs = draw(case, 0)
    expected = reference(case, 0)

    def prepare() -> Prepared:
        call = problem(case, inputs)
        ((_, launch),) = launches(call, kernels)

        def problems() -> list[str]:
            out, lse = results(case, call)
            lse_error = 0.0 if lse is None else _lse_error(lse, expected)
            return Outcome(
                out, Errors.of(out, expected.out), expected.other, lse_error, (), ()
            ).problems()

        def outputs() -> list[Floats]:
            return [x for x in results(case, call) if x is not None]

        return Prepared(launch, outputs, problems)

    tolerances = [2.0**-6, 1e-3] if case.variant.lse else [2.0**-6]
    title = f"official FA4, {title}"
    return Problem(name, title, kernels["forward"].ptx, prepare, tolerances, (REMARKS[name],))
