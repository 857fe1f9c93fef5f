"""Faults put into a design on purpose, to see what a broken barrier does."""

from __future__ import annotations

from dataclasses import dataclass

from fa4sim.specs.checks import one_of, whole, word

FAULT_KINDS = ("drop_arrival", "drop_wait", "count_plus_one", "count_minus_one", "swap_slots")

#: Kinds that concern arrivals or waits, and so may be narrowed to one role.
_OF_ROLES = ("drop_arrival", "drop_wait")

#: The barrier whose waiter reads the slots that ``swap_slots`` exchanges.
_RING_BARRIER = "load_KV_full"


@dataclass(frozen=True)
class Fault:
    """One thing broken at one barrier.

    ``drop_arrival`` removes the arrivals of ``role`` (of everyone, if not given), ``drop_wait``
    its waits, ``count_plus_one`` and ``count_minus_one`` change the count the barrier is
    initialised with; ``swap_slots`` exchanges slot ``stage`` of the K/V ring (0 if not given) with
    the next but one, for the reader only. ``stage`` narrows the others to one stage.

    Raises ``ValueError`` for an unknown kind and for what no design could have; whether a design
    has this barrier, stage and role is checked where the design is built.

    >>> Fault("drop_arrival", "S_full", stage=1)
    Fault(kind='drop_arrival', barrier='S_full', stage=1, role=None)
    """

    kind: str
    barrier: str
    stage: int | None = None
    role: str | None = None

    def __post_init__(self) -> None:
        one_of("fault kind", self.kind, FAULT_KINDS)
        word("fault barrier", self.barrier, "the name of a barrier, as 'S_full'")
        if self.stage is not None:
            stage = whole("fault stage", self.stage)
            if stage < 0:
                raise ValueError(
                    f"fault stage={stage} must be 0 or more; leave it out (None) for every stage"
                )
            object.__setattr__(self, "stage", stage)
        if self.role is not None:
            word("fault role", self.role, "the name of a role, as 'softmax0', or None for all")
        if self.role is not None and self.kind not in _OF_ROLES:
            raise ValueError(
                f"{self.kind} concerns the barrier, not a role; leave role {self.role!r} out"
            )
        if self.kind == "swap_slots" and self.barrier != _RING_BARRIER:
            raise ValueError(
                f"swap_slots exchanges slots of the K/V ring; its barrier is {_RING_BARRIER}, not "
                f"{self.barrier!r}"
            )
