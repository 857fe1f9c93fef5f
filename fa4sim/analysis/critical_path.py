"""The critical path: the chain of causes that ends where the trace ends.

Start at the last thing that happened and ask why it did not happen earlier. A warp that worked
was held up by nothing but its own work. A warp that a barrier woke had waited for the last arrival
on it: the path jumps to whoever made that arrival. An MMA that started the moment the one before
ended was queued behind it; otherwise the MMA warp had just issued it. A tile that landed was queued
behind another tile, or on its way since the load warp asked for it.

Invariant: the segments tile the interval from the trace's start to its end, each one beginning
where the one before ends. Speeding up what is not on the path changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from fa4sim.analysis.causes import TENSOR, TMA_STORE, Causes
from fa4sim.analysis.records import Party, all_records, text_table
from fa4sim.analysis.steady import SteadyState, steady_state
from fa4sim.trace import NONE, RECEIVERS, Trace


@dataclass(frozen=True)
class Segment:
    """One link of the path: ``role`` did ``op`` in ``[start, end)``.

    ``why`` says how this link follows from the one before it in time. ``cta``, ``warp``, ``tile``,
    ``block`` and ``stage`` are those of the record it came from (-1: none), ``busy`` how long a
    unit worked for it: the rest of the segment went by queueing for that unit (-1: not known).
    """

    role: str
    op: str
    start: int
    end: int
    why: str
    cta: int = NONE
    warp: int = NONE
    tile: int = NONE
    block: int = NONE
    stage: int = NONE
    busy: int = NONE

    @property
    def cycles(self) -> int:
        """Its length, in units of the trace's clock."""
        return self.end - self.start

    @property
    def queued(self) -> int:
        """How much of it was queueing for a unit that others used."""
        return max(0, self.cycles - self.busy) if self.busy != NONE else 0


@dataclass(frozen=True)
class CriticalPath:
    """The segments in order of time, and the steady state of the trace if it has one."""

    segments: tuple[Segment, ...]
    steady: SteadyState | None = None

    @property
    def cycles(self) -> int:
        """Length of the whole path."""
        return self.segments[-1].end - self.segments[0].start if self.segments else 0

    def totals(self) -> dict[tuple[str, str], int]:
        """Time on the path by ``(role, op)``, longest first; the sum is :attr:`cycles`."""
        return _totals(self.segments)

    def queued(self) -> dict[tuple[str, str], int]:
        """The part of :meth:`totals` that went by queueing for a unit, where there is any."""
        waited: dict[tuple[str, str], int] = {}
        for segment in self.segments:
            if segment.queued:
                key = (segment.role, segment.op)
                waited[key] = waited.get(key, 0) + segment.queued
        return dict(sorted(waited.items(), key=lambda item: (-item[1], item[0])))

    def within(self, start: int, end: int) -> tuple[Segment, ...]:
        """The part of the path in ``[start, end)``, segments at the edges cut to fit."""
        return tuple(
            _cut(segment, max(segment.start, start), min(segment.end, end))
            for segment in self.segments
            if segment.start < end and segment.end > start
        )

    def per_block(self) -> dict[tuple[str, str], float]:
        """Time on the path per K/V block in the steady state, by ``(role, op)``, longest first.

        The sum is the steady state's period. Raises ``ValueError`` without a steady state.
        """
        if self.steady is None:
            raise ValueError("this trace has no steady state to divide by; give longer keys")
        inside = _totals(self.within(self.steady.start, self.steady.end))
        return {key: cycles / self.steady.blocks for key, cycles in inside.items()}


def critical_path(trace: Trace) -> CriticalPath:
    """Walk back from the last event of ``trace`` along its causes.

    Args:
        trace: any trace; of several CTAs the path follows the one that ends last.

    Returns:
        Segments from the first event to the last, in units of the trace's clock. Of several
        equally good causes the same one is taken every time.

    >>> trace = Trace()
    >>> mma, load = dict(cta=0, role="mma", warp=12), dict(cta=0, role="load", warp=14)
    >>> _ = trace.add("span", **load, op="ask", start=0, end=50)
    >>> _ = trace.add(
    ...     "arrive", cta=0, barrier="ready", stage=0, phase=0, by="load", warp=14, time=50
    ... )
    >>> _ = trace.add("wait", **mma, on="ready", kind="barrier", stage=0, phase=1, start=0, end=70)
    >>> _ = trace.add("span", **mma, op="issue QK", start=70, end=90)
    >>> for segment in critical_path(trace).segments:
    ...     print(segment.start, segment.end, segment.role, segment.op)
    0 50 load ask
    50 70 mma wake ready
    70 90 mma issue QK
    """
    whole = trace.expand()
    try:
        steady = steady_state(whole)
    except ValueError:
        steady = None
    return CriticalPath(tuple(_Walk(whole).run()), steady)


