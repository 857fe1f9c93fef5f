"""The emulator's part of the speed page: what is skipped, counted and said."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.emulator import against_triton, child, memory, problem, single
from benchmarks.emulator.problem import Work
from benchmarks.speed.measurement import Figure, Measurement
from benchmarks.speed.page import page

SMALL = Work("full", 256, 256, 1)


def told(work, checks="off", processes=1, repeats=1):
    """In place of a run: times that tell how it was asked for."""
    cost = 2.0 if checks == "off" else 3.0
    count = 20_000_000 * work.ctas * max(1, work.seqlen_k // 8192)
    return {
        "cpu_s": cost, "wall_s": 9.0, "decode_s": 0.5, "instructions": count,
        "before_mb": 100.0, "peak_mb": 150.0 + work.ctas,
    }  # fmt: skip


@pytest.fixture
def pretended(monkeypatch):
    """No official package needed: all runs are pretended."""
    for module in (against_triton, single, memory):
        monkeypatch.setattr(module, "absent", lambda: None)
        monkeypatch.setattr(module, "emulated", told)
    monkeypatch.setattr(
        against_triton, "interpreted", lambda work, processes: {"cpu_s": 5.0, "wall_s": 5.0}
    )
    monkeypatch.setattr(against_triton, "versions", lambda _: {"flash-attn-4": "0"})


@pytest.mark.parametrize("module", [against_triton, single, memory])
def test_without_the_official_package_nothing_is_measured_and_the_page_says_why(
    module, monkeypatch
):
    monkeypatch.setattr(module, "absent", lambda: "flash-attn-4 is not there")
    found = module.measure()
    assert found.figures == ()
    assert "Not measured" in found.how and "flash-attn-4 is not there" in found.how
    assert found.title in page({}, [found])


def test_ratios_count_decoding_and_rates_do_not(pretended):
    found = against_triton.measure([Work("full")], repeats=2)
    off, default, cost, rate = found.figures
    assert off.values == (0.5, 0.5) and off.wanted == 0.5
    assert default.values == (0.7, 0.7) and default.wanted == 1.0
    assert cost.values == (1.5, 1.5)
    assert rate.value == pytest.approx(20 * 32 / 2) and rate.at_least
    assert "2 processes" in found.how and "lock step" in found.how


def test_one_cta_and_many_are_told_apart(pretended):
    found = single.measure(repeats=1)
    rate, cost, decoding = found.figures
    assert (rate.value, cost.value, decoding.value) == (10.0, 1.5, 0.5)
    assert [row[1] for row in found.tables[0].rows] == ["1", "1", "2", "16", "32", "128"]


def test_memory_of_a_large_grid_is_held_against_two_waves(pretended):
    found = memory.measure()
    peak, grown = found.figures
    assert peak.value == 182.0
    assert grown.value == pytest.approx((50 + 512) / (50 + 64))
    assert "took 448 MB more than 64" in found.how
    assert [row[2] for row in found.tables[0].rows] == ["off"] * 3 + ["default"] * 4


def test_a_miss_is_followed_by_its_reason():
    figures = (
        Figure("slow", "s", (2.0,), 1.0, reason="It naps."),
        Figure("quick", "s", (0.5,), 1.0, reason="It never naps."),
    )
    text = page({}, [Measurement("Naps", "By the clock.", figures)])
    assert "- Missed: slow. It naps." in text
    assert "never" not in text


def test_a_wrong_output_is_no_measurement():
    with pytest.raises(ArithmeticError, match="no time counts"):
        problem.check(SMALL, np.zeros((256, 1, 128), np.uint16))


def test_the_peak_is_counted_anew():
    big = np.ones(20_000_000)
    assert big.sum() > 0
    before = child.peak_bytes()
    del big
    now = child.forget_peak()
    assert now <= before
