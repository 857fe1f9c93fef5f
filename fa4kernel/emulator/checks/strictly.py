"""Advisories about ``tcgen05`` fences, which the manual asks for and kernels leave out.

Between threads, tensor-memory accesses are ordered by a barrier only together with
``tcgen05.fence::before_thread_sync`` on the side that arrives and ``::after_thread_sync`` on the
side that waits (PTX ISA 9.7.16.6.4). FlashAttention-4 has neither.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fa4kernel.emulator.checks.clocks import Index
from fa4kernel.emulator.checks.records import Event
from fa4kernel.emulator.ptx.module import Instruction

if TYPE_CHECKING:
    from fa4kernel.emulator.checks.state import State


class TensorFences:
    """Which warps lack a fence.

    Attributes:
        waited: bool, warps that have waited since their last ``after_thread_sync``.
        accessed: bool, warps that have loaded or stored since their last ``before_thread_sync``.
    """

    def __init__(self, state: State) -> None:
        self.state = state
        slots = len(state.clocks.time)
        self.waited = np.zeros(slots, np.bool_)
        self.accessed = np.zeros(slots, np.bool_)

    def fence(self, slots: Index, instruction: Instruction) -> None:
        """``tcgen05.fence``."""
        if "fence::after_thread_sync" in instruction.qualifiers:
            self.waited[slots] = False
        else:
            self.accessed[slots] = False

    def learns(self, slots: Index) -> None:
        """Warps have waited for others."""
        self.waited[slots] = True

    def uses(self, slots: Index, instruction: Instruction, asynchronous: bool) -> None:
        """Warps access tensor memory, by themselves or (``asynchronous``) by MMAs and copies."""
        if not self.state.strict:
            return
        self._tell(slots[self.waited[slots]], instruction)
        if not asynchronous:  # a commit needs no fence
            self.accessed[slots] = True

    def gives(self, slots: Index, instruction: Instruction) -> None:
        """Warps arrive on a barrier."""
        if self.state.strict:
            self._tell(slots[self.accessed[slots]], instruction)

    def _tell(self, slots: Index, instruction: Instruction) -> None:
        if len(slots):
            event = Event(instruction, self.state.machine.steps, slots)
            self.state.tell("tmem-fence", event, 0)
