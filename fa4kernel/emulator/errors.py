"""What stops an emulation, and what it tells about the place."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fa4kernel.emulator.ptx.module import Instruction, Location

if TYPE_CHECKING:
    from fa4kernel.emulator.waiting import Waiting


#: Lists of more operands than this are told by their first and last.
MOST_OPERANDS = 8


def place(instruction: Instruction) -> str:
    """Where an instruction stands: its PTX line and, if known, its source line."""
    text = f"PTX line {instruction.line} `{shortened(instruction.text)}`"
    return f"{text} ({source_line(instruction.location)})" if instruction.location else text


def shortened(text: str) -> str:
    """A statement without what stands between the first and the last of a long operand list.

    >>> shortened("ld.shared.v2.u32 {%r1, %r2}, [%r3];")
    'ld.shared.v2.u32 {%r1, %r2}, [%r3];'
    >>> shortened("{" + ", ".join(f"%r{i}" for i in range(32)) + "}, [%r97];")
    '{%r0, …, %r31}, [%r97];'
    """

    def ends(found: re.Match[str]) -> str:
        operands = [each.strip() for each in found[1].split(",")]
        if len(operands) <= MOST_OPERANDS:
            return found[0]
        return f"{{{operands[0]}, …, {operands[-1]}}}"

    return re.sub(r"\{([^{}]*)\}", ends, text)


def source_line(location: Location) -> str:
    """File and line of the source, as ``name.py:12``."""
    name = location.file.replace("\\", "/").rsplit("/", 1)[-1]
    return f"{name}:{location.line}"


class EmulationError(RuntimeError):
    """The kernel did something that has no defined outcome; the run ends there.

    Attributes:
        instruction: the one that did it, if one did.
        kind: a short name of the fault, as in the list of checks.
        barrier: offset in shared memory of the mbarrier that it is about, if it is about one.
    """

    def __init__(
        self,
        message: str,
        instruction: Instruction | None = None,
        kind: str = "",
        barrier: int | None = None,
    ) -> None:
        where = f"\n  at {place(instruction)}" if instruction is not None else ""
        super().__init__(message + where)
        self.instruction = instruction
        self.kind = kind or "fault"
        self.barrier = barrier
        #: What the source or the labels call that mbarrier.
        self.called = ""
        #: What was recorded before, if a trace was asked for.
        self.trace: Any = None
        #: Hazards found before, if checks were on.
        self.hazards: tuple[Any, ...] = ()
        #: What repeats the run, event for event.
        self.replay = ""

    def __str__(self) -> str:
        """What happened, where, and how to see it again."""
        known = self.called and not self.called.startswith("mbarrier@")  # that is its offset
        called = f"\n  the mbarrier is {self.called}" if known else ""
        return str(self.args[0]) + called + (f"\n  replay: {self.replay}" if self.replay else "")

    def __reduce__(self) -> tuple[Any, ...]:
        """Errors travel between processes with all they know."""
        return _remade, (type(self), str(self.args[0]), dict(vars(self)))


class DeadlockError(EmulationError):
    """Nothing can go on.

    Attributes:
        report: who waits for what, in words.
        waits: the same as data.
        cycle: indices into ``waits`` of those that wait for each other in a circle, each for the
            next one and the last for the first; empty if there is no ring.
        tick: when, in steps of the machine.
    """

    def __init__(
        self,
        report: str,
        waits: Sequence[Waiting] = (),
        cycle: Sequence[int] = (),
        tick: int = 0,
    ) -> None:
        super().__init__(report, None, "deadlock")
        self.report = report
        self.waits = tuple(waits)
        self.cycle = tuple(cycle)
        self.tick = tick


def _remade(kind: type[EmulationError], message: str, known: dict[str, Any]) -> EmulationError:
    error = kind.__new__(kind, message)
    RuntimeError.__init__(error, message)
    vars(error).update(known)
    return error
