"""The Hopper kernel's barriers are those of the simulator."""

from __future__ import annotations

from itertools import product

import pytest

pytest.importorskip("cutlass", reason="needs the CuTe DSL: pip install 'fa4sim[kernel]'")

from fa4kernel.bench.predict import simulators_design
from fa4kernel.hopper.barriers import named_table, table
from fa4kernel.hopper.config import Config
from fa4sim.pipelines.fa3.barriers import barrier_table

BOTH = (True, False)
CASES = [
    Config(
        consumers=consumers,
        kv_stages=stages,
        ping_pong=ping_pong,
        overlap=overlap,
        tile_n=64,
        registers=(240, 24) if consumers == 2 else (160, 32),
    )
    for consumers, stages, ping_pong, overlap in product((2, 3), (2, 3), BOTH, BOTH)
]


@pytest.mark.parametrize("cfg", CASES, ids=str)
def test_names_stages_and_counts_are_the_simulators(cfg):
    specs = barrier_table(simulators_design(cfg))
    mbarriers = {
        name: (spec.stages, spec.count)
        for name, spec in specs.items()
        if spec.kind == "mbarrier" and spec.used
    }
    named = {name: spec.count for name, spec in specs.items() if spec.kind == "named" and spec.used}
    assert table(cfg) == mbarriers
    assert {name: threads for name, (_, threads) in named_table(cfg).items()} == named


@pytest.mark.parametrize("cfg", CASES, ids=str)
def test_named_barriers_have_numbers_of_their_own(cfg):
    numbers = [number for number, _ in named_table(cfg).values()]
    assert len(set(numbers)) == len(numbers) and 0 not in numbers and max(numbers) < 16
