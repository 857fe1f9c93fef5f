"""The pipeline as a whole and the whole GPU: pictures, and checks of their exercises."""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from fa4sim import Problem, Trace, simulate
from fa4sim.views import alt_text

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"


@pytest.fixture(name="whole")
def _whole(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(NOTEBOOKS))
    return importlib.import_module("whole")


@pytest.fixture(name="checks")
def _checks(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(NOTEBOOKS))
    return importlib.import_module("checks_whole")


@pytest.fixture(name="trace", scope="module")
def _trace() -> Trace:
    return simulate(Problem(seqlen_q=256, seqlen_k=1024), scope="cta").trace


def test_bars_tell_every_value(whole: ModuleType) -> None:
    values = {"two tiles": {"one": 0.44, "pair": 0.62}, "a pair": {"pair": -0.1}}
    text = alt_text(whole.bars(values, "What it buys", "speed", "{:+.0%}"))
    assert text == (
        "Bars: What it buys. Across: speed. two tiles: one +44%, pair +62%; a pair: pair -10%."
    )


def test_a_strip_is_as_long_as_the_block(whole: ModuleType, trace: Trace) -> None:
    segments, start = whole.block_path(trace)
    assert segments[0].start == start
    assert all(a.end == b.start for a, b in itertools.pairwise(segments))
    cycles = sum(segment.cycles for segment in segments)
    text = alt_text(whole.path_strips({"the kernel": trace}))
    assert f"the kernel, {cycles:,} cycles: softmax arithmetic" in text


def chain(cycles: dict[str, int], after: dict[str, tuple[str, ...]], step: str) -> int:
    return cycles[step] + max((chain(cycles, after, b) for b in after[step]), default=0)


@pytest.mark.parametrize(
    ("longest", "message"),
    [
        (lambda c, a: None, "no answer here"),
        (lambda c, a: sum(c.values()), "as if only one thing"),
        (lambda c, a: max(c.values()), "longest single step"),
        (lambda c, a: chain(c, a, "PV") if "PV" in c else chain(c, a, list(c)[-1]), "any step may"),
        (lambda c, a: max(c[s] + max((c[b] for b in a[s]), default=0) for s in c), "one step back"),
        (lambda c, a: 7, "you say 7"),
        (lambda c, a: 1 / 0, "ZeroDivisionError"),
    ],
)
def test_a_wrong_chain(checks: ModuleType, longest: Callable[..., Any], message: str) -> None:
    answer = checks.check_longest(longest)
    assert not answer.right and message in answer.message


def test_a_chain_without_end(checks: ModuleType) -> None:
    def longest(cycles: dict[str, int], after: dict[str, tuple[str, ...]]) -> int:
        return longest(cycles, after)

    assert "calls itself without end" in checks.check_longest(longest).message


@pytest.mark.parametrize(
    ("unit", "message"),
    [(None, "no answer here"), ("tma", "not one of tensor"), ("smem", "smem twice as fast")],
)
def test_a_wrong_unit(checks: ModuleType, unit: Any, message: str) -> None:
    answer = checks.check_doubled(unit)
    assert not answer.right and message in answer.message


@pytest.mark.parametrize(
    ("finish", "message"),
    [
        (lambda costs, sms: None, "no answer here"),
        (lambda costs, sms: sum(costs) / sms, "can't be cut"),
        (lambda costs, sms: -(-sum(costs) // sms), "can't be cut"),
        (lambda costs, sms: max(sum(costs[i::sms]) for i in range(sms)), "like cards"),
        (lambda costs, sms: sum(costs), "one SM doing everything"),
        (lambda costs, sms: -1, "you say -1"),
        (lambda costs, sms: 1 / 0, "ZeroDivisionError"),
    ],
)
def test_a_wrong_schedule(checks: ModuleType, finish: Callable[..., Any], message: str) -> None:
    answer = checks.check_schedule(finish)
    assert not answer.right and message in answer.message


def test_a_schedule_that_sorts(checks: ModuleType) -> None:
    answer = checks.check_schedule(lambda c, n: checks._finish(sorted(c, reverse=True), n))
    assert not answer.right and "you sort the list first" in answer.message


@pytest.mark.parametrize(
    ("heads", "message"),
    [
        (None, "no answer here"), (65, "from 33 to 64"), ("37", "from 33 to 64"),
        (36, "2 pairs of SMs have none"), (38, "a wave of their own"), (64, "a wave of their own"),
    ],
)  # fmt: skip
def test_a_wrong_number_of_heads(checks: ModuleType, heads: Any, message: str) -> None:
    answer = checks.check_heads(heads)
    assert not answer.right and message in answer.message


def test_one_wave_is_best_of_all(checks: ModuleType) -> None:
    best = max((33, 36, 37, 38, 63, 64), key=checks.heads_tflops)
    assert checks.check_heads(best).right
