"""Where misses come from: the clock of short runs, and steady states."""

from __future__ import annotations

from pathlib import Path

import pytest

from fa4kernel.bench import misses
from fa4kernel.bench.measure import RUNS, WARM_UP
from fa4kernel.bench.misses import (
    KERNELS,
    clock_section,
    measured_per_block,
    pairs,
    states_section,
    steady_states,
)
from fa4kernel.bench.page import PAGE
from fa4kernel.bench.points import Point, standard
from fa4kernel.bench.predict import Compared, point_of
from fa4kernel.bench.stored import measured
from fa4sim.specs.measured import h200_value

STORED = measured()
ROWS = {row["name"]: row for row in STORED["points"]}


def compared(name: str, error: float = 0.0) -> Compared:
    row = ROWS[name]
    ours = row["ours"]
    wanted = (1 + error) * ours["ms"] - STORED["empty_ms"]
    cycles = round(wanted * 1e-3 * ours["clock_hz"])
    return Compared(point_of(row), row, cycles, STORED["empty_ms"])


def made(point: Point, ms: float, clock: float, cycles: int) -> Compared:
    return Compared(point, {"ours": {"ms": ms, "clock_hz": clock}}, cycles, 0.0)


def test_waiting_is_found_from_two_clocks():
    light, kernel, waiting = h200_value("sm_clock_light_hz"), 1.6e9, 1.5
    found = []
    for point, ms in ((Point(128, False, 4096, 1, 16, 16), 0.2), (standard(128, False, 4096), 1.6)):
        window = (RUNS + WARM_UP) * ms
        clock = (window * kernel + waiting * light) / (window + waiting)
        found.append(made(point, ms, clock, round(ms * 1e-3 * kernel)))
    (pair,) = pairs(found)
    assert pair.short is found[0] and pair.long is found[1]
    assert pair.waiting_ms == pytest.approx(waiting)
    assert pair.short.error < -0.05  # right in cycles, and too fast by the clock that was read
    assert pair.error == pytest.approx(found[1].error, abs=1e-6)


def test_pairs_are_few_heads_beside_the_standard_point():
    found = pairs([compared(name) for name in ROWS])
    assert len(found) == 10
    for pair in found:
        short, long = pair.short.point, pair.long.point
        assert (short.seqlen, short.causal) == (long.seqlen, long.causal)
        assert short.batch * short.heads < long.batch * long.heads
        assert not short.variant and not long.variant


def test_the_section_on_the_clock_has_every_pair_and_both_errors():
    text = clock_section([compared(name, -0.05) for name in ROWS])
    assert text.count("| -5.0% |") == 10
    assert "| d128 full 4096 b1 h16 | 2.5 | 1.78 | 20 | 1.68 |" in text
    assert "The mean of these errors is -5.0%" in text


def test_tiles_of_one_loop_may_come_to_several_steady_states():
    full, causal = (
        steady_states(compared(standard(64, causal, 16_384).name)) for causal in (False, True)
    )
    assert set(causal) != set(full), "say on the page that there is one state only"
    assert all(1536 < cycles < 3100 for cycles in full | causal)  # the tensor cores' bound


def test_measured_cycles_are_counted_by_block_of_the_busiest_sm():
    each = compared("d128 full 4096 b8 h16")  # 4,096 tiles of 32 blocks on 132 SMs: 32 tiles
    wanted = (each.measured_ms - each.empty_ms) * 1e-3 * each.row["ours"]["clock_hz"] / (32 * 32)
    assert measured_per_block(each) == pytest.approx(wanted)
    each = compared("d128 causal 4096 b8 h16")  # half of the blocks, and half a block more
    wanted = (each.measured_ms - each.empty_ms) * 1e-3 * each.row["ours"]["clock_hz"]
    assert measured_per_block(each) == pytest.approx(wanted * 132 / (4096 * 16.5))


def test_the_section_on_states_takes_the_fastest_of_a_loop(monkeypatch):
    def states(each: Compared):
        slow = each.point.causal and each.point.head_dim == 64 and not each.point.variant
        return misses.Counter({1100 if slow else 1000: 3, 1200: 0 if slow else 1})

    monkeypatch.setattr(misses, "steady_states", lambda each: +states(each))
    text = states_section([compared(point.name, 0.21) for point in KERNELS], [])
    rows = {row.split(" | ")[0][2:]: row for row in text.splitlines() if row.startswith("| d")}
    assert rows["d64 causal 16384 b2 h32"].endswith("| +21.0% | +10.0% |")
    assert "1,000 (3 of 4), 1,200 (1 of 4)" in rows["d128 full 16384 b2 h16"]
    assert rows["d128 full 16384 b2 h16"].endswith("| +21.0% | +15.2% |")


def test_the_page_has_both_sections():
    text = (Path(__file__).parents[2] / PAGE).read_text("utf-8")
    assert text.count("\n## Where misses come from: ") == 2
    for point in KERNELS:
        assert text.count(f"| {point.name} | ") >= 2
