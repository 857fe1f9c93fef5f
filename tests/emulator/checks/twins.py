"""Twins: a small kernel that is right, and one that differs in a word or two and is not."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fa4kernel.emulator import EmulationError, emulate
from fa4kernel.emulator.checks import Hazard
from fa4kernel.emulator.launch import Launch
from tests.emulator.machine.kernels import kernel

#: Thread 0 makes a barrier at the start of shared memory, with so many arrivals.
INIT = """setp.eq.u32 %p9, t, 0;
@%p9 mbarrier.init.shared.b64 [base], {count};
@%p9 fence.mbarrier_init.release.cluster;
bar.sync 0;
"""
#: Wait for the phase of a parity of the barrier at an address.
WAIT = """W{name}: mbarrier.try_wait.parity.shared.b64 %p8, [{at}], {parity};
@!%p8 bra W{name};
"""


def init(count: int) -> str:
    """A barrier."""
    return INIT.format(count=count)


def wait(name: str, parity: int | str, at: str = "base") -> str:
    """A wait; ``name`` keeps labels apart."""
    return WAIT.format(name=name, parity=parity, at=at)


@dataclass(frozen=True)
class Twin:
    """A right kernel, and the change that makes it wrong.

    Attributes:
        kind: of the report that the wrong one gets.
        body: of the right one.
        old, new: what is replaced in it by what.
        threads, ctas, cluster, pending: of the launch.
    """

    kind: str
    body: str
    old: str
    new: str = ""
    threads: int = 64
    ctas: int = 1
    cluster: int = 1
    shared: int = 16384
    pending: tuple[int, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def wrong(self) -> str:
        """The body of the wrong one."""
        assert self.old in self.body
        return self.body.replace(self.old, self.new, 1)

    def kinds(self, body: str, schedule: str | int = "lockstep") -> set[str]:
        """Kinds of all that is found in a body, be it a report or the error that ends the run."""
        found, error = self.run(body, schedule)
        return {h.kind for h in found} | ({error.kind} if error is not None else set())

    def run(
        self, body: str, schedule: str | int = "lockstep"
    ) -> tuple[tuple[Hazard, ...], EmulationError | None]:
        """What the checks report of a body, and the error that ended the run, if one did."""
        memory = [np.zeros(4096, np.uint32), np.zeros(4096, np.uint32)]
        text = kernel(body, len(memory), self.shared)
        launch = Launch((self.ctas, 1, 1), (self.threads, 1, 1), (self.cluster, 1, 1),
                        arguments=memory, pending=self.pending)  # fmt: skip
        try:
            found = emulate(text, launch, schedule=schedule, most_steps=20_000, **self.options)
        except EmulationError as error:
            return error.hazards, error
        return found.hazards, None
