"""What can go wrong in a pipeline, and how it is told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fa4sim.trace import Trace


@dataclass(frozen=True)
class Hazard:
    """Two things that must not happen together, or an arrival that does not belong.

    ``barrier`` is the one that should have kept them apart; ``by`` did it, ``other`` suffers.
    ``kind`` is one of ``read_before_full``, ``overwrite_while_read``, ``tmem_alias``,
    ``missing_arrival``, ``surplus_arrival``, ``phase_behind``, ``unobserved_phase``,
    ``stale_tile``, ``wrong_count``.
    """

    kind: str
    barrier: str
    stage: int
    cta: int
    by: str
    other: str
    tile: int
    block: int
    cycle: int
    message: str

    def __str__(self) -> str:
        return (
            f"cycle {self.cycle}: {self.kind} at {self.barrier}[{self.stage}] of CTA "
            f"{self.cta}: {self.message}"
        )


@dataclass(frozen=True)
class Waiting:
    """One warp that stands still at a deadlock.

    ``phase`` is how many phases of the barrier it waits to have completed; ``arrivals`` of the
    ``expected`` ones have been made in the phase in progress.
    """

    role: str
    warp: int
    cta: int
    barrier: str
    stage: int
    phase: int
    arrivals: int
    expected: int
    missing_from: tuple[str, ...]
    tx_bytes: int
    since: int

    def __str__(self) -> str:
        bytes_left = f", {self.tx_bytes} bytes outstanding" if self.tx_bytes else ""
        who = f"; still to arrive: {', '.join(self.missing_from)}" if self.missing_from else ""
        return (
            f"{self.role} (warp {self.warp}, CTA {self.cta}) waits for {self.barrier}"
            f"[{self.stage}] phase {self.phase}: {self.arrivals} of {self.expected} arrivals"
            f"{bytes_left}{who}, since cycle {self.since}"
        )


class Deadlock(RuntimeError):
    """Nothing can happen any more and roles still wait.

    ``waiting`` lists them; ``ring`` the roles that wait for each other in a circle, if they do;
    ``suspects`` the barriers whose arrivals do not match what the roles should have made by
    where they stand, most suspicious first; ``hazards`` what was reported before; ``trace`` what
    happened up to there.
    """

    def __init__(
        self,
        at: int,
        waiting: Sequence[Waiting],
        ring: Sequence[str],
        suspects: Sequence[str],
        hazards: Sequence[Hazard],
        why: Sequence[str] = (),
        trace: Trace | None = None,
    ) -> None:
        self.trace = trace
        self.at = at
        self.waiting = tuple(waiting)
        self.ring = tuple(ring)
        self.suspects = tuple(suspects)
        self.hazards = tuple(hazards)
        self.why = tuple(why)
        lines = [f"deadlock at cycle {at}: nothing can happen any more"]
        lines += [f"  {who}" for who in self.waiting]
        if self.ring:
            lines.append(f"  they wait in a circle: {' -> '.join(self.ring)}")
        lines += [f"  {line}" for line in self.why]
        lines += [f"  before that: {hazard}" for hazard in self.hazards[:8]]
        super().__init__("\n".join(lines))


class HazardError(RuntimeError):
    """A run that finished but broke the rules on the way; ``hazards`` says where."""

    def __init__(self, hazards: Sequence[Hazard]) -> None:
        self.hazards = tuple(hazards)
        head = f"{len(self.hazards)} hazard{'s' if len(self.hazards) != 1 else ''}"
        super().__init__("\n".join([head, *(f"  {hazard}" for hazard in self.hazards[:20])]))
