"""What a deadlock tells."""

import pickle

import pytest

from fa4kernel.emulator import DeadlockError, Launch, emulate
from fa4kernel.emulator.machine.diagnosis import shortest_cycle
from tests.emulator.kernels import COPY, PRODUCER_ARRIVES, copy_launch, ring, ring_launch
from tests.emulator.machine.kernels import kernel


def deadlock(text, launch, **options):
    with pytest.raises(DeadlockError) as caught:
        emulate(text, launch, checks="off", **options)
    return caught.value


@pytest.fixture
def silent_producer(tmp_path):
    """The producer never says that a slot is full."""
    return ring(tmp_path).replace(PRODUCER_ARRIVES, "")


@pytest.mark.parametrize("instruction", ["try_wait", "test_wait"])
def test_every_waiting_warp_is_told_with_its_barrier_and_phase(silent_producer, instruction):
    error = deadlock(silent_producer.replace("try_wait", instruction), ring_launch())
    producer, consumer = error.waits
    assert (producer.role, producer.warps, producer.on) == ("produce", (0,), "ring.empty[0]")
    assert (consumer.role, consumer.warps, consumer.on) == ("consume", (1,), "ring.full[0]")
    assert (consumer.phase, consumer.completed) == (0, 0)
    assert (consumer.arrived, consumer.expected) == (0, 1)
    assert (producer.arrived, producer.expected) == (0, 32)
    assert consumer.source == "ring.py:14: ring.full.wait(turn)"
    assert "mbarrier" in consumer.text
    assert str(consumer.line) in str(error)


def test_who_is_missing_is_told_with_what_keeps_them(silent_producer):
    producer, consumer = deadlock(silent_producer, ring_launch()).waits
    assert producer.missing == ("consume (warp 1) (ring.py:15), which waits for ring.full[0]",)
    assert consumer.missing == ()


def test_a_count_that_is_too_high_is_told_apart_from_arrivals_that_are_missing(tmp_path):
    text = ring(tmp_path)
    assert text.count("[%r4+16], 32;") == 1
    producer, _ = deadlock(text.replace("[%r4+16], 32;", "[%r4+16], 33;"), ring_launch()).waits
    assert (producer.arrived, producer.expected, producer.missing) == (32, 33, ())
    words = "\n".join(producer.lines())
    assert "nobody: all that are known to arrive there have, 32 in all" in words
    assert f"the count of 33 in mbarrier.init ({producer.counted}) too high?" in words
    assert producer.counted.startswith("ring.py:")
    assert "no instruction of this kernel" not in words


def test_the_last_arrival_is_told_with_its_line_and_tick(tmp_path):
    # The consumer stops releasing slots after the first two.
    text = ring(tmp_path).replace(
        "mbarrier.arrive.shared.b64 %rd1, [%r9+16];",
        "setp.lt.u32 %p6, %r6, 2;\n@%p6 mbarrier.arrive.shared.b64 %rd1, [%r9+16];",
    )
    error = deadlock(text, ring_launch(turns=9))
    producer = error.waits[0]
    assert producer.on == "ring.empty[0]"
    assert producer.phase == 1
    assert producer.last.who == "consume (warp 1) of CTA 0"
    assert producer.last.source == "ring.py:15: ring.empty.arrive(turn)"
    assert 0 < producer.last.tick < error.tick
    assert f"tick {producer.last.tick}" in str(error)


def test_those_who_wait_for_each_other_are_told_as_a_ring(tmp_path):
    # The producer waits for the wrong parity: at first the slots are empty, and it must not wait.
    error = deadlock(ring(tmp_path).replace("[%r9+16], %r12;", "[%r9+16], %r11;"), ring_launch())
    assert sorted(error.waits[i].role for i in error.cycle) == ["consume", "produce"]
    assert "produce (warp 0) for ring.empty[0], from consume (warp 1)" in str(error)
    assert "consume (warp 1) for ring.full[0], from produce (warp 0)" in str(error)


