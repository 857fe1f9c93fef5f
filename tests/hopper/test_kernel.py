"""The Hopper kernel in the emulator: right, without a hazard, the same under every schedule."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("cutlass", reason="needs the CuTe DSL: pip install 'fa4sim[kernel]'")

from fa4kernel.accuracy import LSE, Errors, lse_error, truth
from fa4kernel.cli.run import run_problem
from fa4kernel.hopper.compile import compile_ptx
from fa4kernel.hopper.config import STAMPS
from fa4kernel.hopper.design import config_for
from fa4kernel.hopper.recording import in_emulator, record
from fa4kernel.hopper.traced import durations, to_trace
from fa4sim.cli.check import LIMITS, random_inputs
from fa4sim.specs import Problem

FAST = Problem(head_dim=64, heads=4, kv_heads=2, seqlen_q=300, seqlen_k=420, causal=True)
SLOW = {
    "full": (Problem(heads=2, seqlen_q=256, seqlen_k=640), {}),
    "ragged": (Problem(seqlen_q=333, seqlen_k=521), {}),
    "causal": (Problem(seqlen_q=400, seqlen_k=700, causal=True), {}),
    "fewer keys than queries": (Problem(seqlen_q=700, seqlen_k=333, causal=True), {}),
    "window": (Problem(seqlen_q=500, seqlen_k=700, window=(130, 70)), {}),
    "fp16": (Problem(seqlen_q=256, seqlen_k=384, dtype="fp16"), {}),
    "head dim 96": (Problem(seqlen_q=200, seqlen_k=300, head_dim=96), {}),
    "176 keys": (Problem(seqlen_q=300, seqlen_k=900), {"tile_n": 176}),
    "no overlap": (Problem(seqlen_q=256, seqlen_k=640), {"overlap": False}),
    "no ping-pong": (Problem(seqlen_q=256, seqlen_k=640), {"ping_pong": False}),
    "3 slots": (Problem(seqlen_q=256, seqlen_k=1100), {"kv_stages": 3}),
}


def check(problem: Problem, machine_sms: int = 2, **how) -> np.ndarray:
    """Run a problem on few multiprocessors, hold it against float64, return the output."""
    from fa4sim import H200

    inputs = random_inputs(problem, 3)
    machine = replace(H200, sms=machine_sms)
    found = run_problem(
        problem, inputs, backend="emulator", architecture="sm_90a", machine=machine, **how
    )
    exact, exact_lse = truth(problem, inputs)
    assert found.emulation.hazards == ()
    assert Errors.of(found.out, exact).relative <= LIMITS[problem.dtype]
    assert lse_error(found.lse, exact_lse) <= LSE
    return found.out


def test_causal_with_grouped_heads_under_two_schedules():
    assert np.array_equal(check(FAST), check(FAST, schedule=5))


@pytest.mark.slow
@pytest.mark.parametrize("name", SLOW)
def test_problems_and_designs(name):
    problem, design = SLOW[name]
    check(problem, design=design)


@pytest.mark.slow
@pytest.mark.parametrize("schedule", [1, 2, "delay tma", "delay wgmma", "hurry tma"])
def test_the_same_bits_under_every_schedule(schedule):
    problem, _ = SLOW["full"]
    assert np.array_equal(check(problem), check(problem, schedule=schedule))


@pytest.mark.slow
def test_a_traced_kernel_tells_every_phase_in_order():
    problem = Problem(seqlen_q=256, seqlen_k=512)
    cfg = config_for(problem, trace=True)
    stamps, arrays = record(cfg, problem, 2, in_emulator(compile_ptx(cfg)))
    assert arrays.o.any()
    blocks = stamps[0, 1]
    assert blocks.shape == (4, len(STAMPS))
    for number, row in enumerate(blocks):
        some = [int(now) for now in row if now]
        assert some == sorted(some)
        assert bool(row[STAMPS.index("PV")]) == (number > 0)
        assert bool(row[STAMPS.index("stored")]) == (number == len(blocks) - 1)
    trace = to_trace(cfg, stamps, ctas=2)
    assert trace.clock == "cycles"
    assert {trace.span.text("role")[i] for i in range(trace.size("span"))} == {
        "load", "consumer0", "consumer1",
    }  # fmt: skip
    assert set(durations(cfg, stamps)) == set(STAMPS[:10])


def test_without_stamps_there_is_no_trace():
    cfg = config_for(Problem(), trace=True)
    with pytest.raises(ValueError, match="there are no stamps"):
        to_trace(cfg, np.zeros((1, 3, 2, len(STAMPS)), np.int32))