class _Walk:
    """One walk back. ``segments`` grows from the last event to the first."""

    def __init__(self, trace: Trace) -> None:
        self.strings = trace.strings
        self.records = all_records(trace)
        self.causes = Causes(trace, self.records)
        self.origin = int(self.records.start.min(initial=1 << 62))
        self.segments: list[Segment] = []

    def run(self) -> list[Segment]:
        """The path in order of time."""
        if not len(self.records):
            return []
        party, time = self._last_event()
        seen = set()
        while time > self.origin:
            if (party, time) in seen:  # not a trace of one run in order, so don't pretend to know
                self._add(party[2] or "warp", "nothing recorded", self.origin, time, "", NONE)
                break
            seen.add((party, time))
            party, time = self._step(party, time)
        return self.segments[::-1]

    def _last_event(self) -> tuple[Party, int]:
        """What ends last; of several that do, a warp before a unit, the lowest number first."""
        end = int(self.records.end.max())
        last = [
            party
            for party, at in self.records.parties.items()
            if int(self.records.end[at].max()) == end
        ]
        return min(last, key=lambda party: (party[1] == NONE, party)), end

    def _step(self, party: Party, time: int) -> tuple[Party, int]:
        """Explain the time before ``time`` by what ``party`` did; where to go on from there."""
        records = self.records
        record = records.before(party, time)
        if record == NONE:
            self._add(party[2] or "warp", "nothing recorded", self.origin, time, "", NONE)
            return party, self.origin
        start, end = int(records.start[record]), int(records.end[record])
        if end < time:
            role = self.strings[records.role[record]]
            self._add(role, "nothing recorded", end, time, "then", NONE)
            return party, end
        if party[2]:
            return self._through_unit(party, record, time)
        if records.is_wait[record]:
            return self._through_wait(party, record, time)
        role, op = self._names(record)
        self._add(role, op, start, time, "then", record)
        return party, start

    def _through_wait(self, party: Party, record: int, time: int) -> tuple[Party, int]:
        """A warp stood still: go to whoever ended that."""
        start = int(self.records.start[record])
        role, on = self._names(record)
        if int(self.records.phase[record]) == 0:
            # The first wait on something that starts free: it passes without anybody's arrival.
            self._add(role, f"try {on}", start, time, "then", record)
            return party, start
        cause = self.causes.of_wait(record)
        if cause is None or cause.landed > time:
            self._add(role, f"wait {on}", start, time, "the trace doesn't tell for whom", record)
            return party, start
        if cause.landed < start:
            self._add(role, f"try {on}", start, time, "then", record)
            return party, start
        stage = int(self.records.stage[record])
        place = f"{on}[{stage}]" if stage != NONE else on
        self._add(role, f"wake {on}", cause.landed, time, f"{place} complete", record)
        if cause.way:
            self._add(cause.role, cause.way, cause.time, cause.landed, "then", NONE)
        return cause.party, cause.time

    def _through_unit(self, party: Party, record: int, time: int) -> tuple[Party, int]:
        """A unit worked: go to what it did before if it came right behind, else to who asked."""
        records = self.records
        start = int(records.start[record])
        role, op = self._names(record)
        before = records.before(party, start)
        if before != NONE and int(records.end[before]) >= start:
            self._add(role, op, start, time, f"queued behind {self._names(before)[1]}", record)
            return party, start
        issue = self.causes.issue(record)
        if issue == NONE:
            self._add(role, op, start, time, "the trace doesn't tell who asked for it", record)
            return party, start
        asker, asking = self._names(issue)
        asked = int(records.start[issue])
        self._add(role, op, start, time, f"asked for by {asker}", record)
        if role == TENSOR:
            self._add(asker, asking, asked, start, "then", issue)
        else:
            self._add(role, f"{op}: on its way", asked, start, "then", issue)
        return (int(records.cta[issue]), int(records.warp[issue]), ""), asked

    def _names(self, record: int) -> tuple[str, str]:
        """Role and op of a record."""
        return self.strings[self.records.role[record]], self.strings[self.records.name[record]]

    def _add(self, role: str, op: str, start: int, end: int, why: str, record: int) -> None:
        """Put a segment before those found so far; one of no length says nothing."""
        if end <= start:
            return
        columns = ("cta", "warp", "tile", "block", "stage", "busy")
        where = (
            {name: int(getattr(self.records, name)[record]) for name in columns}
            if record != NONE
            else {}
        )
        self.segments.append(Segment(role, op, start, end, why, **where))


