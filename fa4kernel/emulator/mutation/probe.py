"""Whether an altered scalar instruction ever gives another value than the original.

The kernel is run with both in it; it traps where their results differ.
"""

from __future__ import annotations

from dataclasses import replace

from fa4kernel.emulator.emulate import decode, emulate
from fa4kernel.emulator.errors import EmulationError
from fa4kernel.emulator.mutation.mutant import Mutant
from fa4kernel.emulator.mutation.sites import with_operand
from fa4kernel.emulator.mutation.trial import Original
from fa4kernel.emulator.ptx.module import Instruction, Register
from fa4kernel.emulator.ptx.printer import instruction_text, replace_instruction


def differs(original: Original, mutant: Mutant) -> bool:
    """Whether it does, for some thread, in a run in lock step."""
    code = original.program.context.function.instructions
    text = _both(code[mutant.index], mutant)
    if text is None:
        return True
    ptx = replace_instruction(original.problem.ptx, code[mutant.index], text)
    launch = original.problem.prepare().launch
    try:
        emulate(decode(ptx, launch), launch, checks="off")
    except EmulationError as error:
        if error.kind != "trap":
            raise
        return True
    return False


def _both(old: Instruction, mutant: Mutant) -> str | None:
    """The altered instruction, the original, and a trap if they differ; None if that can't be."""
    if len(mutant.edits) != 1 or mutant.edits[0].instruction is None:
        return None
    new = mutant.edits[0].instruction
    result = old.operands[0]
    if old.guard is not None or new.guard is not None or not isinstance(result, Register):
        return None
    if new.operands[0] != result or result.type not in ("pred", "b32"):
        return None
    other = replace(result, name="other")
    name = result.name.partition("@")[0]
    compare = "xor.pred" if result.type == "pred" else "setp.ne.b32"
    return (
        f"{{ .reg .{result.type} other; .reg .pred differs; "
        f"{instruction_text(with_operand(new, 0, other))} {instruction_text(old)} "
        f"{compare} differs, other, {name}; @differs trap; }}"
    )
