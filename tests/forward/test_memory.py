"""Places in shared and tensor memory are those of the simulated design."""

from __future__ import annotations

from dataclasses import replace

import pytest

pytest.importorskip("cutlass", reason="needs the CuTe DSL: pip install 'fa4sim[kernel]'")

from fa4kernel.forward.memory import COLUMNS, SharedMemory, o_column, p_column, s_column
from tests.forward.cases import ALL, named

#: One case of each layout, by names that say it.
RINGS = (
    "pair",
    "single-WTR",
    "single-d192-uneven-ring-WT",
    "pair-d192-WT",
    "d64",
    "d96-WT",
    "d8-causal",
)


@pytest.mark.parametrize("name", RINGS)
def test_slots_of_the_ring_lie_where_the_design_says(name):
    case = named(name)
    memory = SharedMemory(None, None, 0, 0, 0, case.config)
    for slot, by_wrap in enumerate(case.chosen.ring_slots(case.problem)):
        for wrap in range(4):
            assert memory.slot(slot, wrap) == by_wrap[wrap % 2][0]


def test_tiles_begin_at_swizzle_boundaries():
    for case in ALL:
        memory = SharedMemory(None, None, 0, 0, 0, case.config)
        for stage in range(case.config.q_stages):
            assert memory.q(stage) % 1024 == memory.o(stage) % 1024 == 0
        for slot in range(case.config.kv_stages):
            assert memory.slot(slot, 0) % 1024 == memory.slot(slot, 1) % 1024 == 0


def test_statistics_of_rows_do_not_overlap():
    cfg = replace(named("pair").config, q_stages=2)
    memory = SharedMemory(None, 0, None, None, None, cfg)
    places = [
        place(stage, row)
        for place in (memory.factor, memory.maximum)
        for stage in range(2)
        for row in range(128)
    ]
    assert sorted(places) == list(range(512))


@pytest.mark.parametrize("case", ALL, ids=lambda case: case.name)
def test_columns_of_tensor_memory_are_the_designs(case):
    cfg, columns = case.config, case.chosen.tmem_map()
    for stage in range(cfg.q_stages):
        assert s_column(stage) == columns[f"S{stage}"][0]
        assert p_column(stage) == columns[f"P{stage}"][0]
        assert o_column(cfg, stage) == columns[f"O{stage}"][0]
        assert o_column(cfg, stage) + cfg.head_dim_v <= COLUMNS
