"""Who goes next: in lock step, or at random from a seed.

In lock step the convoy at the lowest instruction runs until it waits, which keeps warps and CTAs
together and so is fastest; copies and MMAs complete when nobody can go on. At random, convoys are
torn apart and picked in any order, and copies and MMAs complete at any time that the rules allow.
See `adversary` for orders that delay or hurry something.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fa4kernel.emulator.machine.convoy import Convoy

if TYPE_CHECKING:
    from fa4kernel.emulator.machine.machine import Machine


class Schedule:
    """Lock step."""

    name = "lockstep"
    #: The unit that comes last, see :data:`agents.UNITS`; "" for none.
    last_unit = ""

    def next(self, machine: Machine) -> Convoy:
        """Take the convoy that goes next out of those that are ready."""
        return machine.ready.pop(min(machine.ready))

    def give_way(self, machine: Machine, convoy: Convoy) -> bool:
        """Whether the running convoy is to stop for another."""
        return min(machine.ready) <= convoy.pc

    def completes(self, count: int) -> np.ndarray | None:
        """Which of ``count`` copies under way complete now; None for all."""
        return None

    def impatient(self) -> bool:
        """Whether those go on now that poll, sleep or go round a loop."""
        return False


class RandomSchedule(Schedule):
    """Any order that the rules allow, drawn from a seed."""

    def __init__(self, seed: int) -> None:
        self.name = f"random {seed}"
        self.seed = seed
        self.random = np.random.default_rng(seed)

    def next(self, machine: Machine) -> Convoy:
        """A convoy, or some of its warps, at random."""
        random = self.random
        if machine.agents.busy and random.random() < 0.2:
            machine.agents.advance(machine.schedule)
        if machine.blocked and random.random() < 0.3:
            machine.wake()
        pcs = sorted(machine.ready)
        convoy = machine.ready.pop(pcs[random.integers(len(pcs))])
        slots, _ = convoy.warps()
        if len(slots) > 1 and random.random() < 0.5:
            chosen = random.random(len(slots)) < random.random()
            if chosen.any() and not chosen.all():
                mask = convoy.with_warps(chosen)
                rest = convoy.part(~mask)
                picked = convoy.part(mask)
                assert rest is not None and picked is not None
                machine.put(rest)
                return picked
        return convoy

    def give_way(self, machine: Machine, convoy: Convoy) -> bool:
        """Now and then, and always for one at the same place."""
        return convoy.pc in machine.ready or bool(self.random.random() < 0.1)

    def completes(self, count: int) -> np.ndarray | None:
        """One or more of them, at random."""
        chosen = self.random.random(count) < self.random.random()
        if not chosen.any():
            chosen[self.random.integers(count)] = True
        return chosen

    def impatient(self) -> bool:
        """Half of the times."""
        return bool(self.random.random() < 0.5)
