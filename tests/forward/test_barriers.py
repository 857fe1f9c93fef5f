"""The kernel's barriers are those of the simulator: names, stages, counts, numbers, threads."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from fa4kernel.forward.barrier_table import named_table, table
from fa4kernel.forward.config import Config
from fa4sim.pipelines.fa4.barriers import barrier_table
from fa4sim.specs import Design
from tests.forward.cases import ALL

CHOICES: dict[str, tuple[Any, ...]] = {
    "q_stages": (1, 2),
    "cta_group": (1, 2),
    "kv_stages": (2, 3, 6),
    "epilogue": ("tma", "correction"),
    "overlap_o_q": (False, True),
    "scheduler": ("single_tile", "static_persistent", "lpt", "single_tile_varlen"),
    "p_first_columns": (32, 96, 128),
}
DESIGNS = [dict(zip(CHOICES, values, strict=True)) for values in product(*CHOICES.values())]


def of_the_simulator(design: Design, kind: str) -> dict[str, tuple[int, int]]:
    """As the kernel's tables: (stages, arrivals), or (hardware number, threads)."""
    return {
        name: (spec.stages if kind == "mbarrier" else spec.number, spec.count)
        for name, spec in barrier_table(design).items()
        if spec.used and spec.kind == kind
    }


@pytest.mark.parametrize("case", ALL, ids=lambda case: case.name)
def test_barriers_of_every_case_are_the_simulators(case):
    assert table(case.config) == of_the_simulator(case.chosen, "mbarrier")
    assert named_table(case.config) == of_the_simulator(case.chosen, "named")


def test_barriers_of_every_combination_are_the_simulators():
    for fields in DESIGNS:
        design, cfg = Design(**fields), Config(**fields)
        assert table(cfg) == of_the_simulator(design, "mbarrier"), fields
        assert named_table(cfg) == of_the_simulator(design, "named"), fields


def test_what_a_design_does_not_use_is_absent():
    one = table(Config(epilogue="correction", p_first_columns=128))
    assert not {"O_epi_full", "O_epi_empty", "P_full_lastsplit", "tmem_dealloc"} & set(one)
    assert "load_epi_full" not in one
    assert set(table(Config(overlap_o_q=True))) > {"load_epi_full", "load_epi_empty"}
    assert table(Config(cta_group=2))["tmem_dealloc"] == (1, 32)


def test_named_barriers_have_numbers_of_their_own_and_fit_the_hardware():
    for fields in DESIGNS:
        numbers = [number for number, _ in named_table(Config(**fields)).values()]
        assert len(set(numbers)) == len(numbers) and min(numbers) > 0 and max(numbers) < 16
