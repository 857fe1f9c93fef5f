"""Work that is shared out among processes, and how it ends early."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time

import pytest

from fa4kernel.emulator.parallel import is_possible, share_out

pytestmark = pytest.mark.skipif(not is_possible(), reason="needs fork")


def test_results_come_in_order():
    assert share_out(lambda part: part * part, 3) == [0, 1, 4]


def test_an_interrupt_ends_the_children_at_once():
    """Ctrl-C reaches every process of the terminal; only the first one speaks of it."""

    def work(part):
        if part == 0:
            os.kill(os.getpid(), signal.SIGINT)  # as the terminal does
            time.sleep(60)
        time.sleep(0.3)
        raise KeyboardInterrupt

    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        share_out(work, 2)
    assert time.monotonic() - started < 30
    assert not multiprocessing.active_children()
