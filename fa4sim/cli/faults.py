"""``--break``: a fault put in on purpose, to see what a broken barrier does."""

from __future__ import annotations

from collections.abc import Iterable

from fa4sim.cli.errors import BadInput
from fa4sim.pipelines.choice import barriers_of
from fa4sim.pipelines.fa4.faults import check_fault
from fa4sim.specs import FAULT_KINDS, AnyDesign, Fault


def parse_fault(text: str) -> Fault:
    """``"KIND:BARRIER[:STAGE[:ROLE]]"`` as a fault; an empty stage means every stage.

    >>> parse_fault("drop_arrival:S_full"), parse_fault("drop_wait:S_full:1:softmax1").role
    (Fault(kind='drop_arrival', barrier='S_full', stage=None, role=None), 'softmax1')
    """
    kind, *rest = text.split(":")
    if not 1 <= len(rest) <= 3 or not rest[0]:
        raise BadInput(
            f"{text!r} is not KIND:BARRIER[:STAGE[:ROLE]], as in drop_arrival:S_full:0; "
            f"kinds are {', '.join(FAULT_KINDS)}"
        )
    barrier, stage, role = (*rest, "", "")[:3]
    if stage and not (stage.isascii() and stage.isdigit()):
        raise BadInput(f"{text!r}: stage {stage!r} must be a whole number, or empty for all")
    try:
        return Fault(kind, barrier, int(stage) if stage else None, role or None)
    except ValueError as error:
        raise BadInput(str(error)) from None


def parse_faults(texts: Iterable[str], design: AnyDesign) -> tuple[Fault, ...]:
    """The faults for ``design``. Raises a usage failure for one that would break nothing."""
    faults = tuple(parse_fault(text) for text in texts)
    try:
        for fault in faults:
            check_fault(fault, design, barriers_of(design))
    except ValueError as error:
        raise BadInput(str(error)) from None
    return faults
