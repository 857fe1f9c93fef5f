"""Random problems on a few compiled kernels: whatever the sizes, the output is right.

All problems of a test share one configuration, so one compiled kernel. Drawn are lengths, heads,
sequences, how many multiprocessors there are, whether scores grow, and the order of events.
"""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("cutlass", reason="needs the CuTe DSL: pip install 'fa4sim[kernel]'")

from hypothesis import given, settings
from hypothesis import strategies as st

from fa4sim.specs import Problem
from tests.forward.cases import Case
from tests.forward.running import run

FEW, MANY = settings(max_examples=6), settings(max_examples=14)
LENGTH = st.integers(1, 600) | st.sampled_from([1, 127, 128, 129, 255, 256, 257, 512])
#: Lengths of the queries and keys of a few sequences; not all are empty.
SEQUENCES = st.lists(
    st.tuples(st.integers(0, 300), st.integers(0, 300)), min_size=1, max_size=4
).filter(lambda pairs: all(map(any, zip(*pairs, strict=True))))
SCHEDULE = (
    st.just("lockstep")
    | st.integers(0, 999)
    | st.sampled_from(
        ["delay tma", "delay tensor", "hurry tensor", "delay warp 0", "hurry warp 14"]
    )
)


def check(data: st.DataObject, fixed: dict[str, Any], **sizes: Any) -> None:
    """A random problem of these sizes is right; all have two Q tiles and one CTA, if not fixed."""
    group = fixed.get("group", 1)
    heads = data.draw(st.integers(1, 2), "kv_heads")
    problem = Problem(
        heads=heads * group, kv_heads=heads, **sizes,
        **{name: value for name, value in fixed.items() if name not in ("group", "design")},
    )  # fmt: skip
    case = Case(
        "random",
        problem,
        {"q_stages": 2, "cta_group": 1} | fixed.get("design", {}),
        sms=data.draw(st.integers(2, 5), "sms"),
        rising=data.draw(st.booleans(), "rising"),
    )
    seed, schedule = data.draw(st.integers(0, 9999), "seed"), data.draw(SCHEDULE, "schedule")
    assert run(case, seed, schedule=schedule).problems() == []


FULL = {"head_dim": 64, "dtype": "fp16"}
PACKED = {"head_dim": 32, "group": 2, "causal": True}


@given(st.data(), LENGTH, LENGTH, st.integers(1, 2))
@FEW
def test_full_attention(data, q, k, batch):
    check(data, FULL, seqlen_q=q, seqlen_k=k, batch=batch)


@given(st.data(), SEQUENCES)
@FEW
def test_packed_sequences_causal(data, lengths):
    q, k = zip(*lengths, strict=True)
    check(data, PACKED, seqlens_q=q, seqlens_k=k)


@pytest.mark.slow
@given(st.data(), LENGTH, LENGTH)
@MANY
def test_pairs_of_ctas(data, q, k):
    check(data, {"design": {"cta_group": 2}}, seqlen_q=q, seqlen_k=k)


@pytest.mark.slow
@given(st.data(), LENGTH, LENGTH, st.integers(0, 300), st.integers(0, 300))
@MANY
def test_windows(data, q, k, left, right):
    fixed = {"window": (left, right), "head_dim": 96}
    check(data, fixed, seqlen_q=q, seqlen_k=k)


@pytest.mark.slow
@given(st.data(), SEQUENCES)
@MANY
def test_sequences_of_an_odd_group(data, lengths):
    q, k = zip(*lengths, strict=True)
    check(data, {"group": 3, "head_dim": 72}, seqlens_q=q, seqlens_k=k)


@pytest.mark.slow
@given(st.data(), LENGTH, LENGTH)
@MANY
def test_sinks(data, q, k):
    fixed = {"sink": True, "causal": True, "group": 4, "head_dim": 64}
    check(data, fixed, seqlen_q=q, seqlen_k=k)


@pytest.mark.slow
@given(st.data(), LENGTH, LENGTH)
@MANY
def test_the_uneven_ring(data, q, k):
    fixed = {"head_dim": 192, "head_dim_v": 128}
    check(data, fixed, seqlen_q=q, seqlen_k=k)


@pytest.mark.slow
@given(st.data(), SEQUENCES, st.integers(2, 9))
@MANY
def test_splits_of_sequences_of_fp8(data, lengths, splits):
    q, k = zip(*lengths, strict=True)
    fixed = {"head_dim": 64, "causal": True, "dtype": "e4m3", "sink": True}
    check(data, fixed, seqlens_q=q, seqlens_k=k, num_splits=splits)
