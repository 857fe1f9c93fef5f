"""Faults put into a design on purpose, to see what a broken barrier does."""

from __future__ import annotations

from dataclasses import dataclass

FAULT_KINDS = ("drop_arrival", "drop_wait", "count_plus_one", "count_minus_one", "swap_slots")


@dataclass(frozen=True)
class Fault:
    """One thing broken at one barrier.

    ``drop_arrival`` removes the arrivals of ``role`` (of everyone, if not given), ``drop_wait``
    its waits, ``count_plus_one`` and ``count_minus_one`` change the count the barrier is
    initialised with; ``swap_slots`` exchanges two slots of the K/V ring for the reader only.
    ``stage`` narrows it to one stage. Raises ``ValueError`` for an unknown kind.

    >>> Fault("drop_arrival", "S_full", stage=1)
    Fault(kind='drop_arrival', barrier='S_full', stage=1, role=None)
    """

    kind: str
    barrier: str
    stage: int | None = None
    role: str | None = None

    def __post_init__(self) -> None:
        if self.kind not in FAULT_KINDS:
            raise ValueError(
                f"fault kind {self.kind!r} is not known; use one of {', '.join(FAULT_KINDS)}"
            )
