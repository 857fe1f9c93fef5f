"""A decode step comes near HBM's bandwidth only with enough CTAs, and enough bytes in flight."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fa4sim import B200, H200, Design, Machine, Problem
from fa4sim.pipelines.call import simulate_call
from fa4sim.validation.bandwidth import measured_rings, ring_rate

HBM_SHARE = B200.hbm_bytes_per_cycle / B200.sms


def bandwidth(batch: int, machine: Machine = B200, **changes: Any) -> float:
    """Bytes per cycle that a decode step of 4 tiles per sequence gets out of HBM."""
    problem = Problem(batch=batch, heads=32, kv_heads=4, seqlen_q=1, seqlen_k=16384)
    design = Design.for_problem(problem, machine, **changes)
    result = simulate_call(problem, design, machine)
    return result.totals.hbm_bytes / result.cycles


# -- one ring ----------------------------------------------------------------------------------


def test_rings_bring_what_they_brought_on_an_h200() -> None:
    rings = measured_rings(replace(H200, clock_hz=1.98e9))
    errors = [ring.simulated / ring.measured - 1 for ring in rings]
    assert sum(map(abs, errors)) / len(errors) < 0.1
    assert max(map(abs, errors)) < 0.3
    # Enough in flight: every SM gets its share, and one alone all that its path can take.
    for ring in rings:
        if ring.kib >= 128 and (ring.sms > 1 or ring.memory == "l2"):
            assert ring.simulated == pytest.approx(ring.measured, rel=0.04), ring


@pytest.mark.parametrize("sms", [1, 4, 148])
@pytest.mark.parametrize("from_hbm", [False, True])
def test_more_in_flight_never_brings_less_until_path_or_share_is_full(
    sms: int, from_hbm: bool
) -> None:
    rates = [ring_rate(B200, kib << 10, sms, from_hbm) for kib in (16, 32, 64, 128, 192)]
    most = min(B200.tma_bytes_per_cycle, B200.l2_bytes_per_cycle / sms)
    if from_hbm:
        most = min(most, B200.hbm_bytes_per_cycle / sms)
    assert rates == sorted(rates) and rates[0] < 0.75 * most
    assert rates[-1] == pytest.approx(most, rel=0.02) and max(rates) <= most * 1.01


def test_bytes_in_flight_over_latency_is_the_rate_of_a_short_ring() -> None:
    latency = B200.tma_l2_latency_cycles + B200.tma_hbm_extra_cycles
    for kib in (16, 32, 64):
        little = (kib << 10) / latency
        assert 0.8 * little < ring_rate(B200, kib << 10, 1, True) < little


# -- a decode step -----------------------------------------------------------------------------


def test_a_few_ctas_cannot_use_the_memory_of_a_gpu() -> None:
    rates = {batch * 4: bandwidth(batch) for batch in (1, 4, 16, 37)}
    per_cta = [rate / ctas for ctas, rate in rates.items()]
    assert rates[4] < 0.05 * B200.hbm_bytes_per_cycle
    assert max(per_cta[:3]) < 1.05 * min(per_cta[:3])  # each is as slow as alone
    assert 0.95 * B200.hbm_bytes_per_cycle < rates[148] <= B200.hbm_bytes_per_cycle


def test_where_memory_is_far_the_ring_decides() -> None:
    far = B200.with_constants(tma_hbm_extra_cycles=12000)
    rates = [bandwidth(16, far, kv_stages=stages) for stages in (2, 3, 4, 5)]
    in_flight = [32768 * stages for stages in (2, 3, 4, 5)]
    per_byte = [rate / size for rate, size in zip(rates, in_flight, strict=True)]
    assert rates == sorted(rates) and rates[3] > 1.9 * rates[0]
    assert max(per_byte) < 1.2 * min(per_byte)
    assert rates[3] < 64 * in_flight[3] / 12000
    near = [bandwidth(16, kv_stages=stages) for stages in (2, 5)]
    assert near[1] < 1.1 * near[0]  # a B200's memory is not far enough: one softmax at a time is


def test_splitting_gives_every_sm_bytes_to_wait_for() -> None:
    one = Problem(heads=32, kv_heads=4, seqlen_q=1, seqlen_k=131072)
    split = replace(one, num_splits=0)
    rates = []
    for problem in (one, split):
        result = simulate_call(problem, Design.for_problem(problem, B200), B200).attention
        rates.append(result.totals.hbm_bytes / result.cycles)
    assert rates[0] < 0.05 * B200.hbm_bytes_per_cycle < 0.9 * B200.hbm_bytes_per_cycle < rates[1]
