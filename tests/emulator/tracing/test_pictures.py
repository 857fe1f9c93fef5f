"""The project's pictures of an emulation's trace."""

import pytest

pytest.importorskip("matplotlib")

from matplotlib.text import Text

from fa4kernel.emulator import emulate
from fa4sim.views import alt_text, barrier_phases, read_perfetto, timeline, write_perfetto
from tests.emulator.kernels import COPY, copy_launch, ring, ring_launch


@pytest.fixture
def trace(tmp_path):
    return emulate(ring(tmp_path), ring_launch(), trace=True).trace


def test_the_timeline_names_roles_and_barriers_and_counts_ticks(trace):
    words = alt_text(timeline(trace))
    assert "ticks" in words
    assert "consume" in words
    assert "ring.full" in words
    assert "cycles" not in words


def test_a_barrier_can_be_drawn_by_its_name(trace):
    assert "ring.empty[1]" in alt_text(barrier_phases(trace, "ring.empty", 1))


def test_perfetto_gets_every_span_and_wait_in_ticks(trace, tmp_path):
    path = write_perfetto(trace, tmp_path / "run.pftrace")
    told = str(read_perfetto(path))
    assert "ticks" in told
    for name in ("produce", "wait: ring.full"):
        assert name in told


def test_bytes_that_land_are_no_arrivals():
    launch, *_ = copy_launch()
    recorded = emulate(COPY, launch, trace=True).trace
    words = alt_text(barrier_phases(recorded, recorded.arrive.text("barrier")[0]))
    assert " bytes, the last from tma" in words
    assert " of tma" not in words


def test_a_kernel_without_keys_is_not_told_about_their_blocks(trace):
    told = " ".join(text.get_text() for text in timeline(trace).findobj(Text))
    assert "Solid: working." in told and "K/V" not in told
