"""Whether a fault would break something that a design has."""

from __future__ import annotations

from collections.abc import Mapping

from fa4sim.pipelines.fa4.barriers import BarrierSpec, barrier_table, parties_of, waiters_of
from fa4sim.specs import AnyDesign, Design, Fault


def check_fault(
    fault: Fault, design: AnyDesign, known: Mapping[str, BarrierSpec] | None = None
) -> None:
    """Raise ``ValueError`` for a fault that breaks nothing: no such barrier, stage or role.

    ``known`` are the barriers of the design; FA4's, if not given.

    >>> check_fault(Fault("drop_wait", "S_full", role="load"), Design())
    Traceback (most recent call last):
    ...
    ValueError: 'load' does not wait for S_full; softmax0, softmax1 do
    """
    if known is None:
        assert isinstance(design, Design)
        known = barrier_table(design)
    table = {name: spec for name, spec in known.items() if spec.used}
    if fault.barrier not in table:
        raise ValueError(
            f"this design uses no barrier {fault.barrier!r}; it uses {', '.join(sorted(table))}"
        )
    spec = table[fault.barrier]
    if fault.kind == "swap_slots" and design.kv_stages < 3:
        raise ValueError(
            "swap_slots exchanges a slot with the next but one, so it needs 3 slots or more, "
            f"not kv_stages={design.kv_stages}"
        )
    if fault.stage is not None and fault.stage >= spec.stages:
        raise ValueError(
            f"{fault.barrier} has stages 0 to {spec.stages - 1} in this design, not {fault.stage}"
        )
    if fault.role is None:
        return
    stages = range(spec.stages) if fault.stage is None else (fault.stage,)
    find, verb = (
        (parties_of, "arrive at") if fault.kind == "drop_arrival" else (waiters_of, "wait for")
    )
    roles = {role: None for stage in stages for role in find(spec, stage)}
    if fault.role not in roles:
        raise ValueError(
            f"{fault.role!r} does not {verb} {fault.barrier}; {', '.join(roles)} "
            f"{'do' if len(roles) > 1 else 'does'}"
        )
