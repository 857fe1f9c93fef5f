"""What a call says about the barrier it is for."""

import ast

import pytest

from fa4kernel.emulator.inspection.calls import name_in_call

WAITS, SIGNALS = False, True


@pytest.mark.parametrize(
    "text, signals, name",
    [
        ("pipe.producer_acquire(state)", WAITS, "pipe.empty"),
        ("pipe.producer_acquire(state)", SIGNALS, "pipe.full"),
        ("pipe.producer_commit_w_index(stage)", SIGNALS, "pipe.full"),
        ("pipe.consumer_wait(state)", WAITS, "pipe.full"),
        ("pipe.consumer_release(state)", SIGNALS, "pipe.empty"),
        ("ab_producer.acquire_and_advance()", WAITS, "ab.empty"),
        ("ab_consumer.wait_and_advance()", WAITS, "ab.full"),
        ("handle.release()", SIGNALS, "handle.empty"),
        ("pipe.producer_tail(state)", WAITS, "pipe.empty"),
        ("self.ready.wait(phase)", WAITS, "ready"),
        ("tmem.free(pointer)", SIGNALS, "tmem.free"),
        ("cute.arch.mbarrier_wait(bars.sums + stage, phase)", WAITS, "bars.sums"),
        ("cute.arch.mbarrier_arrive(bars[stage])", SIGNALS, "bars"),
        ("tcgen05.commit(empty.at(turn))", SIGNALS, "empty"),
        ("cute.copy(atom, a, b, tma_bar_ptr=full.at(turn))", SIGNALS, "full"),
        ("copy(a, tma_bar_ptr=q.sync_object_full.get_barrier(i))", SIGNALS, "q.full"),
        ("cute.arch.barrier(barrier_id=EPILOGUE, number_of_threads=128)", WAITS, "EPILOGUE"),
        ("cute.arch.barrier()", WAITS, None),
        ("self.wait(turn)", WAITS, None),
        ("cute.arch.mbarrier_wait(self.at(turn), 0)", WAITS, None),
        ("Int32(make_warp_uniform(address))", WAITS, None),
    ],
)
def test_a_barrier_is_called_what_the_call_calls_it(text, signals, name):
    assert name_in_call(ast.parse(text).body[0].value, signals) == name
