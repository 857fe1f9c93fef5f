"""What two accesses that meet are to each other, in words."""

from __future__ import annotations

from fa4kernel.emulator.checks.hazard import KINDS
from fa4kernel.emulator.checks.records import Event


def harmless(first: Event, second: Event) -> bool:
    """Atomics among themselves, and accesses to parts of one piece, which may be different."""
    return (first.strong and second.strong) or (first.size < 4 and second.size < 4)


def sentence(kind: str, first: Event | None, second: Event) -> str:
    """What happened, in words."""
    who = f"the {second.agent}" if second.agent else "the second"
    if first is None:
        return KINDS[kind][1]
    other = f"the {first.agent}" if first.agent else "the first"
    return {
        "read-before-write": f"{who} reads what {other} writes; nothing says that it is written",
        "overwrite-while-read": f"{who} overwrites what {other} reads; nothing says it is read",
        "overwrite-while-written": f"{who} overwrites what {other} writes, in no order",
        "missing-proxy-fence": f"{who} follows what {other} wrote, with no proxy fence between",
    }.get(kind, KINDS[kind][1])
