"""Looks at barriers and at what completes: the part of a watch that knows no tiles."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from fa4kernel.crosscheck.kernel import Kernel
from fa4kernel.crosscheck.places import Holding, Places
from fa4kernel.crosscheck.record import (
    Arrival,
    BarrierUse,
    Label,
    Operation,
    Place,
    Record,
    Warp,
    load_text,
)
from fa4kernel.crosscheck.simulated_parts import who
from fa4kernel.emulator.machine.machine import Machine


class BarrierWatch:
    """A watcher that writes down barrier operations, arrivals, commits and completions."""

    def __init__(self, kernel: Kernel, machine: Machine) -> None:
        self.kernel = kernel
        self.machine = machine
        self.record = Record(kernel.name, "ticks")
        self.places = Places()
        self.time = 0
        self.storing: dict[int, tuple[Any, Holding]] = {}
        self._warps: dict[int, Warp] = {}
        self._barriers: dict[int, Place] = {}
        self._uses: dict[int, BarrierUse] = {}
        self._initialised: set[int] = set()
        self._polls: dict[tuple[int, int], int] = {}
        self._landing: dict[int, list[tuple[str, Label, str, int]]] = {}
        self._named: dict[tuple[int, int], BarrierUse] = {}

    # -- names ---------------------------------------------------------------------------------

    def tick(self) -> int:
        """The time of the next event: each has one of its own."""
        self.time += 1
        return self.time

    def fault(self, text: str) -> None:
        """Note a contradiction, once."""
        if text not in self.record.faults:
            self.record.faults.append(text)

    def number(self, cta: int) -> int:
        """A CTA's number in the grid."""
        return self.machine.cta_number(cta)

    def members(self, cta: int, group: int) -> list[int]:
        """The CTAs that an MMA of one CTA runs in."""
        if group == 1:
            return [cta]
        clusters = self.machine.shape.clusters
        rank, at = divmod(cta, clusters)
        return [(rank & ~1) * clusters + at, (rank | 1) * clusters + at]

    def warp(self, slot: int) -> Warp:
        """The warp of a slot of the machine."""
        found = self._warps.get(slot)
        if found is None:
            warp, cta = divmod(slot, self.machine.shape.ctas)
            found = Warp(self.number(cta), self.kernel.role(warp), warp % 4)
            self._warps[slot] = found
        return found

    def barrier(self, index: int) -> Place:
        """CTA, name and stage of an mbarrier."""
        found = self._barriers.get(index)
        if found is None:
            cta, offset = self.machine.barriers.place(index)
            name, stage = self.machine.names.mbarrier_parts(offset)
            found = self._barriers[index] = (self.number(cta), name, stage)
        return found

    def use(self, index: int) -> BarrierUse:
        """What is known of an mbarrier."""
        found = self._uses.get(index)
        if found is None:
            found = BarrierUse("mbarrier", int(self.machine.barriers.expected[index]))
            self._uses[index] = self.record.barriers[self.barrier(index)] = found
        return found

    def last(self, warp: Warp) -> Operation | None:
        """What a warp did last."""
        operations = self.record.warps.get(warp)
        return operations[-1] if operations else None

    # -- mbarriers -----------------------------------------------------------------------------

    def barrier_init(self, convoy: Any, lanes: Any, index: Any, instruction: Any) -> None:
        """``mbarrier.init``; whoever is never used is told of at the end."""
        self._initialised.update(np.unique(index).tolist())

    def arrive(
        self, convoy: Any, lanes: Any, index: Any, count: Any, expect: Any, instruction: Any
    ) -> None:
        """Arrivals of threads, before they count."""
        counts = np.broadcast_to(np.asarray(count, np.int64), len(lanes))
        sizes = np.broadcast_to(np.asarray(expect, np.int64), len(lanes))
        slots = np.asarray(lanes) // 32
        for slot, each in sorted({*zip(slots.tolist(), index.tolist(), strict=True)}):
            mine = (slots == slot) & (index == each)
            arrivals, size = int(counts[mine].sum()), int(sizes[mine].sum())
            self._arrives(slot, each, arrivals, size)

    def _arrives(self, slot: int, index: int, count: int, size: int) -> None:
        warp = self.warp(slot)
        owner, name, stage = self.barrier(index)
        time = self.tick()
        if count:
            self.record.did(warp, "arrive", f"{name}[{stage}]", (), time)
            self.arrived(warp, slot)
        phase = int(self.machine.barriers.phase[index])
        by = who(warp.role, warp.cta, owner)
        source = self.record.here(warp)
        self.use(index).arrivals.append(Arrival(phase, count, size, by, source, time))

    def arrived(self, warp: Warp, slot: int) -> None:
        """A warp has arrived on an mbarrier: what it did before is over."""

    def poll(
        self, convoy: Any, lanes: Any, index: Any, wanted: Any, passed: Any, instruction: Any
    ) -> None:
        """``mbarrier.try_wait`` and ``test_wait``, each time they look."""
        slots = np.asarray(lanes) // 32
        first = np.unique(slots, return_index=True)[1]
        for at in first.tolist():
            slot, each = int(slots[at]), int(index[at])
            begun = self._polls.setdefault((slot, each), self.tick())
            if not passed[at]:
                continue
            del self._polls[slot, each]
            _, name, stage = self.barrier(each)
            warp = self.warp(slot)
            operation = self.record.did(warp, "wait", f"{name}[{stage}]", (), begun)
            operation.end = self.tick()
            operation.phase = int(self.machine.barriers.phase[each])
            self.use(each).waiters.add(warp.role)

    def phase_completed(self, index: Any) -> None:
        """Phases complete: what was loaded for them has landed."""
        for each in np.unique(index).tolist():
            use = self.use(each)
            use.completions = int(self.machine.barriers.phase[each])
            for tensor, label, slot, cta in self._landing.get(each, ()):
                text = load_text(tensor, label, slot, cta)
                source = self.record.completed(text, self.tick())
                arrival = Arrival(use.completions - 1, 0, 0, "tma", source, self.time)
                use.arrivals.append(arrival)
            self._landing[each] = []

    def expect_landing(self, index: int, tensor: str, label: Label, slot: str, cta: int) -> None:
        """A tile is on its way, and will count on a barrier."""
        self._landing.setdefault(index, []).append((tensor, label, slot, cta))

    def count_named(self) -> None:
        """How often each named barrier completed, and with how many threads."""
        for use in self._named.values():
            phases = Counter[int]()
            for arrival in use.arrivals:
                phases[arrival.phase] += arrival.count
            use.count = phases[0]
        for slot in range(self.machine.shape.ctas):
            for number in range(self.machine.named.generation.shape[1]):
                named = self._named.get((self.number(slot), number))
                if named is not None:
                    named.completions = int(self.machine.named.generation[slot, number])

    def never_used(self) -> list[int]:
        """Which mbarriers were initialised, and then neither arrived on nor waited for."""
        return sorted(set(self._initialised) - set(self._uses))

    # -- named barriers ------------------------------------------------------------------------

    def named_arrive(
        self, slots: Any, numbers: Sequence[int], generations: Sequence[int], instruction: Any
    ) -> None:
        """``bar.sync`` and ``bar.arrive``."""
        what = "sync" if "sync" in instruction.qualifiers else "arrive"
        for slot, number, generation in zip(slots, numbers, generations, strict=True):
            if int(number) in self.kernel.start_up:
                continue
            warp = self.warp(int(slot))
            name, stage = self.named(int(number))
            self.record.did(warp, what, f"{name}[{stage}]", (), self.tick())
            use = self._named.get((warp.cta, int(number)))
            if use is None:
                use = self._named[warp.cta, int(number)] = BarrierUse("named", 0)
                self.record.barriers[warp.cta, name, stage] = use
            source = self.record.here(warp)
            use.arrivals.append(Arrival(int(generation), 32, 0, warp.role, source, self.time))
            if what == "sync":
                use.waiters.add(warp.role)

    def named_passed(self, slots: Any, numbers: Sequence[int], generations: Sequence[int]) -> None:
        """Warps go on after ``bar.sync``."""
        for slot, number, generation in zip(slots, numbers, generations, strict=True):
            warp = self.warp(int(slot))
            name, stage = self.named(int(number))
            last = self.last(warp)
            if last is not None and (last.what, last.on) == ("sync", f"{name}[{stage}]"):
                last.end, last.phase = self.tick(), int(generation) + 1

    def named(self, number: int) -> tuple[str, int]:
        """The simulator's name of a named barrier."""
        return self.kernel.named.get(number, f"named barrier {number}"), 0
