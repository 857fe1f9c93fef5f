"""One barrier's phases over time."""

import numpy as np
import pytest

from fa4sim.views import alt_text, barrier_phases


def labels(figure) -> list[str]:
    return [label.get_text() for label in figure.axes[0].get_yticklabels()]


def test_every_barrier_of_a_trace_can_be_drawn(causal):
    for barrier in causal.arrive.unique("barrier"):
        if barrier[-1] not in "1234567":  # SoftmaxStatsW1 to W7 are like W0
            stage = int(causal.arrive.where(barrier=barrier)["stage"].max())
            assert alt_text(barrier_phases(causal, barrier, stage))


def test_arrivals_and_waits_have_lanes_by_role(causal):
    figure = barrier_phases(causal, "P_full_O_rescaled", 0)
    lanes = labels(figure)
    assert (lanes[0], lanes[-1]) == ("phase in progress", "mma waits")
    assert set(lanes[1:-1]) == {"correction arrives", "softmax0 arrives"}


def test_the_phase_bit_flips_with_every_completion(causal):
    figure = barrier_phases(causal, "S_full", 0, start=0, end=causal.end)
    written = [text.get_text() for text in figure.axes[0].texts]
    bits = {int(t.split()[1].rstrip(",")): int(t[-1]) for t in written if t.startswith("phase ")}
    assert len(bits) > 3
    assert all(bit == phase % 2 for phase, bit in bits.items())


def test_the_description_counts_arrivals(pair):
    alt = alt_text(barrier_phases(pair, "P_full_O_rescaled", 1, start=0, end=pair.end))
    rows = pair.arrive.where(barrier="P_full_O_rescaled", stage=1)
    times = sorted({int(rows.where(phase=p)["time"].max()) for p in np.unique(rows["phase"])})
    assert f"{len(times)} phases complete" in alt
    assert f"one every {np.mean(np.diff(times)):,.0f} cycles" in alt
    assert "counts 256 of correction, 256 of softmax1, the last from softmax1" in alt
    waits = pair.wait.where(on="P_full_O_rescaled", stage=1)
    assert f"mma waits {(waits['end'] - waits['start']).max():,} cycles" in alt


def test_bytes_that_land_complete_a_load(causal):
    figure = barrier_phases(causal, "load_KV_full", 1)
    assert "bytes land (tma)" in labels(figure)
    assert "counts 1 of load and 32,768 bytes, the last from tma" in alt_text(figure)


@pytest.mark.parametrize(
    "which, message",
    [
        (
            {"barrier": "S_ful"},
            "nobody arrives on a barrier 'S_ful' in this trace; it has .*S_full",
        ),
        (
            {"barrier": "S_full", "stage": 5},
            "S_full has no stage 5 in this trace; it has stage 0, 1",
        ),
        (
            {"barrier": "S_full", "cta": 2},
            r"nobody arrives on S_full\[0\] of cta=2; it is in CTA 0",
        ),
        ({"barrier": "S_full", "start": 0, "end": 5}, r"nobody arrives on S_full\[0\] or waits"),
        ({"barrier": "S_full", "start": 9, "end": 5}, "from 9 to 5 cycles holds nothing"),
    ],
)
def test_what_is_not_there_is_refused_by_name(causal, which, message):
    with pytest.raises(ValueError, match=message):
        barrier_phases(causal, **which)
