"""Records of the official kernel on tiny problems, kept as JSON so that tests need no compiler.

    python -m tests.crosscheck.stored

writes them anew; that needs the official package (``make official``). A record holds what the
cross-check's watch saw: barriers, operations, lives and amounts. Scores are left out.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from fa4kernel.crosscheck.cases import Case
from fa4kernel.crosscheck.record import Arrival, BarrierUse, Life, Operation, Record, Warp
from fa4sim.specs import Problem

FOLDER = Path(__file__).with_name("data")
CASES = {
    "one_cta": Case(
        "one CTA, two tiles", Problem(heads=2, seqlen_q=256, seqlen_k=256), {"cta_group": 1}, 1
    ),
}
SEED = 0


def to_json(record: Record) -> str:
    """A record as text, one warp, barrier or life to a line."""
    warps = [
        [*warp, [[o.what, o.on, o.label, o.begin, o.end, o.phase] for o in operations]]
        for warp, operations in sorted(record.warps.items())
    ]
    barriers = [
        [*place, use.kind, use.count, use.completions, sorted(use.waiters),
         [[a.phase, a.count, a.tx_bytes, a.by, a.source, a.time] for a in use.arrivals]]
        for place, use in sorted(record.barriers.items())
    ]  # fmt: skip
    whole = {
        "who": [[record.who, record.clock]],
        "warps": warps,
        "barriers": barriers,
        "done": sorted(record.done.items()),
        "lives": [list(vars(life).values()) for life in record.lives],
        "amounts": sorted(record.amounts.items()),
        "roles": sorted(record.roles.items()),
        "never_used": sorted(record.never_used.items()),
        "faults": [[fault] for fault in record.faults],
    }
    parts = []
    for name, rows in whole.items():
        lines = (json.dumps(row, separators=(",", ":")) for row in rows)
        parts.append(f'"{name}": [\n' + ",\n".join(lines) + "\n]")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def from_json(text: str) -> Record:
    """The record that a text was made from."""
    whole: dict[str, Any] = json.loads(text)
    record = Record(*whole["who"][0])
    for cta, role, lane, operations in whole["warps"]:
        record.warps[Warp(cta, role, lane)] = [
            Operation(what, on, tuple(label), *times) for what, on, label, *times in operations
        ]
    for cta, name, stage, kind, count, completions, waiters, arrivals in whole["barriers"]:
        made = [
            Arrival(phase, number, size, by, (_who(source[0]), source[1]), time)
            for phase, number, size, by, source, time in arrivals
        ]
        use = BarrierUse(kind, count, completions, set(waiters), made)
        record.barriers[cta, name, stage] = use
    record.done = defaultdict(list, {text: times for text, times in whole["done"]})
    for tensor, cta, slot, label, *rest in whole["lives"]:
        record.lives.append(Life(tensor, cta, slot, tuple(label), *rest))
    record.amounts = Counter(dict(whole["amounts"]))
    record.roles = {warp: role for warp, role in whole["roles"]}
    record.never_used = {
        cta: [(name, count) for name, count in found] for cta, found in whole["never_used"]
    }
    record.faults = [fault for (fault,) in whole["faults"]]
    return record


def _who(source: Any) -> Warp | str:
    return source if isinstance(source, str) else Warp(*source)


def stored(name: str) -> Record:
    """A stored record."""
    return from_json((FOLDER / f"{name}.json").read_text(encoding="utf-8"))


def main() -> None:
    """Write all of them."""
    from fa4kernel.crosscheck.check import kernel_of
    from fa4kernel.crosscheck.emulated import emulated
    from fa4kernel.crosscheck.inputs import draw

    FOLDER.mkdir(exist_ok=True)
    for name, case in CASES.items():
        inputs = draw(case.problem, SEED, rising=True)
        kernel = kernel_of("official", case.problem, case.design, case.machine, inputs)
        text = to_json(emulated(kernel).record)
        (FOLDER / f"{name}.json").write_text(text, encoding="utf-8")
        print(f"{name}: {len(text):,} bytes")


if __name__ == "__main__":
    main()
