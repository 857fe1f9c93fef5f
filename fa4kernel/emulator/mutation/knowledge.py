"""What waits tell, and to whom: by the clocks of the checks, run on the original.

What a wait hands on is a clock (see :mod:`fa4kernel.emulator.checks.clocks`). If, each time, all
whom it reaches know it anyway before they access memory, then dropping the wait changes no order
between accesses: so it is where a thread waits for a commit that comes before another one of the
same thread that it has waited for, or where it waits once more before it ends.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fa4kernel.emulator.checks.clocks import LONE, WHOLE, Index, Ints
from fa4kernel.emulator.checks.monitor import Monitor
from fa4kernel.emulator.checks.records import Event
from fa4kernel.emulator.checks.reports import Reports
from fa4kernel.emulator.launch import Launch
from fa4kernel.emulator.machine.convoy import Convoy
from fa4kernel.emulator.machine.machine import Machine
from fa4kernel.emulator.machine.program import Program
from fa4kernel.emulator.mutation.coverage import Place, place_of, whole_grid
from fa4kernel.emulator.mutation.footprints import Footprints
from fa4kernel.emulator.mutation.lessons import Lessons, covers
from fa4kernel.emulator.ptx.module import Instruction

#: What the machine tells the checks when a warp, or what it starts, accesses memory.
ACCESSES = ("shared_access", "tmem_access", "loads_issued", "store_issued", "copy_issued",
            "mmas_issued", "commits_issued", "wgmma_issued")  # fmt: skip


class Listener(Monitor):
    """The checks, with an ear on what waits tell.

    Attributes:
        idle: places of arrivals that nobody waits for.
        passed: places of waits that somebody passed.
        phases: barrier and phase to the clock that its completion handed on.
        late: places of arrivals by warps that had accessed memory before.
        memory: what was accessed.
    """

    def __init__(self, machine: Machine, reports: Reports, idle: set[Place]) -> None:
        super().__init__(machine, reports)
        self.idle = idle
        self.passed: set[Place] = set()
        self.phases: dict[tuple[int, int], Ints] = {}
        self.late: set[Place] = set()
        self._lessons = Lessons()
        self._released: dict[int, Ints] = {}
        #: Where warps wait in named barriers, and which barrier and phase tells a warp something.
        self._meetings: dict[int, Place] = {}
        self._source: dict[int, Hashable] = {}
        self._accessed: set[int] = set()
        self._poll: Place | None = None
        self._ending = self._freeing = False
        self._own: dict[int, list[int]] = {}
        self.memory = Footprints(self, self._compared)
        self._listen()

    def _listen(self) -> None:
        acquire, release = self.clocks.acquire, self.clocks.release
        check_init = self.barriers.check_init

        def acquiring(slots: Index, part: Any, rows: Ints) -> None:
            rows = np.broadcast_to(rows, (len(slots), rows.shape[1]))
            parts = np.broadcast_to(np.asarray(part), len(slots))
            for slot, row, one in zip(map(int, slots), rows, parts, strict=True):
                self._learn(slot, row, bool(one == WHOLE))
            acquire(slots, part, rows)

        def releasing(slots: Index, part: Any) -> Ints:
            rows = release(slots, part)
            self._released.update(zip(map(int, slots), rows, strict=True))
            return rows

        def checking(rows: Index, slots: Index, *rest: Any) -> None:
            components, times = self.barriers.init_component[rows], self.barriers.init_time[rows]
            for slot in set(slots.tolist()):
                mine = slots == slot
                self._lessons.rely_on(slot, components[mine], times[mine])
            check_init(rows, slots, *rest)

        for name in ACCESSES:
            setattr(self, name, self._accessing(getattr(self, name)))
        self.clocks.acquire = acquiring  # type: ignore[method-assign]
        self.clocks.release = releasing  # type: ignore[method-assign]
        self.barriers.check_init = checking  # type: ignore[method-assign, assignment]

    def _accessing(self, method: Callable[..., None]) -> Callable[..., None]:
        def told(convoy: Convoy, *rest: Any, **more: Any) -> None:
            slots = convoy.warps()[0].tolist()
            self._relies(slots)
            self._accessed.update(slots)
            method(convoy, *rest, **more)

        return told

    def _compared(self, slots: Index, components: Any, times: Ints) -> None:
        """Who frees tensor memory relies on these times of these components."""
        if self._freeing:
            for slot in set(slots.tolist()):
                mine = slots == slot
                self._lessons.rely_on(slot, components[mine], times[mine])

    def _learn(self, slot: int, row: Ints, whole: bool) -> None:
        place = self._poll or self._meetings.pop(slot, None)
        known = self.clocks.known[LONE, slot]
        lesson = None
        if place is not None:
            told = self.memory.substance(row)
            told[self._own.get(slot, [])] = 0
            told[self._components(slot)] = 0
            lesson = place, told
        self._lessons.hear(slot, row, known, whole, self._source.get(slot), lesson)

    def _tell(self, slot: int, barrier: Hashable) -> None:
        """A warp has arrived at a phase of a barrier."""
        self._lessons.tell(slot, self._released[slot], self._components(slot), barrier)

    def _components(self, slot: int) -> Index:
        """Components of what a warp itself does."""
        clocks = self.clocks
        mine = np.array([clocks.whole[slot], clocks.lone[slot]])
        return np.concatenate([mine, mine + clocks.through, [clocks.polls[slot]]])

    def _relies(self, slots: Iterable[int]) -> None:
        self._lessons.rely(slots)

    # --- what the machine tells ------------------------------------------------------------

    def event(self, instruction: Instruction, slots: Index, agent: str = "") -> Event:
        """Whatever is neither a wait nor an arrival nor an end relies on what is known."""
        arrives = instruction.opcode in ("bar", "barrier", "mbarrier")
        if not (self._poll or self._ending or self._freeing or arrives):
            self._relies(map(int, slots))
        return super().event(instruction, slots, agent)

    def ended(self, convoy: Convoy) -> None:
        """Who ends relies on nothing."""
        self._ending = True
        super().ended(convoy)
        self._ending = False

    def freed(
        self, slot: int, cta: int, start: int, columns: int, instruction: Instruction
    ) -> None:
        """Who frees tensor memory relies only on what is known about accesses to it."""
        self._freeing = True
        super().freed(slot, cta, start, columns, instruction)
        self._freeing = False

    def fence(self, convoy: Convoy, instruction: Instruction) -> None:
        """A fence makes what is known into more."""
        self._relies(map(int, convoy.warps()[0]))
        super().fence(convoy, instruction)

    def poll(
        self,
        convoy: Convoy,
        lanes: Index,
        index: Index,
        wanted: NDArray[np.int64],
        passed: NDArray[np.bool_],
        instruction: Instruction,
    ) -> None:
        """Listen to a wait for an mbarrier."""
        self._own = defaultdict(list)
        for barrier, slot in {*zip(index.tolist(), (lanes // 32).tolist(), strict=True)}:
            component = int(self.barriers.phase[self.barriers.row[barrier]])
            self._own[slot].append(component)
            self._source[slot] = barrier, int(self.machine.barriers.phase[barrier]) - 1
        if passed.any():
            self.passed.add(place_of(instruction))
        self._poll = place_of(instruction)
        super().poll(convoy, lanes, index, wanted, passed, instruction)
        self._poll, self._own, self._source = None, {}, {}

    def arrive(
        self,
        convoy: Convoy,
        lanes: Index,
        index: Index,
        count: Any,
        expect: Any,
        instruction: Instruction,
    ) -> None:
        """A warp arrives on an mbarrier; who waits there will be told what it knows."""
        place, slots = place_of(instruction), (lanes // 32).tolist()
        self._arrived(place, set(slots))
        phases = self.machine.barriers.phase[index].tolist()
        super().arrive(convoy, lanes, index, count, expect, instruction)
        if place in self.idle:
            return
        if "relaxed" in instruction.qualifiers or (np.ndim(count) == 0 and count == 0):
            self._relies(slots)
            return
        for slot, *phase in {*zip(slots, index.tolist(), phases, strict=True)}:
            self._tell(slot, tuple(phase))

    def _arrived(self, place: Place, slots: set[int]) -> None:
        if slots & self._accessed:
            self.late.add(place)

    def phase_completed(self, index: Index) -> None:
        """Keep what a phase hands on."""
        super().phase_completed(index)
        phases = self.machine.barriers.phase[index] - 1
        for barrier, phase in zip(index.tolist(), phases.tolist(), strict=True):
            row = self.barriers.given.rows[2 * self.barriers.row[barrier] + (phase & 1)]
            self.phases[barrier, phase] = row.copy()

    def named_arrive(
        self,
        slots: Index,
        numbers: NDArray[np.int64],
        generations: NDArray[np.int64],
        instruction: Instruction,
    ) -> None:
        """A warp comes to a named barrier; if it waits there, it will be told something."""
        self._arrived(place_of(instruction), set(slots.tolist()))
        super().named_arrive(slots, numbers, generations, instruction)
        for slot, *meeting in self._at(slots, numbers, generations):
            self._tell(slot, ("named", *meeting))
        if "sync" in instruction.qualifiers:
            self.passed.add(place_of(instruction))
            self._meetings.update(dict.fromkeys(map(int, slots), place_of(instruction)))

    def named_passed(
        self, slots: Index, numbers: NDArray[np.int64], generations: NDArray[np.int64]
    ) -> None:
        """Warps go on after a named barrier."""
        for slot, *meeting in self._at(slots, numbers, generations):
            self._source[slot] = ("named", *meeting)
        components = self.rendezvous._generations(self.machine.ctas_of(slots), numbers)
        self._own = {int(s): [int(c)] for s, c in zip(slots, components, strict=True)}
        super().named_passed(slots, numbers, generations)
        self._source, self._own = {}, {}

    def _at(
        self, slots: Index, numbers: NDArray[np.int64], generations: NDArray[np.int64]
    ) -> Iterable[tuple[int, int, int, int]]:
        """Warp, CTA, number and generation of each who comes to a named barrier."""
        ctas = self.machine.ctas_of(slots).tolist()
        return zip(slots.tolist(), ctas, numbers.tolist(), generations.tolist(), strict=True)

    def cluster_arrive(self, convoy: Convoy, instruction: Instruction) -> None:
        """Who comes to a cluster's barrier relies on what it knows."""
        self._relies(convoy.warps()[0].tolist())
        super().cluster_arrive(convoy, instruction)

    # --- what was heard --------------------------------------------------------------------

    @property
    def needless(self) -> set[Place]:
        """Places of waits that told nobody anything that it relied on and didn't know otherwise.

        But for the phase itself that is complete: the rules of phases look after that.
        """
        return self.passed - self._lessons.needed

    def later(self, barrier: int, phase: int, other: int) -> bool:
        """Whether the same phase of another barrier tells all that this one does.

        But for the phases of this barrier themselves.
        """
        mine, its = self.phases.get((barrier, phase)), self.phases.get((other, phase))
        if mine is None or its is None:
            return False
        mine = self.memory.substance(mine)
        mine[int(self.barriers.phase[self.barriers.row[barrier]])] = 0
        return covers(its, mine)


def listen(program: Program, launch: Launch, idle: set[Place]) -> Listener:
    """Run a kernel in lock step and listen.

    Args:
        idle: places of arrivals that nobody waits for.
    """
    machine = whole_grid(Machine, program, launch)
    listener = Listener(machine, Reports("lockstep"), idle)
    machine.watch(listener)
    machine.run()
    return listener
