"""Our kernel as problems for mutation: the sizes at which the official one is broken.

Four tiles for each CTA (or pair), so that the ring of keys and values wraps at every place of the
text where it can, and scores that rise towards the keys which come last, so that O is rescaled. The
causal kernel isn't persistent: there each CTA has one tile.

    python -m fa4kernel.emulator.mutation tests.emulator.mutation.ours:single \\
        tests.emulator.mutation.ours:pair tests.emulator.mutation.ours:causal \\
        --checks strict-isa --schedules 1 --seconds 300 --sample 120 \\
        --page docs/validation/our_kernel.md
    python -m fa4kernel.emulator.mutation tests.emulator.mutation.ours:fp8 \\
        tests.emulator.mutation.ours:split tests.emulator.mutation.ours:combine \\
        tests.emulator.mutation.ours:paged tests.emulator.mutation.ours:decode \\
        --checks strict-isa --schedules 1 --seconds 300 --sample 120 --section inference \\
        --page docs/validation/our_kernel.md

`strict-isa`, because this kernel has the fences of tensor memory that the manual asks for; the
official one has none, and the default checks don't miss them.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import fa4kernel
from fa4kernel.combine.compile import compile_ptx as compile_combine
from fa4kernel.combine.config import Config as CombineConfig
from fa4kernel.combine.launch import launch as combine_launch
from fa4kernel.emulator.mutation.problem import Prepared, Problem, Remark
from fa4sim import numerics
from fa4sim.specs import Problem as Attention
from tests.forward.cases import Case
from tests.forward.launching import kernel_of, starter

PACKAGE = Path(fa4kernel.__file__).parent


def place_of(path: str, code: str) -> str:
    """Where the one place with this code ends, as mutants say it: ``load.py:181``.

    Args:
        path: in `fa4kernel`.
        code: text of a line, or of lines.
    """
    before, *behind = (PACKAGE / path).read_text().split(code)
    assert len(behind) == 1, f"{path} has {len(behind)} places with {code!r}; name one"
    return f"{Path(path).name}:{(before + code).count(chr(10)) + 1}"


#: How far outputs may be from the original's: MMAs in one queue are one sum in float32.
TOLERANCES = (2.0**-6, 1e-3)
#: What reading the kernel tells about survivors.
REMARKS: dict[str, tuple[Remark, ...]] = {
    "single": (
        Remark(
            "wait",
            "dropped",
            place_of(
                "forward/load.py",
                """row, tile.head, sequence)
    barriers.load_Q_empty.wait_previous(stage, nth)""",
            ),
            "The wait for a slot of keys just before it tells of the same MMAs: Q0 was last read "
            "before the MMAs whose commit gave that slot back. This wait tells of newer MMAs, "
            "too, on which nothing depends.",
        ),
    ),
    "pair": (),
    "paged": (),
    "decode": (),
    "fp8": (),
    "split": (
        Remark(
            "arrive",
            "count + 1",
            place_of(
                "forward/correction.py",
                """rescale(me, stage, factor)
                barriers.P_full_O_rescaled.arrive_leader(stage)""",
            ),
            "In lock step the softmax warps arrive first, and what is too much counts towards a "
            "phase that a CTA with one tile does not wait for. In the orders of seeds 2 and 3 it "
            "is reported, as an early phase or a split arrival.",
        ),
    ),
    "combine": (
        *(
            Remark(
                "group wait",
                change,
                place_of("combine/kernel.py", "cute.arch.cp_async_wait_group(0)"),
                "The copies that it waits for are read by nobody, and no thread ends before its "
                "own copies have come.",
            )
            for change in ("dropped", "for one group less")
        ),
    ),
    "causal": (
        Remark(
            "wait",
            "on the next barrier",
            place_of("forward/softmax.py", "barriers.S_full.wait(stage, now.step)"),
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


def fp8() -> Problem:
    """`single` in FP8: more of O is rescaled, P is half as wide, and there are factors."""
    attention = Attention(seqlen_q=1024, seqlen_k=512, dtype="e4m3")
    design = {"cta_group": 1, "kv_stages": 3}
    case = Case("fp8", attention, design, sms=1, rising=True, descale=True)
    return _ours(case, "one CTA, FP8")


def split() -> Problem:
    """Four CTAs for the keys of one tile: three get two blocks each, one gets none."""
    attention = Attention(seqlen_q=256, seqlen_k=768, num_splits=4)
    return _ours(Case("split", attention, rising=True), "keys split among CTAs")


def combine() -> Problem:
    """The kernel that combines what seven splits have left of 20 rows; some saw nothing."""
    rng = np.random.default_rng(0)
    partial_o = rng.standard_normal((7, 1, 10, 2, 64), np.float32)
    partial_lse = rng.normal(0, 3, (7, 1, 2, 10)).astype(np.float32)
    partial_lse[2:4] = partial_lse[6, :, :, 5:] = -np.inf
    cfg = CombineConfig(head_dim_v=64)
    expected = numerics.combine(partial_o, partial_lse)

    def prepare() -> Prepared:
        out, lse = np.zeros((1, 10, 2, 64), np.uint16), np.zeros((1, 2, 10), np.float32)

        def outputs() -> list[NDArray[np.float32]]:
            return [numerics.from_bits16(out, "bf16"), lse]

        def problems() -> list[str]:
            pairs = zip(outputs(), expected, TOLERANCES, strict=True)
            near = all(np.allclose(one, other, atol=far) for one, other, far in pairs)
            return [] if near else ["not what the arithmetic says"]

        launch = combine_launch(cfg, partial_o, partial_lse, out, lse)
        return Prepared(launch, outputs, problems)

    return Problem(
        "combine", "our kernel that combines splits", compile_combine(cfg), prepare, TOLERANCES,
        REMARKS["combine"],
    )  # fmt: skip


def _ours(case: Case, title: str) -> Problem:
    start = starter(case)

    def prepare() -> Prepared:
        started = start()
        return Prepared(started.launch, started.outputs, started.problems)

    title, text = f"our kernel, {title}", kernel_of(case).ptx
    return Problem(case.name, title, text, prepare, TOLERANCES, REMARKS[case.name])