#: Ops by what kind of work they are; those not named are told by their role or first word.
KINDS = {
    "QK": "tensor pipe",
    "PV": "tensor pipe",
    "read S": "TMEM access",
    "store P": "TMEM access",
    "rescale O": "rescaling",
    "write O": "epilogue",
    "store O": "epilogue",
    "write LSE": "epilogue",
    "fence": "epilogue",
    "final scale": "epilogue",
    "start": "start and end",
    "setmaxnreg": "start and end",
    "allocate TMEM": "start and end",
    "free TMEM": "start and end",
    "wake TmemPtr": "start and end",
    "wake tmem_dealloc": "start and end",
}

#: What Hopper's consumers do at the end of a tile.
OUTPUT = ("row sum", "LSE", "scale O", "round O")


def kind_of_work(role: str, op: str) -> str:
    """What kind of work an op on a path is, in a word or two.

    A row sum ends every softmax step on Blackwell, and the tile on Hopper.

    >>> kind_of_work("softmax0", "exp2"), kind_of_work("mma", "wake P_full_O_rescaled")
    ('softmax arithmetic', 'hand-off')
    >>> kind_of_work("softmax0", "row sum"), kind_of_work("consumer0", "row sum")
    ('softmax arithmetic', 'epilogue')
    """
    if op in KINDS:
        return KINDS[op]
    if op.startswith(("wait ", "nothing ")):
        return "not known"
    if role in RECEIVERS or role == "load" or "load_" in op:
        return "load"
    if role in (TMA_STORE, "epilogue"):
        return "epilogue"
    if op.split(" ")[0] in ("wake", "try", "commit", "arrive", "issue", "read", "free", "pass"):
        return "hand-off"
    if op in OUTPUT and role.startswith("consumer"):
        return "epilogue"
    if role.startswith(("softmax", "consumer")):
        return "softmax arithmetic"
    return "other"


def by_kind(totals: Mapping[tuple[str, str], float]) -> dict[str, float]:
    """The totals of a path added up by :func:`kind_of_work`, longest first."""
    kinds: dict[str, float] = {}
    for (role, op), cycles in totals.items():
        kind = kind_of_work(role, op)
        kinds[kind] = kinds.get(kind, 0.0) + cycles
    return dict(sorted(kinds.items(), key=lambda item: (-item[1], item[0])))


def chain(segments: Sequence[Segment]) -> str:
    """The path as a chain of who does what, for how long; equal neighbours are added up.

    >>> print(
    ...     chain(
    ...         [
    ...             Segment("tensor", "QK", 0, 512, ""),
    ...             Segment("tensor", "commit", 512, 540, ""),
    ...             Segment("softmax0", "wake S_full", 540, 598, ""),
    ...         ]
    ...     )
    ... )
    tensor: QK 512, commit 28
    → softmax0: wake S_full 58
    """
    lines: list[tuple[str, list[tuple[str, int]]]] = []
    for segment in segments:
        role = f"{segment.role} of CTA {segment.cta}" if segment.cta > 0 else segment.role
        if not lines or lines[-1][0] != role:
            lines.append((role, []))
        ops = lines[-1][1]
        if ops and ops[-1][0] == segment.op:
            ops[-1] = (segment.op, ops[-1][1] + segment.cycles)
        else:
            ops.append((segment.op, segment.cycles))
    return "\n→ ".join(
        f"{role}: " + ", ".join(f"{op} {cycles:,}" for op, cycles in ops) for role, ops in lines
    )


def format_path(path: CriticalPath, most: int = 15) -> str:
    """What the path consists of: the whole, one block of the steady state, and its chain."""
    if not path.segments:
        return "an empty trace has no critical path"
    steady = path.steady
    per_block = path.per_block() if steady is not None else {}
    rows = [
        (role, op, f"{cycles:,}", f"{cycles / path.cycles:.1%}",
         f"{per_block[role, op]:,.1f}" if (role, op) in per_block else "")
        for (role, op), cycles in path.totals().items()
    ]  # fmt: skip
    text = text_table(("role", "op", "length", "of path", "per block"), rows[:most], left=2)
    if len(rows) > most:
        text += f"\n… and {len(rows) - most} smaller ones"
    if steady is None:
        return text
    block = path.within(steady.start, round(steady.start + steady.period))
    return f"{text}\n\nOne K/V block, {steady.period:,.0f} in all:\n  {chain(block)}".replace(
        "\n→", "\n  →"
    )


def _cut(segment: Segment, start: int, end: int) -> Segment:
    """The part of a segment in ``[start, end)``; of one that is cut, busy time isn't known."""
    whole = (start, end) == (segment.start, segment.end)
    return replace(segment, start=start, end=end, busy=segment.busy if whole else NONE)


def _totals(segments: Iterable[Segment]) -> dict[tuple[str, str], int]:
    totals: dict[tuple[str, str], int] = {}
    for segment in segments:
        key = (segment.role, segment.op)
        totals[key] = totals.get(key, 0) + segment.cycles
    return dict(sorted(totals.items(), key=lambda item: (-item[1], item[0])))