def test_a_ring_is_the_shortest_there_is():
    assert shortest_cycle([[1], [2], [0, 1]]) == [1, 2]
    assert shortest_cycle([[1], [2], []]) == []
    assert shortest_cycle([[0]]) == [0]


def test_bytes_that_did_not_come_are_told():
    launch, *_ = copy_launch()
    (wait,) = deadlock(
        COPY.replace("[landed], 256;\n    ld", "[landed], 512;\n    ld"), launch
    ).waits
    assert (wait.arrived, wait.expected, wait.bytes) == (1, 1, 256)
    words = "\n".join(wait.lines())
    assert "256 announced bytes have not landed" in words
    assert "missing: 256 bytes: does expect_tx announce too many, or was a copy left out?" in words
    assert "no instruction of this kernel" not in words
    assert wait.landed is not None
    assert wait.missing == ("warp 0 (PTX line 21), which waits for mbarrier@0x500",)


def test_bytes_that_nobody_announced_are_told():
    launch, *_ = copy_launch()
    (wait,) = deadlock(
        COPY.replace("[landed], 256;\n    ld", "[landed], 240;\n    ld"), launch
    ).waits
    assert wait.bytes == -16
    words = "\n".join(wait.lines())
    assert "missing: 16 bytes in expect_tx: copies brought more than it announced" in words


#: A register that means one thing after another: the text does not tell which barrier it names.
REUSED = """setp.eq.u32 %p9, t, 0;
@%p9 mbarrier.init.shared.b64 [base], {count};
bar.sync 0;
{leave}
mov.u32 %a1, 0;
shl.b32 %a1, %a1, 3;
add.u32 %a1, %a1, base;
mbarrier.arrive.shared.b64 _, [%a1];
W: mbarrier.try_wait.parity.shared.b64 %p8, [%a1], 0;
@!%p8 bra W;
"""


@pytest.mark.parametrize(
    "count, leave, asked",
    [
        (96, "", "is the count of 96 in mbarrier.init ({counted}) too high?"),
        (64, "setp.ge.u32 %p1, t, 32; @%p1 bra DONE;", "or should warp 1, which ended, have come?"),
        (64, "setp.eq.u32 %p1, t, 9; @%p1 bra DONE;", "or should threads of warp 0, which ended"),
    ],
)
def test_barriers_that_the_text_does_not_tell_and_warps_that_ended(count, leave, asked):
    body = REUSED.format(count=count, leave=leave) + "DONE:\n"
    error = deadlock(kernel(body, 0), Launch((1, 1, 1), (64, 1, 1)))
    words, line = str(error), error.waits[0].last.line
    assert (
        f"not known: at PTX line {line} the kernel arrives at a barrier that the text does" in words
    )
    assert asked.format(counted=error.waits[0].counted) in words and error.waits[0].counted
    assert "no instruction of this kernel" not in words and "nobody: all" not in words


def test_warps_that_miss_a_named_barrier_are_told(tmp_path):
    text = ring(tmp_path).replace("bar.sync 0;", "bar.sync 3, 96;")
    error = deadlock(text, ring_launch())
    assert {wait.on for wait in error.waits} == {"named barrier 3"}
    assert {(wait.arrived, wait.expected) for wait in error.waits} == {(2, 3)}
    assert error.waits[0].came == ("produce (warp 0)", "consume (warp 1)")


def test_ctas_that_stand_alike_are_told_together(silent_producer):
    text = str(deadlock(silent_producer, ring_launch(ctas=3)))
    assert "CTAs 0-2:" in text
    assert text.count("ring.full.wait") == 1


def test_the_report_survives_a_way_between_processes(silent_producer):
    error = deadlock(silent_producer, ring_launch())
    again = pickle.loads(pickle.dumps(error))
    assert again.waits == error.waits
    assert str(again) == str(error)
