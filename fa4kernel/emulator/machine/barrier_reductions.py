"""``bar.red``: a barrier that also counts or combines predicates (PTX ISA 9.7.13.1)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fa4kernel.emulator.machine.convoy import Convoy
from fa4kernel.emulator.machine.loads import spread
from fa4kernel.emulator.machine.named_barriers import Parties, Passed
from fa4kernel.emulator.machine.program import Context, Handler, Outcome, Wait, allow, unsupported
from fa4kernel.emulator.ptx.module import Instruction, Not, Register

if TYPE_CHECKING:
    from fa4kernel.emulator.machine.machine import Machine

#: What is given to all, of how many of how many predicates were true.
OPERATIONS: dict[str, Callable[[int, int], int | bool]] = {
    "popc": lambda true, every: true,
    "and": lambda true, every: true == every,
    "or": lambda true, every: true > 0,
}


class Reduced(Passed):
    """Warps wait for a barrier and then get what it worked out."""

    def __init__(
        self,
        slots: NDArray[np.intp],
        numbers: NDArray[np.int64],
        generations: NDArray[np.int64],
        operation: str,
        target: Any,
    ) -> None:
        super().__init__(slots, numbers, generations)
        self.operation = operation
        self.target = target

    def woken(self, machine: Machine, convoy: Convoy) -> None:
        """Write the result for those who have passed."""
        super().woken(machine, convoy)
        slots, at = self._of(convoy)
        found = []
        for slot, i in zip(slots, at, strict=True):
            key = (int(machine.ctas_of(slot)), int(self.numbers[i]), int(self.generations[i]))
            found.append(OPERATIONS[self.operation](*machine.named.votes[key]))
        values = np.repeat(np.array(found), convoy.lanes_per_warp())
        kind, dtype = ("u32", np.uint32) if self.operation == "popc" else ("pred", np.bool_)
        spread(machine, convoy, self.target, kind, values.astype(dtype))


def decode_bar_red(instruction: Instruction, context: Context) -> Handler:
    """``bar.red.popc``, ``.and`` and ``.or``."""
    names = [q for q in instruction.qualifiers if q in OPERATIONS]
    allow(instruction, "cta", "red", "aligned", *OPERATIONS, "u32", "pred")
    target, *numbers_of, predicate = instruction.operands
    register = predicate.register if isinstance(predicate, Not) else predicate
    if len(names) != 1 or not isinstance(register, Register) or not 1 <= len(numbers_of) <= 2:
        raise unsupported(instruction)
    parties = Parties(instruction, context, numbers_of)
    negated = isinstance(predicate, Not)

    def handler(machine: Machine, convoy: Convoy) -> Outcome:
        slots, _ = convoy.warps()
        numbers, warps = parties(machine, convoy)
        given = machine.registers.predicate(register, convoy.lo, convoy.hi) != negated
        given = (given & convoy.full_mask()).reshape(-1, 32).sum(axis=1)[slots - convoy.lo // 32]
        generations = machine.named.arrive(slots, numbers, warps, instruction)
        if machine.monitor is not None:
            machine.monitor.named_arrive(slots, numbers, generations, instruction)
        votes, every = machine.named.votes, convoy.lanes_per_warp()
        for i, cta in enumerate(machine.ctas_of(slots).tolist()):
            number, generation = int(numbers[i]), int(generations[i])
            votes.pop((cta, number, generation - 2), None)
            both = votes.setdefault((cta, number, generation), [0, 0])
            both[0] += int(given[i])
            both[1] += int(every[i])
        condition = Reduced(slots, numbers, generations, names[0], target)
        ready = condition.ready(machine, convoy)
        going = convoy.part(ready)
        if going is not None:
            condition.woken(machine, going)
        waiting = ~ready & convoy.full_mask()
        return Wait(waiting, condition) if waiting.any() else None

    return handler
