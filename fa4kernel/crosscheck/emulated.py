"""Runs a kernel in the emulator, in lock step, with its checks on and a watch beside them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fa4kernel.crosscheck.counting import Counts
from fa4kernel.crosscheck.kernel import Floats, Kernel
from fa4kernel.crosscheck.record import Record
from fa4kernel.crosscheck.watching import Watch
from fa4kernel.emulator.checks.monitor import Monitor
from fa4kernel.emulator.checks.reports import Reports
from fa4kernel.emulator.emulate import decode
from fa4kernel.emulator.machine.cluster_launch import PendingClusters
from fa4kernel.emulator.machine.machine import Machine
from fa4kernel.emulator.machine.memory import Memory
from fa4kernel.emulator.machine.schedule import Schedule
from fa4kernel.emulator.tracing import Watchers

#: CTAs that a cross-check runs at most: all at once, each with its shared and tensor memory.
MOST_CTAS = 64


@dataclass(frozen=True)
class Emulated:
    """A record, what the kernel computed, and what the emulator's checks found."""

    record: Record
    out: Floats
    lse: Floats
    hazards: tuple[Any, ...]
    counts: Counts


def emulated(kernel: Kernel) -> Emulated:
    """Run a kernel over all its CTAs and write down what it does.

    The output must hold values that no kernel writes, so that what is written can be told.

    Raises:
        fa4kernel.emulator.EmulationError: a deadlock, or something undefined.
        ValueError: the grid is too large.
    """
    launch = kernel.launch
    if launch.ctas > MOST_CTAS:
        raise ValueError(
            f"the kernel starts {launch.ctas} CTAs; a cross-check takes {MOST_CTAS} at most. Give "
            "fewer heads, sequences or queries, or fewer SMs (--set machine.sms=4)"
        )
    program = decode(kernel.ptx, launch)
    memory = Memory(program.context.module, program.context.function, launch)
    pending = PendingClusters(launch)
    wave = pending.take(launch.ctas // launch.cluster_size)
    machine = Machine(program, launch, memory, wave, Schedule(), False, pending)
    watch, counts = Watch(kernel, machine), Counts(kernel, machine)
    reports = Reports("lockstep")
    machine.watch(Watchers(watch, counts, Monitor(machine, reports)))
    before = kernel.tensors.o.copy()
    machine.run()
    record = watch.finish()
    if not record.amounts["bytes stored"]:  # by threads, which nobody watches
        written = kernel.tensors.o != before
        record.amounts["bytes stored"] = int(written.sum()) * before.itemsize
    record.amounts.update(counts.amounts())
    out, lse = kernel.results()
    return Emulated(record, out, lse, reports.hazards, counts)
