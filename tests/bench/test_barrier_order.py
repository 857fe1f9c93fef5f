"""The measured order of events is one that the barriers allow."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fa4kernel.bench.barrier_order import check, edges
from fa4kernel.bench.stored_traces import stored_traces
from fa4kernel.bench.timelines import simulated_trace
from fa4kernel.hopper.config import LOAD_STAMPS, STAMPS
from fa4kernel.hopper.simulated import simulated_stamps
from fa4kernel.hopper.traced import first_tiles

TRACES = stored_traces()
FULL = TRACES["d128 full 4096 b8 h16"]


@pytest.mark.parametrize("name", TRACES)
def test_an_h200_violates_no_barrier(name):
    found = check(TRACES[name].cfg, TRACES[name].stamps)
    assert found.violated == []
    assert found.pairs > 600 and {"load_K_full", "load_V_empty"} <= set(found.edges)


def test_every_phase_within_the_stamps_is_checked():
    found = check(FULL.cfg, FULL.stamps)
    blocks, ctas, consumers, slots = 64, 2, 2, 2
    assert found.edges["load_K_full"] == found.edges["load_V_full"] == blocks * ctas * consumers
    assert found.edges["load_K_empty"] == (blocks - slots) * ctas * consumers
    assert found.edges["Scheduler1"] == blocks * ctas  # of the first turns all but the very first
    assert found.edges["load_Q_empty"] == ctas * consumers


def test_a_pair_is_what_the_table_says():
    pairs = edges(FULL.cfg, [4])
    ring = [e for e in pairs if e.barrier == "load_K_empty"]
    assert {(e.stage, e.phase, e.waits, e.behind) for e in ring} == {
        (0, 0, "load", ("K free", 2)), (1, 0, "load", ("K free", 3)),
    }  # fmt: skip
    assert {(e.arrives, e.before) for e in ring if e.stage == 0} == {
        ("consumer0", ("QK", 0)), ("consumer1", ("QK", 0)),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("actor", "kinds", "barrier"),
    [
        (1, range(len(STAMPS)), "load_K_full"),  # a consumer that does not wait for K
        (0, range(len(LOAD_STAMPS)), "load_K_empty"),  # a load warp that does not wait for slots
        (2, [STAMPS.index("turn")], "Scheduler1"),  # a consumer out of its turn
    ],
)
def test_who_goes_on_too_early_is_found(actor, kinds, barrier):
    stamps = first_tiles(FULL.stamps).copy()
    early = stamps[:, actor, 4:, list(kinds)]
    stamps[:, actor, 4:, list(kinds)] = np.where(early > 0, np.maximum(early - 8000, 1), 0)
    found = check(FULL.cfg, stamps)
    assert barrier in {edge.barrier for edge, _ in found.violated}
    assert all(late > 0 for _, late in found.violated)


def test_the_simulator_keeps_the_same_order():
    cfg = FULL.cfg
    trace = simulated_trace(replace(FULL.point, seqlen=1024, batch=1).problem, cfg)
    stamps = simulated_stamps(cfg, trace)
    stamps[0, 1:, -1, STAMPS.index("stored")] = stamps.max() + 1  # which it does not have
    assert check(cfg, stamps).violated == []


def test_half_a_tile_is_refused():
    stamps = first_tiles(FULL.stamps).copy()
    stamps[:, 0, 3] = 0
    with pytest.raises(ValueError, match=r"load has no stamp '. free' of turn 3"):
        check(FULL.cfg, stamps)
