"""Orders that delay or hurry one thing as much as the rules allow.

A warp, a CTA or a unit (TMA loads, TMA stores, `cp.async`, tensor cores) that is *delayed* goes on
only when nothing else can; what is *hurried* goes on whenever it can. The rest goes in lock step,
or at random from a seed. What works by luck of timing in most orders tends to fail in one of these.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from fa4kernel.emulator.machine.agents import UNITS
from fa4kernel.emulator.machine.convoy import Convoy
from fa4kernel.emulator.machine.schedule import RandomSchedule, Schedule

if TYPE_CHECKING:
    from fa4kernel.emulator.machine.machine import Machine

#: How an order is written.
FORM = re.compile(
    rf"(?P<way>delay|hurry) (?:(?P<unit>{'|'.join(UNITS)})|(?P<kind>warp|cta) (?P<number>\d+))"
    r"(?: seed (?P<seed>\d+))?"
)
#: What may be given as a schedule, for messages.
WAYS = (
    f"lockstep, a number as a seed, or delay or hurry one of {', '.join(UNITS)}, warp N, cta N, "
    'and "seed S" behind it for the others'
)


def schedule_of(given: str | int, part: int = 0) -> Schedule:
    """The order that somebody asks for.

    Args:
        given: "lockstep", a seed, or "delay tma", "hurry warp 3", "delay tensor seed 7".
        part: of several processes that share the clusters; each has seeds of its own.

    Raises:
        ValueError: it is none of these.

    >>> schedule_of("delay tensor seed 7").name, schedule_of("7").name
    ('delay tensor seed 7', 'random 7')
    >>> schedule_of("delay mma")
    Traceback (most recent call last):
    ValueError: schedule='delay mma': give lockstep, a number as a seed, or delay or hurry one of \
tma, tma_store, cp_async, tensor, wgmma, warp N, cta N, and "seed S" behind it for the others
    """
    text = str(given)
    if text == "lockstep":
        return Schedule()
    if text.isdecimal():
        return RandomSchedule(int(text) + part * 7919)
    found = FORM.fullmatch(text)
    if found is None:
        raise ValueError(f"schedule={given!r}: give {WAYS}")
    seed = found["seed"]
    rest = Schedule() if seed is None else RandomSchedule(int(seed) + part * 7919)
    delay = found["way"] == "delay"
    if found["unit"]:
        return UnitAdversary(text, rest, found["unit"], delay)
    return ThreadAdversary(text, rest, found["kind"], int(found["number"]), delay)


class UnitAdversary(Schedule):
    """Delays or hurries the units of one kind, in all CTAs.

    Args:
        name: how it was asked for.
        rest: the order of everything else.
        unit: one of :data:`agents.UNITS`.
        delay: or hurry.
    """

    def __init__(self, name: str, rest: Schedule, unit: str, delay: bool) -> None:
        self.name = name
        self.rest = rest
        self.last_unit = unit if delay else ""
        self._hurried = "" if delay else unit

    def next(self, machine: Machine) -> Convoy:
        """As the rest has it."""
        if self._hurried and machine.agents.advance(EVERYTHING, self._hurried):
            machine.wake()
        return self.rest.next(machine)

    def give_way(self, machine: Machine, convoy: Convoy) -> bool:
        """At once, so that what was just issued can complete."""
        return bool(self._hurried) or self.rest.give_way(machine, convoy)

    def completes(self, count: int) -> np.ndarray | None:
        """As the rest has it."""
        return self.rest.completes(count)

    def impatient(self) -> bool:
        """As the rest has it."""
        return self.rest.impatient()


class ThreadAdversary(Schedule):
    """Delays or hurries one warp of every CTA, or one CTA of every wave.

    Args:
        name: how it was asked for.
        rest: the order of everything else.
        kind: "warp" or "cta".
        number: which warp, or which CTA among those that run at the same time.
        delay: or hurry.
    """

    def __init__(self, name: str, rest: Schedule, kind: str, number: int, delay: bool) -> None:
        self.name = name
        self.rest = rest
        self._kind = kind
        self._number = number
        self._delay = delay

    def next(self, machine: Machine) -> Convoy:
        """One that isn't late, as long as there is one or can be."""
        late = self._set_aside(machine)
        while not machine.ready and (machine.wake() or machine.agents.advance(machine.schedule)):
            late += self._set_aside(machine)
        if not machine.ready:
            for convoy in late:
                machine.put(convoy)
            late = []
        found = self.rest.next(machine)
        for convoy in late:
            machine.put(convoy)
        return found

    def give_way(self, machine: Machine, convoy: Convoy) -> bool:
        """Those that are late do so always."""
        return bool(self._late(machine, convoy).any()) or self.rest.give_way(machine, convoy)

    def completes(self, count: int) -> np.ndarray | None:
        """As the rest has it."""
        return self.rest.completes(count)

    def impatient(self) -> bool:
        """As the rest has it."""
        return self.rest.impatient()

    def _late(self, machine: Machine, convoy: Convoy) -> np.ndarray:
        """Which of a convoy's warps go last."""
        slots, _ = convoy.warps()
        numbers = machine.warps_of(slots) if self._kind == "warp" else machine.ctas_of(slots)
        chosen = numbers == self._number
        return np.asarray(chosen if self._delay else ~chosen)

    def _set_aside(self, machine: Machine) -> list[Convoy]:
        """Take those that go last out of those that are ready."""
        aside: list[Convoy] = []
        for pc, convoy in list(machine.ready.items()):
            late = self._late(machine, convoy)
            if not late.any():
                continue
            mask = convoy.with_warps(late)
            del machine.ready[pc]
            last, others = convoy.part(mask), convoy.part(~mask)
            if last is not None:
                aside.append(last)
            if others is not None:
                machine.put(others)
        return aside


#: Lets all that is under way complete.
EVERYTHING = Schedule()
