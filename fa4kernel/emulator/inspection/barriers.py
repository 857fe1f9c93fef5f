"""The barriers of a kernel: where they are, what completes them, and what to call them."""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from fa4kernel.emulator.errors import source_line
from fa4kernel.emulator.inspection.calls import name_in_call, plain
from fa4kernel.emulator.inspection.sites import ARRIVALS, Site
from fa4kernel.emulator.inspection.sources import Sources

#: Named barriers of a CTA (PTX ISA 9.7.13.1).
NAMED = 16
#: Variables whose names tell nothing.
MEANINGLESS = frozenset(("obj", "result", "ret", "out", "self"))
#: An mbarrier is one 64-bit word (PTX ISA 9.7.13.15.1).
SIZE = 8


@dataclass(frozen=True)
class Barrier:
    """An mbarrier, or (``count`` in threads) a named barrier.

    Attributes:
        place: offset in shared memory, or number of the named barrier.
        family: what the source calls it, or it and others of the same ring.
        stage: which of the family it is, from 0; None if it is the only one.
        count: arrivals that complete a phase; None if the text doesn't tell.
        sites: the instructions that touch it, those of which it isn't sure included.
    """

    place: int
    family: str
    stage: int | None
    count: int | None
    sites: tuple[Site, ...]

    @property
    def name(self) -> str:
        """The family's name with the stage."""
        return self.family if self.stage is None else f"{self.family}[{self.stage}]"

    def lines(self, *ways: str) -> list[str]:
        """Source lines (or else PTX lines) of the sites of these ways, each once."""
        return list(dict.fromkeys(line_of(s) for s in self.sites if s.way in ways))


def line_of(site: Site) -> str:
    """Where a site is, as short as can be."""
    if site.location is None:
        return f"PTX line {site.instruction.line}"
    return source_line(site.location)


def mbarriers(sites: Sequence[Site], sources: Sources) -> dict[int, Barrier]:
    """The mbarriers by offset, those that are initialised at a known place."""
    counts = {
        site.place.base: site.count for site in sites if site.way == "init" and site.place.exact
    }
    offsets = sorted(counts)
    touching = _spread(sites, offsets, counts, sources)
    names = {offset: _best(touching[offset], sources) for offset in offsets}
    return _families(names, "mbarrier@{:#x}", counts, touching)


def named_barriers(sites: Sequence[Site], sources: Sources) -> dict[int, Barrier]:
    """The named barriers by number; one whose number is in a register may be any free one."""
    touching: dict[int, list[Site]] = defaultdict(list)
    fixed = {site.place.base for site in sites if site.place.exact}
    for site in sites:
        last = site.place.base if site.place.exact else NAMED - 1
        for number in range(site.place.base, last + 1):
            if site.place.exact or number not in fixed:
                touching[number].append(site)
    counts: dict[int, int | None] = {}
    for number in sorted(touching):
        said = {site.count for site in touching[number]} - {None}
        counts[number] = said.pop() if len(said) == 1 else None
    names = {number: _best(touching[number], sources) for number in counts}
    if 0 in names and names[0] is None:
        names[0] = "CTA barrier"
    return _families(names, "named barrier {}", counts, touching)


def _spread(
    sites: Sequence[Site],
    offsets: Sequence[int],
    counts: Mapping[int, int | None],
    sources: Sources,
) -> dict[int, list[Site]]:
    """For each barrier the sites that touch it.

    A site whose place is known but for a multiple belongs to a ring: to the barriers from there
    on that expect as many arrivals, up to one that is called something else.
    """
    found: dict[int, list[Site]] = {offset: [] for offset in offsets}
    for site in sites:
        if site.place.base in found:
            found[site.place.base].append(site)
    fixed = {offset: _names(there, sources) for offset, there in found.items()}
    starts: dict[int, set[str | None]] = defaultdict(set)
    rings = [s for s in sites if not s.place.exact and s.place.base in found]
    for site in rings:
        starts[site.place.base].add(_name(site, sources))
    for site in rings:
        name = _name(site, sources)
        step = site.place.step if site.place.step % SIZE == 0 else SIZE
        offset = site.place.base + step
        while offset in found and counts[offset] == counts[site.place.base]:
            others = {*fixed[offset], *starts.get(offset, ())}
            if others and (name is None or name not in others):
                break
            found[offset].append(site)
            offset += step
    return found


def _name(site: Site, sources: Sources) -> str | None:
    """What one site calls its barrier. A borrowed location says nothing about that."""
    if site.location is not site.instruction.location:
        return None
    for file, call in sources.calls(site.location):
        if site.way == "init":
            target = file.targets.get(call)
            name = None if target is None else plain(ast.unparse(target))
            name = None if name in MEANINGLESS else name
        else:
            name = name_in_call(call, site.way in ARRIVALS)
        if name is not None:
            return name
    return None


def _names(sites: Iterable[Site], sources: Sources) -> Counter[str]:
    found = Counter(_name(site, sources) for site in sites if site.way != "init")
    return Counter({name: count for name, count in found.items() if name is not None})


def _best(sites: Sequence[Site], sources: Sources) -> str | None:
    """The name that most sites give: best one with a side, then one without a method's name.

    That of the initialisation is taken only if there is no other.
    """
    names = _names(sites, sources)
    if names:
        return max(names, key=lambda name: (_worth(name), names[name]))
    first = [_name(site, sources) for site in sites if site.way == "init"]
    return next((name for name in first if name is not None), None)


def _worth(name: str) -> int:
    owner, _, last = name.rpartition(".")
    if owner and last in ("full", "empty"):
        return 3 if owner.endswith("_handle") else 4
    return 1 if owner else 2


def _families(
    names: Mapping[int, str | None],
    otherwise: str,
    counts: Mapping[int, int | None],
    touching: Mapping[int, Sequence[Site]],
) -> dict[int, Barrier]:
    members: dict[str, list[int]] = defaultdict(list)
    for place, name in sorted(names.items()):
        first = min([s.place.base for s in touching[place] if not s.place.exact], default=place)
        members[name or otherwise.format(first)].append(place)
    found = {}
    for family, places in members.items():
        for stage, place in enumerate(places):
            number = stage if len(places) > 1 else None
            sites = tuple(touching[place])
            found[place] = Barrier(place, family, number, counts[place], sites)
    return dict(sorted(found.items()))
