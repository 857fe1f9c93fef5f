"""Traces that the tests of the views draw, simulated once each."""

from functools import cache

import pytest

from fa4sim import Problem, simulate
from fa4sim.trace import Trace

PROBLEMS = {
    "pair": Problem(seqlen_q=1024),
    "causal": Problem(seqlen_q=1024, causal=True),
    "d64": Problem(seqlen_q=512, head_dim=64),
    "d192": Problem(seqlen_q=512, head_dim=192, head_dim_v=128, causal=True),
    "one_query": Problem(seqlen_q=1, seqlen_k=256),
}


@cache
def simulated(name: str) -> Trace:
    """One CTA (or pair) of a problem, every cycle simulated."""
    return simulate(PROBLEMS[name], scope="cta", exact=True).trace


@pytest.fixture(params=PROBLEMS)
def trace(request) -> Trace:
    """Each of the designs in turn."""
    return simulated(request.param)


@pytest.fixture
def causal() -> Trace:
    return simulated("causal")


@pytest.fixture
def pair() -> Trace:
    return simulated("pair")


@pytest.fixture
def one_query() -> Trace:
    return simulated("one_query")


@pytest.fixture
def ticks() -> Trace:
    """What an emulator might leave: order without time, nested spans, names of its own."""
    trace = Trace("ticks")
    for i in range(6):
        at = 20 * i
        trace.add(
            "span",
            sm=0,
            cta=3,
            role="load",
            warp=14,
            unit="tma",
            op="cp.async.bulk",
            start=at,
            end=at + 9,
            tile=0,
            block=i,
        )
        trace.add(
            "span",
            sm=0,
            cta=3,
            role="mma",
            warp=12,
            unit="tensor",
            op="tcgen05.mma",
            start=at + 5,
            end=at + 25,
            tile=0,
            block=i,
        )
        trace.add("span", sm=0, cta=3, role="math", warp=2, op="step", start=at, end=at + 18)
        trace.add("span", sm=0, cta=3, role="math", warp=2, op="part", start=at + 2, end=at + 10)
        trace.add(
            "wait",
            sm=0,
            cta=3,
            role="load",
            warp=14,
            on="ready",
            kind="barrier",
            stage=0,
            phase=i + 1,
            reason="data",
            start=at + 9,
            end=at + 20,
        )
        trace.add(
            "arrive",
            sm=0,
            cta=3,
            barrier="ready",
            stage=0,
            phase=i,
            count=1,
            tx_bytes=0,
            by="mma",
            warp=12,
            time=at + 18,
        )
    return trace  # fmt: skip


@pytest.fixture
def measured() -> Trace:
    """What a GPU might leave: nanoseconds, no busy times, no waits."""
    trace = Trace("ns", {"machine": "B200"})
    for i in range(8):
        at = 1000 + 704 * i
        for op, role, warp, start, end in (
            ("exp2", "softmax0", 0, at, at + 320),
            ("QK", "mma", 12, at + 352, at + 640),
        ):
            trace.add(
                "span",
                sm=5,
                cta=40,
                role=role,
                warp=warp,
                op=op,
                start=start,
                end=end,
                tile=0,
                block=7 - i,
            )
    return trace  # fmt: skip
