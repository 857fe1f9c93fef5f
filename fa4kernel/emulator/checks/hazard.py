"""What the checks report: hazards, with both parties and the memory they meet at."""

from __future__ import annotations

from dataclasses import dataclass, replace

from fa4kernel.emulator.errors import place
from fa4kernel.emulator.ptx.module import Instruction

#: Every kind of report: its severity, and what it says in one sentence.
#:
#: A *hazard* is a data race: two accesses that nothing orders. A *protocol* fault breaks a rule of
#: a barrier or of an allocation, so that the kernel works only by luck of timing. An *advisory*
#: breaks a rule of the manual that hardware is known to be kinder about.
KINDS: dict[str, tuple[str, str]] = {
    "read-before-write": ("hazard", "memory is read before its writer is known to be done"),
    "overwrite-while-read": ("hazard", "memory is overwritten while somebody may still read it"),
    "overwrite-while-written": ("hazard", "two writes of the same memory have no order"),
    "lane-race": (
        "hazard", "a lane reads what another of its warp wrote, with no bar.warp.sync between",
    ),
    "missing-proxy-fence": (
        "hazard", "an async access follows a generic write without a proxy fence between",
    ),
    "copy-proxy-fence": (
        "advisory", "an async access follows a cp.async copy without a proxy fence between",
    ),
    "global-race": (
        "hazard", "two CTAs access the same global memory, one writes, and no flag orders them",
    ),
    "dependent-launch": (
        "hazard",
        "memory that the kernel before may still write is used before griddepcontrol.wait",
    ),
    "uninitialised-read": ("hazard", "what is read nobody has written any of"),
    "uninitialised-load": ("advisory", "some of what is read nobody has written"),
    "unset-register": ("advisory", "a register may be read before it is written"),
    "uninitialised-barrier": ("hazard", "a barrier is used by who does not know of its init"),
    "tmem-unallocated": ("hazard", "tensor memory is used outside an allocation"),
    "tmem-leak": ("protocol", "tensor memory is still allocated when its CTA ends"),
    "live-barrier": (
        "protocol", "memory of a live mbarrier is initialised again, or accessed as data",
    ),
    "early-phase": (
        "protocol",
        "an arrival or a copy may land in an earlier phase than it is meant for: a wait before it "
        "is missing, or the barrier counts too few",
    ),
    "split-arrival": (
        "protocol", "the lanes of a warp arrive in two phases of a barrier: it counts too few",
    ),
    "overrun": ("protocol", "a phase may complete before all have seen the one before"),
    "ambiguous-wait": ("protocol", "a wait cannot tell its phase from one two phases later"),
    "unfinished-at-exit": ("hazard", "a CTA ends while its memory is still used by others"),
    "used-after-exit": ("hazard", "memory or a barrier of a CTA is used after that CTA has ended"),
    "wgmma-unwaited": ("advisory", "a register of a wgmma is used before wgmma.wait_group"),
    "tmem-fence": ("advisory", "a tcgen05 fence that the manual asks for is missing"),
    "commit-order": ("advisory", "a wait knows its phase only by the order in which commits land"),
    "mma-order": ("advisory", "two MMAs rely on completing in the order of their issue"),
    "tmem-load-unwaited": ("advisory", "a tcgen05.ld is passed on without tcgen05.wait::ld"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Party:
    """One of the two who meet.

    Attributes:
        who: "warp 3 of CTA 0", "mma (warp 12) of CTA 0" if its role has a name, or "the TMA copy
            that load (warp 14) of CTA 0 issued".
        instruction: what it executed.
        tick: when, in steps of the machine.
    """

    who: str
    instruction: Instruction | None
    tick: int

    def __str__(self) -> str:
        at = f" at {place(self.instruction)}" if self.instruction is not None else ""
        return f"{self.who}{at}, tick {self.tick}"


@dataclass(frozen=True, slots=True)
class Place:
    """Where in memory: bytes of shared memory, or columns (and lanes) of tensor memory.

    Attributes:
        space: "shared", "tensor", "global", "mbarrier" or "named barrier".
        cta: whose; -1 for global memory.
        first, last: bytes or columns, both included; the offset or number of a barrier.
        name: what the program calls it, if known; of global memory the argument.

    >>> print(Place("shared", 0, 1024, 1151))
    shared bytes 0x400 to 0x47f of CTA 0
    """

    space: str
    cta: int
    first: int
    last: int
    name: str = ""

    def __str__(self) -> str:
        name = f" ({self.name})" if self.name else ""
        if self.space == "global":
            return f"bytes {self.first:#x} to {self.last:#x} of {self.name}"
        if self.space == "shared":
            where = f"shared bytes {self.first:#x} to {self.last:#x}"
        elif self.space == "tensor":
            where = f"tensor memory columns {self.first} to {self.last}"
        elif self.space == "mbarrier":
            where = f"the mbarrier at shared offset {self.first:#x}"
        else:
            where = f"{self.space} {self.first}"
        return f"{where} of CTA {self.cta}{name}"


@dataclass(frozen=True, slots=True)
class Hazard:
    """Something that only luck keeps from going wrong.

    Attributes:
        kind: one of :data:`KINDS`.
        message: one sentence.
        first: who was there first in this run; None if nobody was.
        second: who came then.
        place: where they meet.
        replay: what repeats the run, event for event: a call or a command with the schedule.
        count: how often the same two places of the program met so.

    >>> writer, reader = Party("warp 0 of CTA 0", None, 7), Party("warp 1 of CTA 0", None, 9)
    >>> place = Place("shared", 0, 1024, 1151)
    >>> call = "emulate(ptx, launch, schedule=3)"
    >>> print(Hazard("read-before-write", "it reads too early", writer, reader, place, call))
    hazard read-before-write: it reads too early, at shared bytes 0x400 to 0x47f of CTA 0
      first:  warp 0 of CTA 0, tick 7
      second: warp 1 of CTA 0, tick 9
      replay: emulate(ptx, launch, schedule=3)
    """

    kind: str
    message: str
    first: Party | None
    second: Party
    place: Place | None = None
    replay: str = ""
    count: int = 1

    @property
    def severity(self) -> str:
        """One of "hazard", "protocol", "advisory"."""
        return KINDS[self.kind][0]

    def again(self, times: int) -> Hazard:
        """The same, seen ``times`` times."""
        return replace(self, count=times)

    def __str__(self) -> str:
        lines = [f"{self.severity} {self.kind}: {self.message}"]
        if self.place is not None:
            lines[0] += f", at {self.place}"
        if self.first is not None:
            lines.append(f"  first:  {self.first}")
        lines.append(f"  {'second' if self.first else 'by'}: {self.second}")
        if self.count > 1:
            lines.append(f"  found {self.count:,} times")
        if self.replay:
            lines.append(f"  replay: {self.replay}")
        return "\n".join(lines)
