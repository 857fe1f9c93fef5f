"""The sections "Outputs" and "Order of events" of docs/validation/h200.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fa4kernel.bench.barrier_order import check
from fa4kernel.bench.markdown import table
from fa4kernel.bench.outputs import CASES, Difference, digest, hold
from fa4kernel.bench.stored_traces import Measured
from fa4kernel.emulator.emulate import ARITHMETIC

Held = Mapping[str, Mapping[str, Difference]]  # by case and arithmetic


def held() -> Held:
    """Every case in the emulator, both ways; needs the DSL."""
    return {case.name: {how: hold(case, how) for how in ARITHMETIC} for case in CASES}


def outputs_section(found: Held, about: Mapping[str, Any]) -> str:
    """The page's section on outputs."""
    rows = []
    for case in CASES:
        both = found[case.name]
        one = both["faithful"]
        rows.append(
            (
                case.name,
                f"{one.elements:,}",
                *(f"{both[how].differing:,}, {both[how].largest:.1e}" for how in ARITHMETIC),
                f"{one.lse_differing:,}, {one.lse_largest:.1e}",
                "the same" if digest(case.ptx) == about["digests"][case.name] else "changed since",
            )
        )
    exact = [found[case.name]["faithful"] for case in CASES if case.whole]
    rest = [found[case.name]["faithful"] for case in CASES if not case.whole]
    equal = all(each.differing == 0 for each in exact)
    elements, differing = (
        sum(getattr(each, what) for each in rest) for what in ("elements", "differing")
    )
    head = (
        "case", "elements of O", *(f'"{how}": differ, by at most' for how in ARITHMETIC),
        "LSE: differ, by at most", "PTX",
    )  # fmt: skip
    return f"""
## Outputs

The same PTX and the same numbers on the {about["device"]} (driver {about["driver"]},
{about["date"]}) and in the emulator, two CTAs, element by element. "faithful" rounds products as
the tensor cores do. What it models only as well as the manual promises is 2^x, 1/x and log2 x of
the special-function unit ([the emulator](../emulator.md)); with whole scores every 2^x is exact.

{table(head, rows)}
- With whole scores O is {"**the same bit for bit**" if equal else "NOT the same"} in
  {sum(each.elements for each in exact):,} elements of {len(exact)} cases.
- Of the others' {elements:,} elements {differing:,} differ ({differing / elements:.2%}), by one
  step of a 16-bit number of O's usual size at most: where a 2^x rounded otherwise tips a P or an O.
- LSE (float32) differs in its last bit or two, by log2 x.
"""


def order_section(traces: Sequence[Measured]) -> str:
    """The page's section on the order of barrier events."""
    checked = {each.point.name: check(each.cfg, each.stamps) for each in traces}
    names = sorted({name for each in checked.values() for name in each.edges})
    rows = [
        (
            point,
            *(str(each.edges.get(name, "–")) for name in names),
            str(each.pairs),
            str(len(each.violated)),
        )
        for point, each in checked.items()
    ]
    edges, violated = (
        sum(values)
        for values in zip(
            *((each.pairs, len(each.violated)) for each in checked.values()), strict=True
        )
    )
    return f"""
## Order of events

Whoever waits for a phase of a barrier goes on only when all its arrivals have come. So a stamp
before an arrival must be earlier than a stamp behind the wait; the barrier table and the order of
each role's operations, which the emulator and the simulator are held to as well, say which. Of the
measured stamps, two CTAs with up to two tiles each, {edges:,} such pairs were checked,
{violated} were in the wrong order.

{table(("traced kernel", *names, "pairs", "violated"), rows)}"""
