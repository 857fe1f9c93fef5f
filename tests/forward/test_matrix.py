"""Our kernel, run in the emulator, computes attention, in whatever order things happen."""

from __future__ import annotations

import pytest

pytest.importorskip("cutlass", reason="needs the CuTe DSL: pip install 'fa4sim[kernel]'")

from tests.forward import cases
from tests.forward.running import run, same_under

#: In the fast tests: a pair over several tiles, the uneven ring, rows that see no key, pages.
FAST = (
    "pair-WTR", "single-d192-uneven-ring-WT", "causal-no-key-in-sight", "page-8-shared-prefix-d64",
)  # fmt: skip
CASES = [
    pytest.param(case, id=f"{group}-{case.name}")
    for group, members in cases.GROUPS.items()
    for case in members
    if group not in ("fp8", "paged", "split")
]
FP8, PAGED, SPLIT = (
    [pytest.param(case, id=f"{group}-{case.name}") for case in cases.GROUPS[group]]
    for group in ("fp8", "paged", "split")
)
#: A random order, and orders that hold back or hurry who is waited for most.
SCHEDULES = (1, "delay tma", "hurry tensor", "delay warp 8", "hurry warp 14", "delay tensor seed 3")
ORDERS = (
    "pair-WTR", "single-WTR", "causal-WR", "single-d192-uneven-ring-WT", "pair-d192-WT",
    "causal-d192-persistent-WT", "window-both-R", "packed-4-causal", "odd-3", "varlen",
    "varlen-empty", "one-tile-T", "stored-by-correction-d192-T", "sink-causal", "two-slots-T",
    "p-in-one-part", "d64-window", "packed-8-causal", "odd-5-WT", "odd-7-one-row-T", "sink-varlen",
    "fp8-decode",
)  # fmt: skip
#: Of paged problems: orders in which copies by threads come last or first, too.
PAGED_SCHEDULES = (*SCHEDULES, "delay cp_async", "hurry cp_async", "delay warp 15", "delay warp 5")
PAGED_ORDERS = (
    "page-1-decode-T", "page-16-WTR", "page-8-varlen", "page-128-T", "page-32-odd-3",
    "page-16-d192-uneven-ring-WT", "page-64-odd-7-one-row-T", "page-128-pair-WT", "page-16-one-key",
)  # fmt: skip


@pytest.mark.parametrize("name", FAST)
def test_a_few_outputs_are_as_near_to_float64_as_pytorchs(name, seed):
    assert run(cases.named(name), seed).problems() == []


def test_fp8_is_as_near_to_float64_as_rounded_probabilities(seed):
    assert run(cases.named("d64-e5m2-causal"), seed).problems() == []


@pytest.mark.slow
@pytest.mark.sample(6)
@pytest.mark.parametrize("case", CASES)
def test_output_is_as_near_to_float64_as_pytorchs(case, seed):
    assert run(case, seed).problems() == []


@pytest.mark.slow
@pytest.mark.sample(2)
@pytest.mark.parametrize("case", FP8)
def test_output_of_fp8_is_as_near_to_float64_as_rounded_probabilities(case, seed):
    assert run(case, seed).problems() == []


@pytest.mark.slow
@pytest.mark.sample(3)
@pytest.mark.parametrize("case", PAGED)
def test_output_from_pages_is_as_near_to_float64_as_the_others(case, seed):
    assert run(case, seed).problems() == []


@pytest.mark.slow
@pytest.mark.sample(1)
@pytest.mark.parametrize("name", PAGED_ORDERS)
def test_output_from_pages_does_not_depend_on_the_schedule(name, seed):
    assert same_under(cases.named(name, "paged"), seed, PAGED_SCHEDULES) == []


@pytest.mark.sample(2)
@pytest.mark.parametrize("case", SPLIT)
def test_combined_splits_are_as_near_to_float64_as_the_whole(case, seed):
    assert run(case, seed).problems() == []


def test_combined_splits_some_without_keys_in_a_random_order(seed):
    case = cases.named("causal-no-key-in-sight", "split")
    assert same_under(case, seed, (seed % 1000,)) == []


def test_output_is_the_same_in_a_random_order(seed):
    assert same_under(cases.named("causal-no-key-in-sight"), seed, (seed % 1000,)) == []


@pytest.mark.slow
@pytest.mark.sample(2)
@pytest.mark.parametrize("name", ORDERS)
def test_output_does_not_depend_on_the_schedule(name, seed):
    assert same_under(cases.named(name), seed, SCHEDULES) == []
