"""What is told to the driver, on a driver that only remembers."""

from __future__ import annotations

import numpy as np
import pytest

from fa4kernel.device.clock import READ, MeanClock
from fa4kernel.device.running import Loaded, run
from fa4kernel.emulator import Launch, emulate


class Remembering:
    """Stands in for `Gpu`: memory is the host's, a start copies what the test puts in."""

    sms = 2

    def __init__(self, effect=lambda arrays: None) -> None:
        self.effect, self.log, self.memory, self.next = effect, [], {}, 4096

    def kept(self, ptx):
        self.log.append("compile")
        return ptx

    def function(self, module, name):
        return name

    def allocate(self, nbytes):
        self.next += 1 << 20
        return self.next

    def upload(self, pointer, array):
        self.memory[pointer] = array.copy()

    def download(self, pointer, array):
        array[...] = self.memory[pointer]

    def free(self, pointer):
        del self.memory[pointer]

    def prepare(self, function, parameters, grid, block, cluster, shared):
        self.log.append((function, parameters, grid, block, cluster, shared))
        return parameters

    def start(self, prepared):
        pointers = [int.from_bytes(raw, "little") for raw in prepared]
        self.effect({each: self.memory[each] for each in pointers if each in self.memory})
        self.log.append("start")

    def wait(self, patience):
        self.log.append("wait")


def test_a_launch_goes_to_the_driver_as_to_the_emulator():
    rows = np.zeros((8, 3), np.int64)

    def effect(memory):
        for array in memory.values():
            array[:, 1] = 7

    gpu = Remembering(effect)
    run(gpu, READ, Launch((8, 1, 1), (1, 1, 1), arguments=[rows]))
    assert (rows[:, 1] == 7).all() and gpu.memory == {}
    (name, parameters, grid, block, cluster, shared) = gpu.log[1]
    assert (name, grid, block, cluster, shared) == ("read", (8, 1, 1), (1, 1, 1), (1, 1, 1), 0)
    assert int.from_bytes(parameters[0], "little") > 4096
    assert gpu.log[2:] == ["start", "wait"]


def test_arrays_that_are_there_are_not_copied():
    rows = np.zeros((8, 3), np.int64)
    gpu = Remembering()
    with Loaded(gpu, READ, Launch((8, 1, 1), (1, 1, 1), arguments=[rows]), {id(rows): 99}):
        assert gpu.memory == {}
    (_, (raw,), *_) = gpu.log[1]
    assert int.from_bytes(raw, "little") == 99


def test_a_second_kernel_finds_the_arrays_of_the_first_whatever_their_shape():
    rows = np.zeros((8, 3), np.int64)
    gpu = Remembering()
    made = [Launch((8, 1, 1), (1, 1, 1), arguments=[x]) for x in (rows, rows.reshape(2, 4, 3))]
    with Loaded(gpu, READ, made[0]) as first, Loaded(gpu, READ, made[1], first.addresses):
        assert len(gpu.memory) == 1
    assert gpu.log[1][1] == gpu.log[3][1]
    assert gpu.memory == {}


def test_only_contiguous_arrays_are_copied():
    rows = np.zeros((8, 6), np.int64)[:, ::2]
    with pytest.raises(ValueError, match="must be contiguous"):
        Loaded(Remembering(), READ, Launch((8, 1, 1), (1, 1, 1), arguments=[rows]))


def test_the_clock_is_read_before_and_after():
    reads = iter((1000, 1000 + 3000))

    def effect(memory):
        now = next(reads)
        for array in memory.values():
            array[:] = [(sm, 2 * now, now) for sm in range(len(array))]

    gpu = Remembering(effect)
    with MeanClock(gpu) as clock:
        assert not hasattr(clock, "hz")
    assert clock.hz == pytest.approx(2e9)
    assert gpu.memory == {}


def test_between_the_readings_of_the_clock_there_is_nothing_but_the_work():
    ticks = iter((1, 2))

    def effect(memory):
        for array in memory.values():
            array[:, 1:] = next(ticks)

    gpu = Remembering(effect)
    clock = MeanClock(gpu)
    prepared = len(gpu.log)
    assert "start" not in gpu.log
    with clock:
        gpu.log.append("work")
    assert gpu.log[prepared:] == ["start", "work", "start", "wait"]


def test_without_a_common_multiprocessor_there_is_no_clock():
    with pytest.raises(ValueError, match="no multiprocessor has been read"):
        MeanClock.of(np.array([[0, 1, 1]]), np.array([[1, 5, 5]]))


def test_the_reading_kernel_writes_a_row_for_every_cta():
    rows = np.full((5, 3), -1, np.int64)
    found = emulate(READ, Launch((5, 1, 1), (1, 1, 1), arguments=[rows]))
    assert found.hazards == () and (rows >= 0).all()
