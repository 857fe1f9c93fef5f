"""``isspacep``: whether a generic address is in a space (PTX ISA 9.7.9.19)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fa4kernel.emulator.machine.convoy import Convoy
from fa4kernel.emulator.machine.layout import (
    LOCAL_WINDOW,
    PARAM_WINDOW,
    RANK_SHIFT,
    SHARED_WINDOW,
)
from fa4kernel.emulator.machine.loads import spread
from fa4kernel.emulator.machine.program import (
    Context,
    Handler,
    Outcome,
    decodes,
    unsupported,
)
from fa4kernel.emulator.ptx.module import Instruction

if TYPE_CHECKING:
    from fa4kernel.emulator.machine.machine import Machine

WINDOWS = {
    "shared": SHARED_WINDOW, "shared::cta": SHARED_WINDOW, "shared::cluster": SHARED_WINDOW,
    "param": PARAM_WINDOW, "param::entry": PARAM_WINDOW, "local": LOCAL_WINDOW,
}  # fmt: skip


@decodes("isspacep")
def decode_isspacep(instruction: Instruction, context: Context) -> Handler:
    """``isspacep``; the parameters are part of global memory."""
    if len(instruction.qualifiers) != 1 or instruction.qualifiers[0] not in (*WINDOWS, "global"):
        raise unsupported(instruction)
    (space,) = instruction.qualifiers
    target = instruction.operands[0]
    address = context.value(instruction.operands[1], 2)

    def handler(machine: Machine, convoy: Convoy) -> Outcome:
        lanes = convoy.lanes()
        addresses = address(machine.registers, lanes)
        windows = addresses >> 32
        if space == "global":
            found = ~np.isin(windows, [SHARED_WINDOW, LOCAL_WINDOW])
        else:
            found = windows == WINDOWS[space]
        if space in ("shared", "shared::cta"):
            ranks = (addresses & 0xFFFFFFFF) >> RANK_SHIFT
            found &= ranks == machine.rank_of(lanes // 32 % machine.shape.ctas)
        spread(machine, convoy, target, "pred", found)
        return None

    return handler
