"""Which instructions a run of the original executes, and who waits for which barrier's phases."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from fa4kernel.emulator.launch import Launch
from fa4kernel.emulator.machine.cluster_launch import PendingClusters
from fa4kernel.emulator.machine.convoy import Convoy
from fa4kernel.emulator.machine.machine import Machine
from fa4kernel.emulator.machine.memory import Memory
from fa4kernel.emulator.machine.program import Branch, Exit, Program, Run, Special
from fa4kernel.emulator.machine.schedule import Schedule
from fa4kernel.emulator.mutation.barriers import barrier_mutants, completion_barrier
from fa4kernel.emulator.mutation.meetings import meeting_mutants
from fa4kernel.emulator.mutation.sites import Sites
from fa4kernel.emulator.ptx.module import Function, Instruction

#: A barrier (its index in the machine) and a phase of it.
Phase = tuple[int, int]
#: Line and column of an instruction in the PTX.
Place = tuple[int, int]


def place_of(instruction: Instruction) -> Place:
    """Where an instruction stands."""
    return instruction.line, instruction.column


@dataclass
class Usage:
    """What a run did.

    Attributes:
        ran: indices of the instructions that at least one thread executed.
        awaited: phases that somebody waited for.
        polls: place of a wait to the phases that it waited for.
        counts: place of an instruction to the phases in which it arrived, expected or completed
            bytes.
        inits: place of an ``mbarrier.init`` to the barriers it made.
        meetings: named barrier (CTA, number) to the places where warps come to it.
        waiters: barrier to the warps that wait on it.
        told: place of an arrival to the mbarriers it arrives on; arrivers: to the warps.
    """

    ran: set[int] = field(default_factory=set)
    awaited: set[Phase] = field(default_factory=set)
    polls: dict[Place, set[Phase]] = field(default_factory=lambda: defaultdict(set))
    counts: dict[Place, set[Phase]] = field(default_factory=lambda: defaultdict(set))
    inits: dict[Place, set[int]] = field(default_factory=lambda: defaultdict(set))
    meetings: dict[tuple[int, int], set[Place]] = field(default_factory=lambda: defaultdict(set))
    waiters: dict[int, set[int]] = field(default_factory=lambda: defaultdict(set))
    told: dict[Place, set[int]] = field(default_factory=lambda: defaultdict(set))
    arrivers: dict[Place, set[int]] = field(default_factory=lambda: defaultdict(set))

    def last_awaited(self) -> dict[int, int]:
        """Of each barrier that somebody waits on, the last phase that is waited for."""
        found: dict[int, int] = {}
        for barrier, phase in self.awaited:
            found[barrier] = max(phase, found.get(barrier, phase))
        return found

    @property
    def used(self) -> set[int]:
        """Barriers that somebody waits on or counts on."""
        return {b for b, _ in self.awaited} | {b for ps in self.counts.values() for b, _ in ps}


class _Watcher:
    """Stands where the checks stand, and only listens to waits and inits."""

    def __init__(self, machine: Machine, usage: Usage) -> None:
        self.machine = machine
        self.usage = usage

    def poll(
        self,
        convoy: Convoy,
        lanes: NDArray[np.intp],
        index: NDArray[np.intp],
        wanted: NDArray[np.int64],
        passed: NDArray[np.bool_],
        instruction: Instruction,
    ) -> None:
        """Somebody looks whether a phase is complete: this one, or the one before."""
        phases = self.machine.barriers.phase[index] - passed
        found = set(zip(index.tolist(), phases.tolist(), strict=True))
        self.usage.awaited |= found
        self.usage.polls[place_of(instruction)] |= found
        for barrier, slot in zip(index.tolist(), (lanes // 32).tolist(), strict=True):
            self.usage.waiters[barrier].add(slot)

    def arrive(
        self,
        convoy: Convoy,
        lanes: NDArray[np.intp],
        index: NDArray[np.intp],
        count: Any,
        expect: Any,
        instruction: Instruction,
    ) -> None:
        """Threads arrive, or announce bytes."""
        self.usage.told[place_of(instruction)].update(index.tolist())
        self.usage.arrivers[place_of(instruction)].update((lanes // 32).tolist())

    def barrier_init(
        self,
        convoy: Convoy,
        lanes: NDArray[np.intp],
        index: NDArray[np.intp],
        instruction: Instruction,
    ) -> None:
        """Barriers are made."""
        self.usage.inits[place_of(instruction)] |= set(index.tolist())

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_, **__: None


class CoveredMachine(Machine):
    """A machine that notes what it does."""

    usage: Usage

    def observe(self, usage: Usage) -> None:
        """Note from now on."""
        self.usage = usage
        self.watch(_Watcher(self, usage))
        apply = self.barriers.apply

        def noted(
            index: NDArray[np.intp], instruction: Instruction, *rest: Any, **more: Any
        ) -> None:
            phases = self.barriers.phase[index]
            usage.counts[place_of(instruction)] |= set(
                zip(index.tolist(), phases.tolist(), strict=True)
            )
            apply(index, instruction, *rest, **more)

        self.barriers.apply = noted  # type: ignore[method-assign]
        arrive = self.named.arrive

        def met(
            slots: NDArray[np.intp], numbers: NDArray[np.int64], *rest: Any
        ) -> NDArray[np.int64]:
            place = place_of(rest[-1])
            usage.arrivers[place].update(slots.tolist())
            for cta, number in zip(self.ctas_of(slots).tolist(), numbers.tolist(), strict=True):
                usage.meetings[cta, number].add(place)
            return arrive(slots, numbers, *rest)

        self.named.arrive = met  # type: ignore[method-assign, assignment]

    def _run(self, item: Run, convoy: Convoy) -> None:
        self.usage.ran.update(range(item.start, item.end))
        super()._run(item, convoy)

    def _act(self, item: Special, convoy: Convoy) -> bool:
        self.usage.ran.add(item.start)
        return super()._act(item, convoy)

    def _branch(self, item: Branch, convoy: Convoy) -> bool:
        self.usage.ran.add(item.start)
        return super()._branch(item, convoy)

    def _exit(self, item: Exit, convoy: Convoy) -> Convoy | None:
        self.usage.ran.add(item.start)
        return super()._exit(item, convoy)


def observe(program: Program, launch: Launch) -> Usage:
    """Run a kernel in lock step and note what it does."""
    usage = Usage()
    machine = whole_grid(CoveredMachine, program, launch)
    machine.observe(usage)
    machine.run()
    return usage


SomeMachine = TypeVar("SomeMachine", bound=Machine)


def whole_grid(kind: type[SomeMachine], program: Program, launch: Launch) -> SomeMachine:
    """A machine, in lock step, on which all CTAs of a launch are resident."""
    memory = Memory(program.context.module, program.context.function, launch)
    pending = PendingClusters(launch)
    wave = pending.take(launch.ctas // launch.cluster_size)
    return kind(program, launch, memory, wave, Schedule(), False, pending)


def synchronisation(function: Function) -> list[int]:
    """Indices of the instructions that synchronise: those that have mutants of their own."""
    sites = Sites(function)
    found = []
    for index, instruction in enumerate(function.instructions):
        changes = next(barrier_mutants(sites, index), next(meeting_mutants(sites, index), None))
        if changes is not None or completion_barrier(instruction) is not None:
            found.append(index)
    return found


def never_ran(function: Function, usage: Usage) -> list[Instruction]:
    """Synchronisation instructions that the run did not execute."""
    code = function.instructions
    return [code[index] for index in synchronisation(function) if index not in usage.ran]
