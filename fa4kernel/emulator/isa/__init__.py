"""Scalar PTX instructions as pure functions on NumPy arrays.

An array holds one register of every lane. Nothing in here knows about warps that wait, memory or
branches; :mod:`~fa4kernel.emulator.isa.table` says what an instruction reads, computes and writes.

Functions are called under ``np.errstate(all="ignore")``: a plain ufunc has no way to keep quiet
about an overflow that the GPU doesn't report either.
"""

from fa4kernel.emulator.isa.semantics import DTYPES, Semantics, Unsupported
from fa4kernel.emulator.isa.table import OPCODES, semantics_of

__all__ = ["DTYPES", "OPCODES", "Semantics", "Unsupported", "semantics_of"]
