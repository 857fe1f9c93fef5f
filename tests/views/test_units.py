"""Unit utilisation."""

import numpy as np
import pytest

from fa4sim import Problem, simulate
from fa4sim.trace import Trace
from fa4sim.views import alt_text, unit_utilisation
from fa4sim.views.scope import scope
from fa4sim.views.units import PER_SUBPARTITION, busy_shares


def test_shares_are_the_busy_cycles_of_the_spans(trace):
    part = scope(trace, everything=True)
    edges = np.linspace(part.start, part.end, 31)
    for unit in ("tensor", "tma"):
        shares = busy_shares(part, unit, edges)
        busy = trace.span.where(cta=0, unit=unit)["busy"].sum()
        assert shares.mean() * part.length == pytest.approx(busy, rel=1e-3)
        assert np.all((shares >= 0) & (shares <= 1))


def test_shares_are_what_the_report_says():
    for problem in (Problem(seqlen_q=2048), Problem(seqlen_q=1024, causal=True)):
        run = simulate(problem, scope="cta")
        edges = np.array([0.0, run.report.cycles])
        parts = [scope(run.trace, cta=cta, everything=True) for cta in range(run.report.ctas)]
        for unit in ("tensor", "mufu", "fma", "alu", "issue", "tmem", "smem"):
            shares = [busy_shares(part, unit, edges)[0] for part in parts]
            assert np.mean(shares) == pytest.approx(run.report.units[unit], rel=1e-3), unit


def test_a_subpartition_s_unit_counts_a_quarter():
    trace = Trace()
    for warp in (0, 4):  # both on sub-partition 0, one after the other
        trace.add("span", sm=0, cta=0, role="softmax0", warp=warp, unit="mufu", op="exp2",
                  start=25 * warp, end=25 * warp + 100, busy=50)  # fmt: skip
    trace.add(
        "span", sm=0, cta=0, role="tensor", unit="tensor", op="QK", start=0, end=200, busy=150
    )
    part = scope(trace, everything=True)
    assert "mufu" in PER_SUBPARTITION
    assert busy_shares(part, "mufu", np.array([0.0, 100.0, 200.0])) == pytest.approx([0.125, 0.125])
    assert busy_shares(part, "tensor", np.array([0.0, 200.0])) == pytest.approx([0.75])
    assert "tensor 75.0%, mufu 12.5%" in alt_text(unit_utilisation(trace, 10))


def test_spans_without_busy_time_count_whole():
    trace = Trace("ns")
    trace.add("span", sm=0, cta=0, role="tensor", unit="tensor", op="QK", start=0, end=60)
    trace.add("span", sm=0, cta=0, role="load", warp=1, unit="odd", op="x", start=90, end=100)
    assert "tensor 60.0%, odd 10.0%" in alt_text(unit_utilisation(trace, 5))


def test_there_is_a_strip_per_unit(causal):
    figure = unit_utilisation(causal, 24)
    names = [axes.texts[0].get_text() for axes in figure.axes]
    assert names == ["tensor", "mufu", "fma", "alu", "tmem", "smem", "tma", "tma_store", "issue"]
    assert all(axes.get_ylim() == (0, 1) for axes in figure.axes)


@pytest.mark.parametrize("buckets", [0, -3, 10**7])
def test_buckets_must_make_sense(causal, buckets):
    with pytest.raises(ValueError, match=f"buckets={buckets} must be 1 to"):
        unit_utilisation(causal, buckets)
