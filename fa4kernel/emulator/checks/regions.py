"""What lies where, so that reports can name it: slots that copies fill, columns that MMAs use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fa4kernel.emulator.checks.footprints import COLUMNS, accumulator, packed_a
from fa4kernel.emulator.machine.products import Operation

if TYPE_CHECKING:
    from fa4kernel.emulator.machine.machine import Machine

Span = tuple[int, int]


class Regions:
    """Learns from copies and MMAs as they are issued; names are made when a report asks."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._slots: dict[Span, int] = {}
        self._products: dict[int, Operation] = {}

    def loaded(self, offset: int, size: int, barrier: int) -> None:
        """A copy fills ``size`` bytes from ``offset`` on and signals the barrier at an offset."""
        self._slots[offset, offset + size - 1] = barrier

    def multiplied(self, operations: Sequence[Operation]) -> None:
        """MMAs sum up, perhaps from first factors in tensor memory."""
        for operation in operations:
            self._products[id(operation)] = operation

    def name(self, space: str, first: int, last: int) -> str:
        """What bytes of shared memory or columns of tensor memory belong to, or ""."""
        if space == "shared":
            inside = [
                barrier for (low, high), barrier in self._slots.items()
                if low <= last and first <= high
            ]  # fmt: skip
            names = {self._slot(barrier) for barrier in inside}
        else:
            names = {
                name for (low, high), name in self._columns().items()
                if low <= last and first <= high
            }  # fmt: skip
        return " and ".join(sorted(names - {""}))

    def _slot(self, barrier: int) -> str:
        names = self._machine.names
        family, stage = names.mbarrier_parts(barrier)
        if family.startswith("mbarrier@"):
            return ""
        return f"{names.labels.ring(family).name}[{stage}]"

    def _columns(self) -> dict[Span, str]:
        """Accumulators and first factors that the launch's labels name."""
        labels = self._machine.launch.labels
        families: dict[str, set[Span]] = {}
        for operation in self._products.values():
            found = [(labels.product(operation.a_in_tmem), accumulator(operation))]
            if operation.a_in_tmem:
                found.append((labels.factor, packed_a((operation,))))
            for family, footprint in found if labels.products else ():
                columns = footprint.own % COLUMNS
                span = int(columns.min()), int(columns.max())
                families.setdefault(family, set()).add(span)
        return {
            span: f"{family}[{stage}]"
            for family, spans in families.items()
            for stage, span in enumerate(merged(spans))
        }


def merged(spans: set[Span]) -> list[Span]:
    """Ranges that touch or overlap put together, in order.

    >>> merged({(8, 15), (0, 7), (32, 39)})
    [(0, 15), (32, 39)]
    """
    found: list[Span] = []
    for low, high in sorted(spans):
        if found and low <= found[-1][1] + 1:
            found[-1] = found[-1][0], max(high, found[-1][1])
        else:
            found.append((low, high))
    return found
