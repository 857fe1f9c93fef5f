"""Where a kernel touches a barrier: which instruction, in which way, and which barrier.

An mbarrier (PTX ISA 9.7.13.15) lies in shared memory and is named by its offset in its CTA; a
named barrier (9.7.13.1) by its number.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from fa4kernel.emulator.inspection.addresses import Addresses, shared_offset
from fa4kernel.emulator.inspection.known import ANYTHING, Known
from fa4kernel.emulator.inspection.sources import Sources
from fa4kernel.emulator.machine.layout import AddressOf
from fa4kernel.emulator.ptx.module import (
    Address,
    Function,
    Instruction,
    Location,
    Operand,
)

#: ``bytes`` stands for a copy that will signal the barrier when its bytes have landed, ``commit``
#: for an arrival that comes when MMAs are complete.
Way = Literal["init", "wait", "arrive", "expect", "bytes", "commit"]
ARRIVALS: tuple[Way, ...] = ("arrive", "expect", "bytes", "commit")


@dataclass(frozen=True, slots=True)
class Site:
    """One instruction that touches a barrier.

    Attributes:
        index: of the instruction in its function.
        instruction: the instruction.
        way: what it does to the barrier.
        place: offset in shared memory, or number of the named barrier, as far as it is known.
        count: arrivals that complete a phase (``init``), or threads (named barriers); None if
            that is not known or not said here.
        location: where in the source, or the nearest place that has one.
    """

    index: int
    instruction: Instruction
    way: Way
    place: Known
    count: int | None
    location: Location | None


def mbarrier_operand(instruction: Instruction) -> tuple[Way, Operand] | None:
    """How an instruction touches an mbarrier, and the operand that names it; None if it doesn't.

    >>> from fa4kernel.emulator.ptx.module import Immediate, Register
    >>> at = Address(Register("%r1", "b32"), 8)
    >>> mbarrier_operand(Instruction("mbarrier", ("init", "shared", "b64"), (at, Immediate(1))))[0]
    'init'
    """
    operands, qualifiers = instruction.operands, instruction.qualifiers
    opcode, name = instruction.opcode, qualifiers[0] if qualifiers else ""
    addresses = [o for o in operands if isinstance(o, Address)]
    if opcode == "mbarrier" and addresses:
        if name in ("try_wait", "test_wait"):
            return "wait", addresses[0]
        if name in ("expect_tx", "complete_tx") or "expect_tx" in qualifiers:
            return "expect", addresses[0]
        if name in ("init", "arrive", "arrive_drop"):
            return ("init" if name == "init" else "arrive"), addresses[0]
    elif opcode == "tcgen05" and name == "commit" and addresses:
        return "commit", addresses[0]
    elif opcode == "cp" and "mbarrier" in qualifiers and addresses:  # cp.async.mbarrier.arrive
        return "arrive", addresses[0]
    elif any(q.startswith("mbarrier::complete_tx") for q in qualifiers) and addresses:
        return "bytes", addresses[-1]
    return None


def named_operand(instruction: Instruction) -> tuple[Way, Operand, Operand | None] | None:
    """How an instruction touches a named barrier: the way, its number, its threads if given."""
    qualifiers, operands = instruction.qualifiers, instruction.operands
    if instruction.opcode not in ("bar", "barrier") or {"warp", "cluster"} & set(qualifiers):
        return None
    way: Way = "arrive" if "arrive" in qualifiers else "wait"
    operands = operands[1:] if "red" in qualifiers else operands
    return way, operands[0], operands[1] if len(operands) > 1 else None


@dataclass(frozen=True)
class Sites:
    """All sites of a function: those of mbarriers, and those of named barriers."""

    mbarriers: tuple[Site, ...]
    named: tuple[Site, ...]

    @classmethod
    def of(cls, function: Function, address_of: AddressOf) -> Sites:
        """Find them."""
        code = function.instructions
        touching = [(i, mbarrier_operand(each)) for i, each in enumerate(code)]
        numbered = [(i, named_operand(each)) for i, each in enumerate(code)]
        wanted: list[Operand] = [found[1] for _, found in touching if found]
        wanted += [each.operands[1] for each in code if _is_init(each)]
        wanted += [o for _, found in numbered if found for o in found[1:] if o is not None]
        known = Addresses(function, address_of, wanted)
        places = locations(function)
        mbarriers = []
        for i, found in touching:
            if found:
                count = known.of(code[i].operands[1]) if found[0] == "init" else ANYTHING
                place = shared_offset(known.of(found[1])) or ANYTHING
                mbarriers.append(
                    Site(i, code[i], found[0], place, _exactly(count), places[i])
                )  # fmt: skip
        named = []
        for i, touched in numbered:
            if touched:
                way, number, threads = touched
                count = ANYTHING if threads is None else known.of(threads)
                named.append(
                    Site(i, code[i], way, known.of(number), _exactly(count), places[i])
                )  # fmt: skip
        return cls(tuple(mbarriers), tuple(named))

    def __iter__(self) -> Iterator[Site]:
        yield from self.mbarriers
        yield from self.named


def _is_init(instruction: Instruction) -> bool:
    return instruction.opcode == "mbarrier" and instruction.qualifiers[0] == "init"


def _exactly(known: Known) -> int | None:
    return known.base if known.exact and known.origin is None else None


def locations(function: Function) -> list[Location | None]:
    """For each instruction its place in the source, or that of the last one before that has one.

    A column of 0 stands for a place that the compiler does not know.
    """
    found: list[Location | None] = []
    last: Location | None = None
    for instruction in function.instructions:
        here = instruction.location
        if here is not None and here.column > 0 and here.line > 0:
            last = here
        found.append(last)
    return found


def home_of(function: Function, sources: Sources) -> tuple[str, str]:
    """The source file of a kernel, and its function in there; "" for what is not known."""
    home = next((i.location.file for i in function.instructions if i.location is not None), "")
    for place in locations(function):
        holder = sources.function(place) if place is not None and place.file == home else ""
        if holder:
            return home, holder
    return home, ""
