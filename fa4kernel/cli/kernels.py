"""What ``inspect`` tells about a kernel: as plain data, and in words."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

from fa4kernel.emulator.inspection.barriers import SIZE, Barrier
from fa4kernel.emulator.inspection.report import Kernel
from fa4kernel.emulator.inspection.roles import warps_words
from fa4kernel.emulator.inspection.sites import ARRIVALS
from fa4sim.cli.output import table

MOST_MIX = 24
MOST_LINES = 3


def kernel_words(kernel: Kernel) -> str:
    """A kernel over several paragraphs."""
    parts = [
        _head(kernel),
        _parameters(kernel),
        _roles(kernel),
        _barriers("mbarriers", kernel.mbarriers, kernel),
        _barriers("named barriers", kernel.named_barriers, kernel),
        _mix(kernel),
        _refused(kernel),
    ]
    return "\n\n".join(part for part in parts if part)


def _head(kernel: Kernel) -> str:
    module, threads = kernel.module, kernel.block[0] * kernel.block[1] * kernel.block[2]
    known = "" if kernel.block_is_known else " (assumed: the text doesn't say)"
    lines = [
        f"kernel {kernel.name}",
        f"  PTX {module.version} for {module.target}, "
        f"{len(kernel.function.instructions):,} instructions",
        f"  {threads} threads a CTA{known}",
    ]
    if kernel.cluster:
        lines.append(f"  clusters of {kernel.cluster}")
    said = {k: v for k, v in kernel.function.directives.items() if k != "reqntid"}
    if said:
        words = (f".{name} {', '.join(map(str, v))}" for name, v in said.items())
        lines.append(f"  directives: {'; '.join(words)}")
    static = sum(v.size for v in kernel.shared if v.size is not None)
    dynamic = any(v.size is None for v in kernel.shared)
    shared = [f"{static:,} bytes static"] if static else []
    shared += [f"{kernel.dynamic_bytes:,} bytes dynamic or more"] if dynamic else []
    lines.append(f"  shared memory: {', '.join(shared) or 'none'}")
    if kernel.tmem_columns:
        columns = ", ".join(str(c) if c else "?" for c in kernel.tmem_columns)
        lines.append(f"  tensor memory: {columns} columns allocated")
    return "\n".join(lines)


def _parameters(kernel: Kernel) -> str:
    if not kernel.parameters:
        return "no parameters"
    rows = []
    for p in kernel.parameters:
        lines = [*p.loads, *p.stores] or [line for field in p.fields for line in field.lines]
        rows.append([str(p.index), str(p.offset), str(p.size), p.words, _some(lines)])
    head = ["parameter", "offset", "bytes", "seems to be", "PTX lines"]
    return table(head, rows, ["seems to be", "PTX lines"])


def _roles(kernel: Kernel) -> str:
    rows = []
    for role in kernel.roles:
        registers = ", ".join(map(str, kernel.registers_of(role)))
        rows.append([role.name, warps_words(role.warps), f"{len(role.code):,}", registers])
    head = ["role", "warps", "instructions", "setmaxnreg"]
    return table(head, rows, ["role", "warps"])


def _barriers(title: str, barriers: Sequence[Barrier], kernel: Kernel) -> str:
    named = title.startswith("named")
    rows = []
    for first, last in _runs(barriers):
        alone = first is last
        place = str(first.place) if named else f"{first.place:#x}"
        if named and not alone:
            place += f"-{last.place}"  # a number in a register may be any of these
        stages = "" if named else str((last.place - first.place) // SIZE + 1)
        rows.append(
            [
                first.name if alone else first.family,
                place,
                stages,
                "?" if first.count is None else str(first.count),
                _who(first, kernel, ("wait",)),
                _who(first, kernel, ARRIVALS),
            ]
        )
    if not rows:
        return ""
    known = any(site.location is not None for each in barriers for site in each.sites)
    lines = "(source lines)" if known else "(PTX lines)"
    who = [f"waited for by {lines}", f"arrived on by {lines}"]
    head = [title, "at", "stages", "arrivals", *who]
    if named:
        head[3] = "threads"
        head, rows = [h for h in head if h != "stages"], [r[:2] + r[3:] for r in rows]
    return table(head, rows, [title, *who])


def _runs(barriers: Sequence[Barrier]) -> Iterator[tuple[Barrier, Barrier]]:
    """First and last of each run of a family."""
    start = 0
    for i, barrier in enumerate(barriers):
        following = barriers[i + 1] if i + 1 < len(barriers) else None
        if following is None or following.family != barrier.family or (
            following.count != barrier.count
        ):  # fmt: skip
            yield barriers[start], barrier
            start = i + 1


def _who(barrier: Barrier, kernel: Kernel, ways: Sequence[str]) -> str:
    """Roles that touch a barrier in these ways, with their lines."""
    found = []
    for role in kernel.roles:
        sites = [s for s in barrier.sites if s.way in ways and s.index in role.code]
        if sites:
            lines = dict.fromkeys(
                str(s.location.line if s.location is not None else s.instruction.line)
                for s in sites
            )
            found.append(f"{role.name} ({_some(lines)})")
    return ", ".join(found) or "-"


def _some(items: Any) -> str:
    words = [str(item) for item in dict.fromkeys(items)]
    return ", ".join(words[:MOST_LINES]) + (", ..." if len(words) > MOST_LINES else "")


def _mix(kernel: Kernel) -> str:
    items = list(kernel.mix.items())
    words = [f"{name} {count}" for name, count in items[:MOST_MIX]]
    more = f", and {len(items) - MOST_MIX} kinds more" if len(items) > MOST_MIX else ""
    return f"instructions: {', '.join(words)}{more}"


def _refused(kernel: Kernel) -> str:
    if not kernel.refused:
        return "every instruction is supported by the emulator"
    lines = [f"not supported by the emulator ({len(kernel.refused)}):"]
    return "\n".join([*lines, *(f"  {each}" for each in kernel.refused)])


def kernel_facts(kernel: Kernel) -> dict[str, Any]:
    """A kernel as plain data."""
    return {
        "name": kernel.name,
        "version": kernel.module.version,
        "target": kernel.module.target,
        "instructions": len(kernel.function.instructions),
        "block": kernel.block if kernel.block_is_known else None,
        "cluster": kernel.cluster,
        "directives": kernel.function.directives,
        "shared": [
            {"name": v.name, "bytes": v.size, "align": v.align} for v in kernel.shared
        ],
        "dynamic_shared_bytes_at_least": kernel.dynamic_bytes,
        "tmem_columns": kernel.tmem_columns,
        "parameters": [
            {**dataclasses.asdict(p), "seems_to_be": p.words} for p in kernel.parameters
        ],
        "roles": [
            {
                "name": role.name, "warps": role.warps, "instructions": len(role.code),
                "setmaxnreg": kernel.registers_of(role),
            }
            for role in kernel.roles
        ],
        "mbarriers": [_barrier_facts(b, kernel) for b in kernel.mbarriers],
        "named_barriers": [_barrier_facts(b, kernel) for b in kernel.named_barriers],
        "mix": kernel.mix,
        "unsupported": [dataclasses.asdict(each) for each in kernel.refused],
    }  # fmt: skip


def _barrier_facts(barrier: Barrier, kernel: Kernel) -> dict[str, Any]:
    return {
        "name": barrier.name,
        "place": barrier.place,
        "count": barrier.count,
        "sites": [
            {
                "way": site.way,
                "line": site.instruction.line,
                "source": None if site.location is None else str(site.location),
                "roles": [role.name for role in kernel.roles if site.index in role.code],
            }
            for site in barrier.sites
        ],
    }
