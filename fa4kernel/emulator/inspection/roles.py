"""The roles of a kernel: warps that run the same code, and what to call them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from fa4kernel.emulator.inspection.sites import home_of, locations
from fa4kernel.emulator.inspection.sources import Sources
from fa4kernel.emulator.inspection.warps import code_of_warps
from fa4kernel.emulator.ptx.module import Function, Instruction, Location

#: Warps share a role if they share this much of the code that not every warp runs.
ALIKE = 0.75
#: A warp is idle that runs at most so many instructions besides those that all warps run, ...
FEW = 16
#: ... and less than this share of what the busiest warp runs.
IDLE = 0.25
#: Warps of a warpgroup (PTX ISA 9.7.15, wgmma; the TMEM lanes of tcgen05.ld go by the same four).
WARPGROUP = 4


@dataclass(frozen=True)
class Role:
    """Warps that do the same.

    Attributes:
        name: from the function they alone run, if the source can be read.
        warps: their numbers in the CTA.
        code: the instructions that one of them may run, by index.
        own: those of them that no other role runs.
    """

    name: str
    warps: tuple[int, ...]
    code: frozenset[int]
    own: frozenset[int] = frozenset()


def roles_of(function: Function, block: tuple[int, int, int], sources: Sources) -> list[Role]:
    """The roles of a kernel in the order of their first warps.

    Args:
        function: the kernel.
        block: threads of a CTA in x, y, z.
        sources: reads the kernel's source.
    """
    code = code_of_warps(function, block)
    groups = _alike(code)
    names = _names(function, groups, sources)
    found: list[Role] = []
    for (role, own), name in zip(groups, names, strict=True):
        parts = _warpgroups(role.warps) if name else [role.warps]
        for number, warps in enumerate(parts):
            label = name and (f"{name}{number}" if len(parts) > 1 else name)
            found.append(replace(role, name=label or warps_words(warps), warps=warps, own=own))
    found.sort(key=lambda role: role.warps)
    return _told_apart(found)


def _alike(code: Sequence[frozenset[int]]) -> list[tuple[Role, frozenset[int]]]:
    """Groups of warps that run nearly the same, with the code that a group alone runs."""
    common = frozenset.intersection(*code)
    busiest = max(len(each) for each in code)
    groups: list[tuple[list[int], frozenset[int]]] = []
    idle: list[int] = []
    for warp, each in enumerate(code):
        if len(each - common) <= FEW and len(each) < IDLE * busiest:
            idle.append(warp)
            continue
        for warps, others in groups:
            first = code[warps[0]]
            both, either = len((first & each) - common), len((first | each) - common)
            if both >= ALIKE * either:
                warps.append(warp)
                groups[groups.index((warps, others))] = (warps, others | each)
                break
        else:
            groups.append(([warp], each))
    found = []
    for warps, mine in groups:
        others = frozenset[int]().union(*(c for w, c in groups if w is not warps))
        found.append((Role("", tuple(warps), mine), mine - others))
    if idle:
        mine = frozenset[int]().union(*(code[warp] for warp in idle))
        found.append((Role("idle", tuple(idle), mine), frozenset()))
    return found


def _names(
    function: Function, groups: Sequence[tuple[Role, frozenset[int]]], sources: Sources
) -> list[str]:
    """A name for each group out of the functions that it alone runs, or ""."""
    if len(groups) == 1:
        return [""]
    # What has no place of its own does not count: the code before it may be another role's.
    known = zip(function.instructions, locations(function), strict=True)
    places = [place if place is each.location else None for each, place in known]
    holders = [sources.function(place) for place in places]
    home, kernel = home_of(function, sources)
    counts = [Counter((places[i], holders[i]) for i in own) for _, own in groups]
    used = [{holder for _, holder in count} for count in counts]
    names = []
    for (role, own), count in zip(groups, counts, strict=True):
        words: Counter[tuple[bool, str]] = Counter()
        for (place, holder), number in count.items():
            if holder not in ("", kernel) and sum(holder in each for each in used) == 1:
                words[_in(place, home), holder.strip("_").partition("_")[0]] += number
        best = max(words, key=lambda key: (key[0], words[key]), default=(False, ""))
        names.append(role.name or (best[1] if best[0] else _work(function, own)) or best[1])
    return names


def _in(place: Location | None, file: str) -> bool:
    return place is not None and place.file == file


def _work(function: Function, own: frozenset[int]) -> str:
    """What the units do that these instructions set to work, or ""."""
    code = [function.instructions[i] for i in own]
    if any(i.opcode in ("tcgen05", "wgmma") and i.qualifiers[0].startswith("mma") for i in code):
        return "mma"
    copies = [i for i in code if i.opcode == "cp" and i.has("async", "bulk")]
    if any("global" in i.qualifiers and _to_shared(i) for i in copies):
        return "load"
    return "store" if any("bulk_group" in i.qualifiers for i in copies) else ""


def _to_shared(instruction: Instruction) -> bool:
    spaces = [q for q in instruction.qualifiers if q.startswith(("global", "shared"))]
    return spaces[0].startswith("shared")


def _warpgroups(warps: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Warps by warpgroup, where there are several whole ones."""
    by_group: dict[int, list[int]] = {}
    for warp in warps:
        by_group.setdefault(warp // WARPGROUP, []).append(warp)
    if len(by_group) < 2 or any(len(group) < WARPGROUP for group in by_group.values()):
        return [warps]
    return [tuple(group) for group in by_group.values()]


def _told_apart(roles: Sequence[Role]) -> list[Role]:
    """Roles of one name get their warps behind it."""
    times = Counter(role.name for role in roles)
    return [
        replace(role, name=f"{role.name} ({warps_words(role.warps)})")
        if times[role.name] > 1 else role
        for role in roles
    ]  # fmt: skip


def warps_words(warps: Sequence[int]) -> str:
    """Warps in words.

    >>> warps_words([4]), warps_words([0, 1, 2, 3, 8])
    ('warp 4', 'warps 0-3, 8')
    """
    runs: list[list[int]] = []
    for warp in sorted(set(warps)):
        if runs and runs[-1][-1] == warp - 1:
            runs[-1].append(warp)
        else:
            runs.append([warp])
    text = ", ".join(f"{r[0]}-{r[-1]}" if len(r) > 1 else str(r[0]) for r in runs)
    return f"warp{'s' if len(set(warps)) > 1 else ''} {text}"
