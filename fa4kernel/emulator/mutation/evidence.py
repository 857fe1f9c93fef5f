"""What is known about the original when a rule is asked: gathered once, when first needed."""

from __future__ import annotations

from functools import cached_property

from fa4kernel.emulator.isa.table import semantics_of
from fa4kernel.emulator.machine.dataflow import ENDS, target
from fa4kernel.emulator.mutation.coverage import Place, Usage, observe, place_of
from fa4kernel.emulator.mutation.knowledge import Listener, listen
from fa4kernel.emulator.mutation.mutant import Mutant
from fa4kernel.emulator.mutation.sites import Sites
from fa4kernel.emulator.mutation.trial import Original


class Evidence:
    """A run of the original, and its text.

    Attributes:
        sites: the text, with an index.
    """

    def __init__(self, original: Original) -> None:
        self.original = original
        self.sites = Sites(original.program.context.function)

    @cached_property
    def usage(self) -> Usage:
        """Which instructions run, and who waits for which phases."""
        return observe(self.original.program, self.original.problem.prepare().launch)

    @cached_property
    def heard(self) -> Listener:
        """What waits tell, and to whom."""
        idle = {place for place in self.usage.counts if self.unawaited(place)}
        launch = self.original.problem.prepare().launch
        return listen(self.original.program, launch, idle)

    def place(self, mutant: Mutant) -> Place:
        """Where the instruction stands that a mutant changes."""
        return place_of(self.sites.code[mutant.index])

    def waits_for(self, place: Place) -> set[Place] | None:
        """Places of the waits for phases that the instruction counts in, or for later ones.

        None if it counts in no phase.
        """
        usage, counted = self.usage, self.usage.counts.get(place)
        if not counted:
            return None
        first: dict[int, int] = {}
        for barrier, phase in counted:
            first[barrier] = min(phase, first.get(barrier, phase))
        return {
            wait
            for wait, phases in usage.polls.items()
            if any(phase >= first.get(barrier, phase + 1) for barrier, phase in phases)
        }

    def unawaited(self, place: Place) -> bool:
        """Whether the instruction counts only in phases that nobody waits for, then or later."""
        return self.waits_for(place) == set()

    def idle(self, place: Place) -> bool:
        """Whether nobody waits for what the instruction counts in, or only one needless wait."""
        waits = self.waits_for(place)
        if waits is None:
            return False
        return not waits or (len(waits) == 1 and waits <= self.heard.needless)

    def idle_until_all_waited(self, index: int) -> bool:
        """Whether bulk copies are all waited for before somebody is told anything by this thread.

        Looked at is what follows in the text, up to ``wait_group 0``.
        """
        for at in range(index, len(self.sites.code)):
            instruction = self.sites.code[at]
            opcode, has = instruction.opcode, instruction.has
            if has("bulk", "wait_group") and self.sites.constant(instruction.operands[0]) == 0:
                return at > index
            waits = opcode == "mbarrier" and has("try_wait")
            copies = opcode == "cp" and has("bulk")
            arrives = opcode == "mbarrier" and self.idle(place_of(instruction))
            inside = opcode == "bra" and any(at in loop for loop in self._loops(at))
            plain = opcode not in ENDS and semantics_of(instruction) is not None
            if not (waits or copies or arrives or inside or plain):
                return False
        return False

    def _loops(self, at: int) -> list[range]:
        """Wait loops whose branches the instruction may be."""
        code = self.sites.code
        heads = [i for i in (at - 1, at - 2) if i >= 0 and code[i].has("try_wait")]
        return [loop for loop in map(self.sites.wait_loop, heads) if loop is not None]

    def arrivals_behind(self, index: int, but: int) -> list[Place]:
        """Places of the arrivals that follow for sure, before anything but plain arithmetic."""
        found = []
        for at in range(index + 1, len(self.sites.code)):
            instruction = self.sites.code[at]
            arrives = instruction.opcode == "mbarrier" and instruction.has("arrive")
            if instruction.opcode in ENDS or self.sites.jumps[at]:
                break
            if arrives and at != but:
                found.append(place_of(instruction))
            elif not arrives and semantics_of(instruction) is None:
                break
        return found

    def fenced_again(self, index: int) -> bool:
        """Whether the same fence comes again before this thread can have told anybody anything.

        Between them stand only arithmetic, branches ahead, parameters, hints and ``mbarrier.init``.
        """
        code = self.sites.code
        for at in range(index + 1, len(code)):
            instruction = code[at]
            if instruction.text == code[index].text:
                return True
            opcode, has = instruction.opcode, instruction.has
            ahead = opcode == "bra" and target(self.sites.function, instruction) > at
            harmless = opcode in ("prefetch", "prefetchu") or (opcode == "ld" and has("param"))
            init = opcode == "mbarrier" and has("init")
            plain = opcode not in ENDS and semantics_of(instruction) is not None
            if not (ahead or harmless or init or plain):
                return False
        return False

    def elects_next(self, index: int) -> bool:
        """Whether the warp, after this instruction, elects a lane before it does anything else."""
        for instruction in self.sites.code[index + 1 :]:
            if instruction.opcode == "elect":
                mask = self.sites.constant(instruction.operands[-1])
                return mask is not None and mask & 0xFFFFFFFF == 0xFFFFFFFF
            semantics = None if instruction.opcode in ENDS else semantics_of(instruction)
            if semantics is None or semantics.collective:
                return False
        return False
