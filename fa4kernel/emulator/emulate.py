"""Run a PTX kernel on this computer."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from fa4kernel.emulator.checks.global_history import GlobalHistory
from fa4kernel.emulator.checks.hazard import Hazard
from fa4kernel.emulator.checks.monitor import Monitor
from fa4kernel.emulator.checks.reports import Reports
from fa4kernel.emulator.errors import EmulationError
from fa4kernel.emulator.launch import Launch, check_launch
from fa4kernel.emulator.machine.adversary import schedule_of
from fa4kernel.emulator.machine.cluster_launch import PendingClusters
from fa4kernel.emulator.machine.machine import Machine
from fa4kernel.emulator.machine.memory import Memory
from fa4kernel.emulator.machine.program import Context, Program
from fa4kernel.emulator.parallel import SharedMemory, clusters_talk, is_possible, share_out
from fa4kernel.emulator.ptx import parse
from fa4kernel.emulator.ptx.module import Instruction, Module
from fa4kernel.emulator.replay import python_call
from fa4kernel.emulator.tracing import Recorder, Selection, Watchers
from fa4kernel.emulator.tracing.progress import Progress, Report

if TYPE_CHECKING:
    from fa4sim.trace import Trace

#: CTAs that run at the same time: as many clusters as fit.
RESIDENT_CTAS = 32
#: What may be checked.
CHECKS = ("default", "off", "strict-isa")
#: How MMAs add up.
ARITHMETIC = ("fast", "faithful")


@dataclass
class Emulation:
    """What a run came to. Outputs are in the caller's arrays.

    Attributes:
        instructions: warp instructions executed (copies that cost nothing not counted).
        steps: pieces of work the machine did.
        wall_s: seconds, and of these for reading and decoding the text.
        decode_s: see there.
        hazards: what the checks found.
        never_ran: instructions that no warp came to, in the order of the text.
        trace: what happened, in ticks (see ``fa4kernel.emulator.tracing``); None unless asked for.
    """

    instructions: int
    steps: int
    wall_s: float
    decode_s: float
    hazards: tuple[Hazard, ...] = ()
    never_ran: tuple[Instruction, ...] = ()
    trace: Trace | None = None


def decode(ptx: str | Module, launch: Launch) -> Program:
    """Read and decode a kernel once, for several launches of the same shape of shared memory.

    Raises:
        PtxError: the text cannot be read or holds an instruction that is not supported.
    """
    module = parse(ptx) if isinstance(ptx, str) else ptx
    function = module.entry(launch.entry)
    context = Context(module, function, launch.shared_bytes)
    context.address_of.globals.update(Memory(module, function, launch).globals)
    return Program(context)


def emulate(
    ptx: str | Module | Program,
    launch: Launch,
    *,
    schedule: str | int = "lockstep",
    arithmetic: str = "fast",
    checks: str = "default",
    resident_ctas: int = RESIDENT_CTAS,
    most_steps: int | None = None,
    processes: int = 1,
    trace: bool | str = False,
    progress: Report | None = None,
    replay: str | None = None,
) -> Emulation:
    """Execute a launch of a kernel; its outputs are then in the arrays of the launch.

    Args:
        ptx: the text of a module, or a parsed one, or what :func:`decode` makes of it.
        launch: grid, block, shared memory, arguments.
        schedule: "lockstep"; a seed for a random order; or an adversary, which delays or hurries
            one thing as much as the rules allow: "delay" or "hurry" and one of "tma", "tma_store",
            "cp_async", "tensor", "wgmma", "warp 3" (of every CTA), "cta 1" (of those that run at
            the same time), and perhaps "seed 7" for the order of the rest.
        arithmetic: "fast" (MMAs in float32) or "faithful" (rounded as hardware does).
        checks: "default", "off", or "strict-isa", which adds advisories where a kernel relies on
            what hardware does and the manual does not promise.
        resident_ctas: CTAs that run at the same time; others follow when these have ended.
        most_steps: give up after so many pieces of work in a wave; without it, a kernel that
            spins for ever is run for ever.
        processes: share the clusters out among so many. A kernel whose clusters talk to each other
            (by atomics on global memory or cluster launch control) runs in one all the same.
        trace: record what happens, in all CTAs (True) or some ("cta 0", "cta 0,2-5", "cluster 1"),
            numbered cluster by cluster; in one process.
        progress: is told, a few times a second, how many CTAs have ended, of how many, and how many
            warp instructions were executed.
        replay: what reports say that repeats this run; by default this call.

    Raises:
        PtxError: the text cannot be read or holds an instruction that is not supported.
        DeadlockError: nothing can go on.
        EmulationError: the kernel did something undefined, or ``most_steps`` did not suffice. Its
            ``hazards`` and ``trace`` are what was found and recorded before.
        ValueError: there are no such checks, no such arithmetic, no such schedule, no such CTAs to
            trace, or a number that is none.
    """
    if checks not in CHECKS:
        raise ValueError(f"checks={checks!r}: give one of {', '.join(CHECKS)}")
    if arithmetic not in ARITHMETIC:
        raise ValueError(f"arithmetic={arithmetic!r}: give one of {', '.join(ARITHMETIC)}")
    replay = replay or python_call(
        schedule=schedule, checks=checks, arithmetic=arithmetic, resident_ctas=resident_ctas,
        processes=processes, most_steps=most_steps,
    )  # fmt: skip
    _check_count("resident_ctas", resident_ctas)
    _check_count("processes", processes)
    schedule_of(schedule)  # a schedule that doesn't exist is told before anything is read
    started = time.perf_counter()
    program = ptx if isinstance(ptx, Program) else decode(ptx, launch)
    check_launch(launch, program.context.function.directives)
    memory = Memory(program.context.module, program.context.function, launch)
    decoded = time.perf_counter()
    parts = 1
    if processes > 1 and is_possible() and not clusters_talk(program.context.function):
        parts = min(processes, launch.ctas // launch.cluster_size)
    recorder = _recorder(trace, launch)
    if recorder is not None:
        parts = 1
    pending = PendingClusters(launch).shared_out(parts)
    lookers: list[Any] = [recorder] if recorder is not None else []
    if progress is not None and parts == 1:
        lookers.append(Progress(progress, launch.ctas, launch.threads))
    faithful, strict = arithmetic == "faithful", checks == "strict-isa"

    def work(part: int) -> Emulation:
        """Run one part of the clusters."""
        order = schedule_of(schedule, part)
        at_once = max(1, resident_ctas // parts // launch.cluster_size)
        reports = Reports(replay)
        instructions = steps = 0
        begun: set[int] = set()
        history: GlobalHistory | None = None
        while pending[part]:
            wave = pending[part].take(at_once)
            machine = Machine(program, launch, memory, wave, order, faithful, pending[part])
            machine.most_steps = most_steps
            watchers, monitor = list(lookers), None
            if checks != "off":
                monitor = Monitor(machine, reports, strict, history)
                history = monitor.global_memory.history
                watchers.append(monitor)
            if watchers:
                machine.watch(Watchers(*watchers) if lookers else watchers[0])
            for looker in lookers:
                looker.attach(machine)
            try:
                machine.run()
            except EmulationError as error:
                error.hazards, error.replay = reports.hazards, replay
                if error.barrier is not None:
                    error.called = machine.names.mbarrier(error.barrier)
                if recorder is not None:
                    error.trace = _trace(recorder, machine)
                raise
            for looker in lookers:
                looker.finish()
            instructions += machine.executed
            steps += machine.steps
            begun |= machine.begun
            if pending[part] and recorder is None:
                machine.close()
                if monitor is not None:
                    monitor.close()
        rest = program.beside(begun)
        found = Emulation(instructions, steps, 0.0, decoded - started, reports.hazards, rest)
        return found if recorder is None else replace(found, trace=_trace(recorder, machine))

    if parts == 1:
        total = work(0)
    else:
        with SharedMemory(memory):
            total = _together(share_out(work, parts))
    return replace(total, wall_s=time.perf_counter() - started)


def _check_count(name: str, number: Any) -> None:
    if not isinstance(number, int) or number < 1:
        raise ValueError(f"{name}={number!r}: give a whole number of at least 1")


def _recorder(trace: bool | str, launch: Launch) -> Recorder | None:
    if trace is False:
        return None
    selection = Selection.parse(trace, launch.cluster_size)
    if not any(cta in selection for cta in range(launch.ctas)):
        raise ValueError(f"trace={trace!r}: the grid has CTAs 0 to {launch.ctas - 1}")
    return Recorder(selection)


def _trace(recorder: Recorder, machine: Machine) -> Trace:
    from fa4kernel.emulator.tracing.build import build

    launch, program = machine.launch, machine.program
    lengths = {item.start: item.end - item.start for item in program.item_at if item is not None}
    about = {
        "kernel": program.context.function.name, "grid": list(launch.grid),
        "block": list(launch.block), "cluster": list(launch.cluster),
        "schedule": machine.schedule.name,
    }  # fmt: skip
    return build(recorder, machine.names, lengths, about)


def _together(parts: list[Emulation]) -> Emulation:
    """The parts of a run as one."""
    hazards: dict[object, Hazard] = {}
    for hazard in (h for part in parts for h in part.hazards):
        hazards.setdefault((hazard.kind, hazard.first, hazard.second), hazard)
    nowhere = set.intersection(
        *({(each.line, each.column) for each in part.never_ran} for part in parts)
    )
    return Emulation(
        sum(part.instructions for part in parts),
        sum(part.steps for part in parts),
        0.0,
        parts[0].decode_s,
        tuple(hazards.values()),
        tuple(each for each in parts[0].never_ran if (each.line, each.column) in nowhere),
    )
