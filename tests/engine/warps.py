"""Warps whose program a test writes itself, and the barriers they meet at."""

from fa4sim.engine.agent import Agent
from fa4sim.engine.barrier import Barrier
from fa4sim.engine.units import Pressure, SubPartition

RESUME, TRY = 7, 3


class Warp(Agent):
    """A warp that runs ``steps(warp)`` and is started at once."""

    def __init__(self, core, steps, role="mma", warp=0, smsp=None):
        super().__init__(core, 0, 0, role, warp, smsp or SubPartition(warp % 4, Pressure()))
        self.program = steps
        self.begin()

    def run(self):
        yield from self.program(self)
        self.died = self.core.now


def barrier(core, expected=1, parties=None, name="full", stage=0, resume=RESUME, tries=TRY):
    parties = {"load": expected} if parties is None else parties
    return Barrier(core, name, stage, 0, 0, expected, parties, resume, tries)


def at(core, time, action):
    """Do something at a time."""
    core.later(time, action, ("test",))


def kinds(core):
    """What kinds of hazards were reported, in order."""
    return [hazard.kind for hazard in core.hazards]
