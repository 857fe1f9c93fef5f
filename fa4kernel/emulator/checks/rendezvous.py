"""Named barriers and cluster barriers: all who take part learn what the others knew."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fa4kernel.emulator.checks.actors import warps_of
from fa4kernel.emulator.checks.clocks import WHOLE, Index, Table
from fa4kernel.emulator.checks.hazard import KINDS, Place
from fa4kernel.emulator.checks.reports import cta_number, party
from fa4kernel.emulator.machine.convoy import Convoy
from fa4kernel.emulator.ptx.module import Instruction

if TYPE_CHECKING:
    from fa4kernel.emulator.checks.state import State

#: Named barriers of a CTA.
COUNT = 16


class RendezvousChecks:
    """What is handed on at barriers of warps.

    Clocks are kept for the generations of each parity; nobody can be two generations behind.
    """

    def __init__(self, state: State) -> None:
        self.state = state
        self.machine = state.machine
        self.clocks = state.clocks
        shape = self.machine.shape
        self.given = Table(self.clocks, 2 * COUNT * shape.ctas)
        self._generation = np.full(2 * COUNT * shape.ctas, -1, np.int64)
        self._component: dict[int, int] = {}
        self.cluster_given = Table(self.clocks, 2 * shape.clusters)
        self._cluster_generation = np.full(2 * shape.clusters, -1, np.int64)

    def _generations(self, ctas: Index, numbers: NDArray[np.int64]) -> Index:
        """The component "generations known complete" of named barriers."""
        ranks = self.machine.rank_of(ctas)
        keys = ranks * COUNT + numbers
        for key in np.unique(keys):
            if int(key) not in self._component:
                self._component[int(key)] = self.clocks.components((True,))
        return np.array([self._component[int(k)] for k in keys])

    def arrive(
        self, slots: Index, numbers: NDArray[np.int64], generations: NDArray[np.int64],
        instruction: Instruction,
    ) -> None:  # fmt: skip
        """Warps come to named barriers, in these generations of them."""
        ctas = self.machine.ctas_of(slots)
        component = self._generations(ctas, numbers)
        known = self.clocks.known[WHOLE, slots, component]
        event = self.state.event(instruction, slots)
        for i in np.flatnonzero(known < generations):
            place = Place("named barrier", cta_number(self.machine, int(ctas[i])),
                          int(numbers[i]), int(numbers[i]))  # fmt: skip
            self.state.reports.add(
                "early-phase", KINDS["early-phase"][1], None,
                party(self.machine, event, int(i)), place,
            )  # fmt: skip
        keys = 2 * (ctas * COUNT + numbers) + (generations & 1)
        self._fresh(self.given, self._generation, keys, generations)
        self.given.join(keys, self.clocks.release(slots, WHOLE))

    @staticmethod
    def _fresh(
        table: Table, latest: NDArray[np.int64], keys: Index, generations: NDArray[np.int64]
    ) -> None:
        """Forget what was given to the generation two before."""
        old = np.unique(keys[latest[keys] != generations])
        if len(old):
            table.rows[old] = 0
            latest[keys] = generations

    def passed(
        self, slots: Index, numbers: NDArray[np.int64], generations: NDArray[np.int64]
    ) -> None:
        """Warps go on after the barrier; their lanes have met as well."""
        ctas = self.machine.ctas_of(slots)
        component = self._generations(ctas, numbers)
        keys = 2 * (ctas * COUNT + numbers) + (generations & 1)
        given = self.given.rows[keys]
        at = np.arange(len(slots))
        given[at, component] = np.maximum(given[at, component], generations + 1)
        self.clocks.acquire(slots, WHOLE, given)
        self.clocks.merge(slots)

    # --- clusters --------------------------------------------------------------------------

    def cluster_arrive(self, convoy: Convoy, relaxed: bool) -> None:
        """``barrier.cluster.arrive``, before the machine counts it."""
        warps = warps_of(self.machine, convoy)
        cluster = self.machine.ctas_of(warps.slots) % self.machine.shape.clusters
        generation = self.machine.cluster_barriers.generation[cluster]
        keys = 2 * cluster + (generation & 1)
        self._fresh(self.cluster_given, self._cluster_generation, keys, generation)
        given = self.clocks.release(warps.slots, warps.part)
        if relaxed:
            given = self.state.fences.given_relaxed(warps, given)
        self.cluster_given.join(keys, given)

    def cluster_passed(self, convoy: Convoy) -> None:
        """``barrier.cluster.wait`` is over."""
        warps = warps_of(self.machine, convoy)
        _, leaders = convoy.warps()
        cluster = self.machine.ctas_of(warps.slots) % self.machine.shape.clusters
        generation = self.machine.cluster_barriers.waits_for[leaders] - 1
        given = self.cluster_given.rows[2 * cluster + (generation & 1)]
        self.clocks.acquire(warps.slots, warps.part, given)
        if not isinstance(warps.part, np.ndarray) and warps.part == WHOLE:
            self.clocks.merge(warps.slots)
