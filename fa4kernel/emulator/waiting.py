"""What a deadlock is made of: warps that wait, for what, and who could have ended it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from fa4kernel.emulator.inspection.roles import warps_words

Kind = Literal["mbarrier", "named barrier", "cluster barrier", "other"]


@dataclass(frozen=True)
class Came:
    """The last that came to a barrier.

    Attributes:
        who: role, warp and CTA, in words.
        line: PTX line of the instruction.
        text: the instruction.
        source: file, line and text of the source, or "".
        tick: when, in steps of the machine.
        lane: the thread, as an index of the machine's lanes; -1 if not known.
    """

    who: str
    line: int
    text: str
    source: str
    tick: int
    lane: int = -1

    def __str__(self) -> str:
        return f"{self.who}, tick {self.tick:,}, at {at(self.line, self.text, self.source)}"


@dataclass(frozen=True)
class Waiting:
    """Warps of one role and CTA that wait at one instruction for the same.

    Attributes:
        cta: number of the CTA in the grid.
        role, warps: who.
        line, text: the PTX line they stand at, and what it says.
        source: file, line and text of the source, or "".
        kind: of what they wait for.
        on: its name.
        owner: number of the CTA whose barrier it is.
        place: offset of the mbarrier in shared memory, number of the named barrier, or -1.
        phase: number of the phase, from 0, that they want complete; None if there are no phases.
        completed: phases of the barrier that are complete.
        arrived, expected: arrivals of the phase under way that have come, and that complete it.
        bytes: announced to the barrier and not landed (negative: landed and not announced).
        last: the last arrival.
        landed: the last bytes that came.
        came: who arrived in the phase under way.
        missing: who has code that arrives here and did not, and what keeps each.
        counted: where the source (or PTX) sets the count of an mbarrier, or "".
        untold: where the kernel arrives at mbarriers that its text does not tell, or "".
        ended: who has ended in the barrier's CTA and might have been meant, in words, or "".
        words: all of it in a sentence, where ``kind`` is "other".
    """

    cta: int
    role: str
    warps: tuple[int, ...]
    line: int
    text: str
    source: str
    kind: Kind
    on: str
    owner: int = -1
    place: int = -1
    phase: int | None = None
    completed: int | None = None
    arrived: int | None = None
    expected: int | None = None
    bytes: int = 0
    last: Came | None = None
    landed: Came | None = None
    came: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    counted: str = ""
    untold: str = ""
    ended: str = ""
    words: str = ""

    @property
    def who(self) -> str:
        """Role and warps in words."""
        numbers = warps_words(self.warps)
        return self.role if numbers in self.role else f"{self.role} ({numbers})"

    def alike(self) -> Waiting:
        """The same without what differs between CTAs that stand in the same way."""
        owner = 0 if self.owner == self.cta else self.owner
        return replace(self, cta=0, owner=owner, last=None, landed=None)

    def like(self, other: Waiting) -> bool:
        """Whether another of its role waits in the same way for the next of a ring."""
        same = replace(other, warps=self.warps, on=self.on, place=self.place, last=self.last,
                       came=self.came, missing=self.missing, landed=self.landed)  # fmt: skip
        return self == same

    def lines(self) -> list[str]:
        """The report of it, line by line."""
        found = [f"{self.who} at {at(self.line, self.text, self.source)}"]
        if self.kind == "other":
            return [*found, f"  waits for {self.words}"]
        found.append(f"  waits for {self._what()}")
        if self.expected is not None:
            found.append(f"  {self._counts()}")
        if self.came:
            found.append(f"  in this phase came: {', '.join(self.came)}")
        if self.last is not None:
            found.append(f"  last arrival: {self.last}")
        elif self.kind != "cluster barrier":
            found.append("  nobody ever arrived there")
        if self.landed is not None:
            found.append(f"  last bytes: {self.landed}")
        for each in (*self._bytes(), *self.missing):
            found.append(f"  missing: {each}")
        known = self.kind == "mbarrier" and self.arrived != self.expected
        if not self.missing and (known or (self.kind == "named barrier" and self.ended)):
            found.append(f"  missing: {self._nobody()}")
        return found

    def _bytes(self) -> list[str]:
        """What it means that all have arrived, and the bytes do not match."""
        if self.kind != "mbarrier" or self.arrived != self.expected or not self.bytes:
            return []
        if self.bytes < 0:
            return [f"{-self.bytes:,} bytes in expect_tx: copies brought more than it announced"]
        return [f"{self.bytes:,} bytes: does expect_tx announce too many, or was a copy left out?"]

    def _nobody(self) -> str:
        """What it means that nobody is known who could still come."""
        words = "no instruction of this kernel is known to arrive there"
        if self.untold:
            words = (
                f"not known: at {self.untold} the kernel arrives at a barrier that the text does "
                "not tell"
            )
        elif self.arrived:
            words = f"nobody: all that are known to arrive there have, {self.arrived} in all"
        asked = []
        if self.kind == "named barrier":
            asked = [f"is the count of {32 * (self.expected or 0)} threads too high"]
        elif self.arrived:
            where = f" ({self.counted})" if self.counted else ""
            asked = [f"is the count of {self.expected} in mbarrier.init{where} too high"]
        if self.ended:
            asked.append(f"should {self.ended}, which ended, have come")
        return f"{words}; {', or '.join(asked)}?" if asked else words

    def _what(self) -> str:
        where = "" if self.owner in (self.cta, -1) else f" of CTA {self.owner}"
        if self.kind == "mbarrier":
            where = f" (mbarrier at shared offset {self.place:#x}{where})"
        if self.phase is None:
            return f"{self.on}{where}"
        assert self.completed is not None
        ahead = "" if self.phase == self.completed else f", {self.completed} are complete"
        parity = f" (parity {self.phase & 1})" if self.kind == "mbarrier" else ""
        return f"phase {self.phase}{parity} of {self.on}{where}{ahead}"

    def _counts(self) -> str:
        unit = {"mbarrier": "arrivals", "named barrier": "warps"}.get(self.kind, "threads")
        text = f"{self.arrived} of {self.expected} {unit} have come"
        if self.bytes > 0:
            text += f", {self.bytes:,} announced bytes have not landed"
        elif self.bytes < 0:
            text += f", {-self.bytes:,} bytes landed that nobody announced"
        return text


def at(line: int, text: str, source: str) -> str:
    """A place in PTX and in the source."""
    return f"PTX line {line} `{text}`" + (f" ({source})" if source else "")
