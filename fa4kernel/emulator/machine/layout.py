"""The address spaces of an emulated launch: where shared, parameter and global memory lie.

A 32-bit shared address is ``rank << 24 | offset``, in the CTA's own window and in the cluster's
alike, so that kernels which clear bit 24 to reach the even CTA of a pair do so here too (CUTLASS,
``cute/arch/copy_sm100_tma.hpp``). Generic addresses tell spaces apart by their high 32 bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from fa4kernel.emulator.ptx.module import Function, Module, Symbol

#: High words of generic addresses.
SHARED_WINDOW = 0x0000_7E00
PARAM_WINDOW = 0x0000_7D00
LOCAL_WINDOW = 0x0000_7C00
GLOBAL_WINDOW = 0x0000_7F00
#: Where a CTA's own variables begin; below is the system's kilobyte, which kernels don't touch.
SHARED_START = 1024
RANK_SHIFT = 24


@dataclass
class AddressOf:
    """Addresses of parameters and variables, as cells of a register.

    Attributes:
        shared: offsets of shared variables by name.
        params: offsets of parameters by name.
        local: offsets of a thread's local variables by name.
        globals: addresses of global variables by name (64 bits).
    """

    shared: dict[str, int] = field(default_factory=dict)
    params: dict[str, int] = field(default_factory=dict)
    local: dict[str, int] = field(default_factory=dict)
    globals: dict[str, int] = field(default_factory=dict)
    shared_bytes: int = SHARED_START
    local_bytes: int = 0

    @classmethod
    def lay_out(cls, module: Module, function: Function, dynamic_bytes: int) -> AddressOf:
        """Place the variables of one kernel: static shared ones first, then the dynamic array."""
        found = cls(params={p.name: p.offset for p in function.parameters})
        offset = SHARED_START
        variables = [v for v in (*module.variables, *function.variables) if v.space == "shared"]
        for variable in sorted(variables, key=lambda v: v.size is None):
            offset = -(-offset // variable.align) * variable.align
            found.shared[variable.name] = offset
            offset += variable.size if variable.size is not None else 0
        found.shared_bytes = -(-(offset + dynamic_bytes) // 16) * 16
        found._lay_out_local(function)
        return found

    def _lay_out_local(self, function: Function) -> None:
        offset = 0
        for variable in function.variables:
            if variable.space == "local":
                offset = -(-offset // variable.align) * variable.align
                self.local[variable.name] = offset
                offset += variable.size or 0
        self.local_bytes = -(-offset // 16) * 16

    def __call__(self, symbol: Symbol, count: int) -> tuple:  # type: ignore[type-arg]
        """The cells of a symbol's address."""
        from fa4kernel.emulator.machine.cells import Constant, Fixed

        if symbol.name in self.shared:
            low = Fixed(f"shared+{self.shared[symbol.name] + symbol.offset}")
            return (low, Constant(0))[:count]
        if symbol.name in self.params:
            offset = self.params[symbol.name] + symbol.offset
            return (Constant(offset), Constant(PARAM_WINDOW))[:count]
        if symbol.name in self.local:
            offset = self.local[symbol.name] + symbol.offset
            return (Constant(offset), Constant(LOCAL_WINDOW))[:count]
        if symbol.name in self.globals:
            address = self.globals[symbol.name] + symbol.offset
            return (Constant(address & 0xFFFFFFFF), Constant(address >> 32))[:count]
        raise KeyError(symbol.name)

    @staticmethod
    def window(qualifiers: Sequence[str]) -> int | None:
        """The high word that ``cvta`` with these qualifiers puts in, or None to leave it."""
        shared = any(q.startswith("shared") for q in qualifiers)
        if "to" in qualifiers:
            return 0 if shared else None
        return SHARED_WINDOW if shared else None
