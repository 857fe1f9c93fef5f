"""SM occupancy: waves and tail."""

import pytest
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_rgba
from matplotlib.text import Text

from fa4sim import B200, Problem, simulate
from fa4sim.views import alt_text, sm_occupancy
from fa4sim.views.occupancy import waves
from fa4sim.views.style import BLUE, SKY


def test_waves_and_tail_add_up():
    placed = [(0, 0, 100, [0]), (1, 0, 80, [1]), (0, 100, 200, [2]), (1, 80, 150, [3, 4])]
    numbers = waves(placed, 3)
    assert (numbers.finish, numbers.tail, numbers.most_on_one_sm) == (200, 150, 2)
    assert numbers.unused_sms == 1
    assert numbers.busy_share == pytest.approx(350 / 600)
    assert numbers.tail_share == pytest.approx(50 / 600)


def test_a_pair_takes_two_sms():
    numbers = waves([(0, 0, 10, [0]), (2, 0, 10, [1])], 4)
    assert (numbers.sms_per_cluster, numbers.busy_share) == (2, 1.0)
    assert waves([(0, 0, 10, [0])], 4).sms_per_cluster == 1
    assert waves([(0, 0, 10, [0])], 4, sms_per_cluster=2).busy_share == 0.5


@pytest.mark.parametrize("causal", [False, True])
def test_a_whole_gpu_is_drawn(causal):
    run = simulate(Problem(batch=2, heads=8, seqlen_q=2048, causal=causal))
    figure = sm_occupancy(run.occupancy, run.machine.clock_hz, run.machine.sms)
    alt = alt_text(figure)
    group = run.design.cta_group
    busy = sum(group * (end - start) for _, start, end, _ in run.occupancy)
    finish = max(end for _, _, end, _ in run.occupancy)
    assert f"{len(run.occupancy)} CTA" in alt and ("CTA pairs" in alt) == (group == 2)
    assert f"in {busy / (run.machine.sms * finish):.1%} of {finish:,} cycles" in alt
    assert figure.axes[0].get_ylim() == (B200.sms, 0)


@pytest.mark.parametrize(
    "placed, hz, message",
    [
        ([], 1e9, "occupancy is empty"),
        ([(9, 0, 1, [0])], 1e9, "SM 9 is not one of this GPU's 4 SMs"),
        ([(0, 5, 1, [0])], 1e9, "the CTA on SM 0 ends at 1, before its start at 5"),
        ([(0, 0, 1, [0])], 0, "clock_hz=0 must be positive"),
    ],
)
def test_impossible_placements_are_refused(placed, hz, message):
    with pytest.raises(ValueError, match=message):
        sm_occupancy(placed, hz, 4)


def test_a_long_time_is_written_in_full():
    picture = sm_occupancy([(0, 0, 2_560_000, [0])], 1.85e9, 1)
    assert "(1,384 µs)" in alt_text(picture)


def test_the_looks_tell_who_computes_more_tiles_where_ctas_stay():
    placed = [(0, 0, 100, [0, 2]), (2, 0, 60, [1])]
    picture = sm_occupancy(placed, 1e9, 4)
    words = [text.get_text() for text in picture.findobj(Text)]
    assert "CTA pair that computes 1 work tile" in words
    assert "CTA pair that computes 2 work tiles" in words
    assert "one CTA pair on an SM, for 1 to 2 work tiles" in alt_text(picture)
    bars = picture.axes[0].findobj(PolyCollection)
    colours = {tuple(colour) for bar in bars for colour in bar.get_facecolor().tolist()}
    assert {to_rgba(BLUE), to_rgba(SKY)} <= colours


def test_the_looks_take_turns_where_an_sm_runs_several_ctas():
    picture = sm_occupancy([(0, 0, 60, [0]), (0, 60, 100, [1])], 1e9, 1)
    words = [text.get_text() for text in picture.findobj(Text)]
    assert {"1st, 3rd, … CTA of its SM", "2nd, 4th, … CTA"} <= set(words)
    assert "at most 2 CTAs on one SM" in alt_text(picture)
