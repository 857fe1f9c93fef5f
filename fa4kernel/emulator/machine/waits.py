"""The waits of a machine that stands still, and the ways between them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from fa4kernel.emulator.inspection.barriers import Barrier
from fa4kernel.emulator.inspection.roles import Role, warps_words
from fa4kernel.emulator.inspection.sites import Site
from fa4kernel.emulator.machine.absent import ended, untold
from fa4kernel.emulator.machine.arrivals import Arrival
from fa4kernel.emulator.machine.cluster import ClusterPassed
from fa4kernel.emulator.machine.convoy import Convoy
from fa4kernel.emulator.machine.named_barriers import Passed
from fa4kernel.emulator.machine.patience import Pause
from fa4kernel.emulator.machine.phase_waits import PhaseDone
from fa4kernel.emulator.machine.program import Condition
from fa4kernel.emulator.waiting import Came, Waiting

if TYPE_CHECKING:
    from fa4kernel.emulator.machine.machine import Machine


@dataclass(frozen=True)
class Supplier:
    """Warps of a role that could end a wait.

    Attributes:
        role: theirs.
        cta: number of their CTA in the grid.
        late: those of its warps that have not come.
        sites: where they would arrive.
    """

    role: Role
    cta: int
    late: tuple[int, ...]
    sites: tuple[Site, ...]


#: Qualifiers by which an arrival reaches the barriers of other CTAs of the cluster.
REMOTE = frozenset(("shared::cluster", "multicast::cluster", "cta_group::2"))


class Waits:
    """Reads who waits for what off a machine."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.names = machine.names

    def all(self) -> list[Waiting]:
        """Every wait, warps of a role that wait alike together, by CTA and warp."""
        groups: dict[Waiting, list[int]] = defaultdict(list)
        for each in self.machine.blocked:
            slots, _ = each.convoy.warps()
            for at, slot in enumerate(slots.tolist()):
                wait = self._one(each.convoy, each.condition, at, slot)
                groups[wait].append(slot // self.machine.shape.ctas)
        found = [_with_warps(wait, warps) for wait, warps in groups.items()]
        return sorted(found, key=lambda wait: (wait.cta, wait.warps))

    def _one(self, convoy: Convoy, condition: Condition, at: int, slot: int) -> Waiting:
        machine, names = self.machine, self.names
        instruction = machine.program.context.function.instructions[convoy.pc]
        cta, warp = slot % machine.shape.ctas, slot // machine.shape.ctas
        base = Waiting(
            machine.cta_number(cta), names.role(warp), (), instruction.line, instruction.text,
            names.source(instruction), "other", "",
        )  # fmt: skip
        if isinstance(condition, Pause) and condition.polled is not None:
            condition = condition.polled
        if isinstance(condition, PhaseDone):
            return self._mbarrier(base, condition, int(convoy.warps()[1][at]))
        if isinstance(condition, Passed):
            return self._named(base, condition, slot)
        if isinstance(condition, ClusterPassed):
            return self._cluster(base, slot)
        return replace(base, on=instruction.opcode, words=condition.describe(machine, convoy)[at])

    def _mbarrier(self, base: Waiting, condition: PhaseDone, lane: int) -> Waiting:
        barriers = self.machine.barriers
        at = int(np.searchsorted(condition.lanes, lane))
        index, wanted = int(condition.index[at]), int(condition.parity[at])
        cta, offset = barriers.place(index)
        completed, expected = int(barriers.phase[index]), int(barriers.expected[index])
        came = barriers.arrivals.came(index)
        return replace(
            base, kind="mbarrier", on=self.names.mbarrier(offset),
            owner=self.machine.cta_number(cta), place=offset,
            phase=wanted if condition.token else completed, completed=completed,
            arrived=expected - int(barriers.pending[index]), expected=expected,
            bytes=int(barriers.bytes[index]), last=self._came(barriers.arrivals.last(index)),
            landed=self._came(barriers.arrivals.last(index, landed=True)),
            came=self._roles(came), counted=self._counted(offset), untold=untold(self.names),
            ended=ended(self.machine, cta, came),
        )  # fmt: skip

    def _counted(self, offset: int) -> str:
        """Where the count of an mbarrier is set."""
        sites = _sites(self.names.mbarriers.get(offset))
        places = dict.fromkeys(self._line(site) for site in sites if site.way == "init")
        return ", ".join(list(places)[:3])

    def _named(self, base: Waiting, condition: Passed, slot: int) -> Waiting:
        named, cta = self.machine.named, slot % self.machine.shape.ctas
        number = int(condition.numbers[np.searchsorted(condition.slots, slot)])
        key = (cta, number)
        came = [s // self.machine.shape.ctas for s in named.came.get(key, [])]
        return replace(
            base, kind="named barrier", on=self.names.named_barrier(number), owner=base.cta,
            place=number, phase=int(named.generation[key]), completed=int(named.generation[key]),
            arrived=int(named.arrived[key]), expected=named.needed(key),
            last=self._came(named.last.get(key)), came=self._roles(came),
            ended="" if named.whole[key] else ended(self.machine, cta, came),
        )  # fmt: skip

    def _cluster(self, base: Waiting, slot: int) -> Waiting:
        machine = self.machine
        shape, barriers = machine.shape, machine.cluster_barriers
        cluster = slot % shape.ctas % shape.clusters
        form = (shape.warps, shape.size, shape.clusters, 32)
        came = barriers.arrived.reshape(form)[:, :, cluster]
        alive = machine.alive.reshape(form)[:, :, cluster]
        return replace(
            base, kind="cluster barrier", on="cluster barrier",
            phase=int(barriers.generation[cluster]), completed=int(barriers.generation[cluster]),
            arrived=int(came.sum()), expected=int(alive.sum()),
            came=self._roles(np.flatnonzero(came.any(axis=(1, 2))).tolist()),
        )  # fmt: skip

    def _came(self, arrival: Arrival | None) -> Came | None:
        if arrival is None:
            return None
        instruction = arrival.instruction
        who = "somebody"
        if arrival.lane >= 0:
            slot = arrival.lane // 32
            cta, warp = slot % self.machine.shape.ctas, slot // self.machine.shape.ctas
            role = self.names.role_and_warps([warp])
            who = f"{role} of CTA {self.machine.cta_number(cta)}"
        source = self.names.source(instruction)
        return Came(who, instruction.line, instruction.text, source, arrival.tick, arrival.lane)

    def _roles(self, warps: Sequence[int]) -> tuple[str, ...]:
        by_role: dict[str, list[int]] = defaultdict(list)
        for warp in warps:
            by_role[self.names.role(warp)].append(warp)
        return tuple(self.names.role_and_warps(found) for found in by_role.values())

    # --- who should come -------------------------------------------------------------------------

    def suppliers(self, wait: Waiting) -> list[Supplier]:
        """Who has code that arrives where somebody waits, and has not come."""
        barrier, ways = self._barrier(wait)
        sites = [site for site in _sites(barrier) if site.way in ways]
        found = []
        for role in self.names.roles:
            mine = [site for site in sites if site.index in role.code]
            for cta in self._ctas(wait, role, mine) if mine else ():
                late = set(role.warps) - self._already(wait, cta)
                if late:
                    found.append(Supplier(role, cta, tuple(sorted(late)), tuple(mine)))
        return found

    def _barrier(self, wait: Waiting) -> tuple[Barrier | None, tuple[str, ...]]:
        """What is waited for, and the ways in which what is missing could come."""
        if wait.kind == "mbarrier":
            short = wait.arrived != wait.expected
            ways = ("arrive", "expect", "commit") if short else ("bytes",)
            return self.names.mbarriers.get(wait.place), ways
        if wait.kind == "named barrier":
            return self.names.named_barriers.get(wait.place), ("arrive", "wait")
        return None, ()

    def _ctas(self, wait: Waiting, role: Role, sites: Sequence[Site]) -> list[int]:
        """CTAs from which a role may arrive: the owner, or perhaps any of its cluster."""
        size = self.machine.shape.size
        if not any(REMOTE & set(site.instruction.qualifiers) for site in sites):
            return [wait.owner]
        before = wait.last.lane if wait.last is not None else -1
        slot = before // 32
        commits = any(site.way == "commit" for site in sites)
        if before >= 0 and commits and slot // self.machine.shape.ctas in role.warps:
            return [self.machine.cta_number(slot % self.machine.shape.ctas)]  # one CTA for all
        first = wait.owner // size * size
        return list(range(first, first + size))

    def _already(self, wait: Waiting, cta: int) -> set[int]:
        """Warps of a CTA that have come in the phase that is waited for, or never come there."""
        machine = self.machine
        if wait.kind == "named barrier":
            local = [c for c in range(machine.shape.ctas) if machine.cta_number(c) == cta]
            key = (local[0], wait.place)
            here = {slot // machine.shape.ctas for slot in machine.named.came.get(key, ())}
            parties = {slot // machine.shape.ctas for slot in machine.named.parties.get(key, ())}
            never = set(range(machine.shape.warps)) - parties if wait.completed else set[int]()
            return here | never
        if wait.kind != "mbarrier" or machine.shape.size > 1 or wait.arrived == wait.expected:
            return set()  # warps of the other CTAs are not told apart
        local = [c for c in range(machine.shape.ctas) if machine.cta_number(c) == cta]
        index = local[0] * machine.barriers.slots + wait.place // 8
        return set(machine.barriers.arrivals.came(index))

    def edges(self, waits: Sequence[Waiting]) -> list[list[int]]:
        """For each wait those of whom somebody could end it."""
        found = []
        for wait in waits:
            could = {(s.cta, warp) for s in self.suppliers(wait) for warp in s.late}
            found.append(
                [n for n, w in enumerate(waits) if any((w.cta, i) in could for i in w.warps)]
            )
        return found

    def missing(self, wait: Waiting, waits: Sequence[Waiting]) -> tuple[str, ...]:
        """In words who could still come, and what each does instead."""
        told: dict[tuple[str, str], list[int]] = defaultdict(list)
        for each in self.suppliers(wait):
            there = [w for w in waits if w.cta == each.cta and set(w.warps) & set(each.late)]
            state = f"waits for {there[0].on}" if there else "has ended"
            lines = list(dict.fromkeys(self._line(site) for site in each.sites))
            places = ", ".join(lines[:3]) + (", ..." if len(lines) > 3 else "")
            told[f"{self.names.role_and_warps(list(each.late))} ({places})", state].append(each.cta)
        found = []
        for (who, state), ctas in told.items():
            near = ctas == [wait.cta]
            of = "" if near else f" of {warps_words(ctas).replace('warp', 'CTA')}"
            found.append(f"{who}{of}, which {state}")
        return tuple(found)

    def _line(self, site: Site) -> str:
        if site.location is None:
            return f"PTX line {site.instruction.line}"
        return self.names.source(site.instruction).partition(": ")[0]


def _sites(barrier: Barrier | None) -> Sequence[Site]:
    return barrier.sites if barrier is not None else ()


def _with_warps(wait: Waiting, warps: list[int]) -> Waiting:
    return replace(wait, warps=tuple(sorted(set(warps))))
