"""``--break``: a fault put in on purpose, to see what a broken barrier does."""

from __future__ import annotations

from collections.abc import Iterable

from fa4sim.cli.errors import BadInput
from fa4sim.pipelines.fa4.barriers import barrier_table, parties_of, waiters_of
from fa4sim.specs import FAULT_KINDS, Design, Fault


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


def parse_faults(texts: Iterable[str], design: Design) -> tuple[Fault, ...]:
    """The faults for ``design``. Raises a usage failure for one that would break nothing."""
    faults = tuple(parse_fault(text) for text in texts)
    for fault in faults:
        _check(fault, design)
    return faults


def _check(fault: Fault, design: Design) -> None:
    table = {name: spec for name, spec in barrier_table(design).items() if spec.used}
    if fault.barrier not in table:
        raise BadInput(
            f"this design uses no barrier {fault.barrier!r}; it uses {', '.join(sorted(table))}"
        )
    spec = table[fault.barrier]
    if fault.kind == "swap_slots":
        if fault.barrier != "load_KV_full":
            raise BadInput(
                "swap_slots exchanges slots of the K/V ring; its barrier is load_KV_full, "
                f"not {fault.barrier!r}"
            )
        if design.kv_stages < 3:
            raise BadInput(
                "swap_slots exchanges a slot with the next but one, so it needs 3 slots or more, "
                f"not kv_stages={design.kv_stages}"
            )
    if fault.stage is not None and fault.stage >= spec.stages:
        raise BadInput(
            f"{fault.barrier} has stages 0 to {spec.stages - 1} in this design, not {fault.stage}"
        )
    if fault.role is None:
        return
    stages = range(spec.stages) if fault.stage is None else (fault.stage,)
    if fault.kind == "drop_arrival":
        roles = {role: None for stage in stages for role in parties_of(spec, stage)}
        verb = "arrive at"
    elif fault.kind == "drop_wait":
        roles = {role: None for stage in stages for role in waiters_of(spec, stage)}
        verb = "wait for"
    else:
        raise BadInput(f"{fault.kind} concerns the barrier, not a role; leave {fault.role!r} out")
    if fault.role not in roles:
        raise BadInput(
            f"{fault.role!r} does not {verb} {fault.barrier}; {', '.join(roles)} "
            f"{'do' if len(roles) > 1 else 'does'}"
        )
