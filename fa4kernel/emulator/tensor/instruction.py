"""Instruction descriptors: what a tcgen05.mma multiplies, in 32 bits.

========  ==========================================  ================================
bits      field                                       values
========  ==========================================  ================================
2         sparse                                      only 0 is modelled
3         saturate (integers)                         0, 1
4–5       type of D                                   f16 0, f32 1, s32 2
7–9       type of A                                   by kind, see `TYPES`
10–12     type of B                                   by kind
13, 14    negate A, B                                 0, 1
15, 16    A, B is MN-major                            0, 1
17–22     N / 8
24–28     M / 16
30–31     largest shift of B (``.ws``)                0, 8, 16, 32 columns
========  ==========================================  ================================

K is no field: an MMA takes 32 bytes of each row.

Sources: PTX ISA 9.7.16.4.2, table 42, and 9.7.16.2.1, table 39 (shapes).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fa4kernel.emulator.tensor.descriptors import Major

Kind = Literal["f16", "tf32", "f8f6f4", "i8"]

TYPES: dict[str, dict[int, str]] = {
    "f16": {0: "f16", 1: "bf16"},
    "tf32": {2: "tf32"},
    "f8f6f4": {0: "e4m3", 1: "e5m2", 3: "e2m3", 4: "e3m2", 5: "e2m1"},
    "i8": {0: "u8", 1: "s8"},
}
"""Types of A and B that each kind of MMA takes, by their code."""

RESULTS: dict[str, dict[int, str]] = {
    "f16": {0: "f16", 1: "f32"},
    "tf32": {1: "f32"},
    "f8f6f4": {0: "f16", 1: "f32"},
    "i8": {2: "s32"},
}
"""Types of D that each kind of MMA gives, by their code."""

OPERAND_BYTES = {"f16": 2, "tf32": 4, "f8f6f4": 1, "i8": 1}
"""Bytes of an element of A and B in shared or tensor memory."""


@dataclass(frozen=True, slots=True)
class InstructionDescriptor:
    """What a 32-bit instruction descriptor says.

    Args:
        kind: kind of the MMA (``.kind::``).
        m, n: shape, over both CTAs of a pair.
        a_dtype, b_dtype, d_dtype: number formats.
        a_major, b_major: "K" or "MN" (transposed).
        negate_a, negate_b: multiply with the negated matrix.
        saturate: integers stop at their limits instead of wrapping round.
        max_shift: columns by which ``.ws`` may shift B.

    >>> d = InstructionDescriptor.decode(0x08210490, "f16")
    >>> d.m, d.n, d.k, d.a_dtype, d.d_dtype, d.b_major
    (128, 128, 16, 'bf16', 'f32', 'MN')
    """

    kind: Kind
    m: int
    n: int
    a_dtype: str
    b_dtype: str
    d_dtype: str
    a_major: Major = "K"
    b_major: Major = "K"
    negate_a: bool = False
    negate_b: bool = False
    saturate: bool = False
    max_shift: int = 0

    @property
    def operand_bytes(self) -> int:
        """Bytes of an element of A and B where they are stored."""
        return OPERAND_BYTES[self.kind]

    @property
    def k(self) -> int:
        """Elements along K of one MMA: 32 bytes."""
        return 32 // self.operand_bytes

    @classmethod
    def decode(cls, value: int, kind: str) -> InstructionDescriptor:
        """Read an instruction descriptor.

        Args:
            value: the 32 bits.
            kind: the instruction's ``.kind::``, one of `TYPES`.

        Raises:
            ValueError: the kind is not modelled, or a field holds what it may not.
        """
        value = int(value)
        if kind not in TYPES:
            raise ValueError(f"kind {kind!r} is not modelled; use one of {', '.join(TYPES)}")

        def refuse(what: str) -> ValueError:
            return ValueError(f"instruction descriptor {value:#010x} for kind::{kind}: {what}")

        if value & (1 << 6 | 1 << 23 | 1 << 29):
            raise refuse("the reserved bits 6, 23 and 29 must be 0")
        if value >> 2 & 1:
            raise refuse("sparse matrices (bit 2) are not modelled")
        types, results = TYPES[kind], RESULTS[kind]
        a, b, d = value >> 7 & 7, value >> 10 & 7, value >> 4 & 3
        if a not in types or b not in types:
            raise refuse(f"types of A and B are {a} and {b}; allowed are {types}")
        if d not in results:
            raise refuse(f"type of D is {d}; allowed are {results}")
        if kind == "f16" and results[d] == "f16" and "bf16" in (types[a], types[b]):
            raise refuse("D in f16 needs A and B in f16")
        if kind == "i8" and value >> 13 & 3:
            raise refuse("integers cannot be negated (bits 13 and 14)")
        if kind != "i8" and value >> 3 & 1:
            raise refuse("only integers saturate (bit 3)")
        decoded = cls(
            kind=kind,  # type: ignore[arg-type]
            m=(value >> 24 & 31) * 16,
            n=(value >> 17 & 63) * 8,
            a_dtype=types[a],
            b_dtype=types[b],
            d_dtype=results[d],
            a_major="MN" if value >> 15 & 1 else "K",
            b_major="MN" if value >> 16 & 1 else "K",
            negate_a=bool(value >> 13 & 1),
            negate_b=bool(value >> 14 & 1),
            saturate=bool(value >> 3 & 1),
            max_shift=(0, 8, 16, 32)[value >> 30 & 3],
        )
        for dtype, major in (
            (decoded.a_dtype, decoded.a_major),
            (decoded.b_dtype, decoded.b_major),
        ):
            if major == "MN" and dtype in ("e2m3", "e3m2", "e2m1"):
                raise refuse(f"{dtype} must be K-major")
        return decoded

    def check_shape(self, cta_group: int = 1, ws: bool = False) -> None:
        """Refuse a shape that the instruction doesn't have.

        Args:
            cta_group: CTAs that take part, 1 or 2.
            ws: weight-stationary form (``.ws``).

        Raises:
            ValueError: M or N isn't allowed; the message says what is.

        Source: PTX ISA 9.7.16.2.1, tables 39 and 52.

        >>> InstructionDescriptor.decode(0x08210490, "f16").check_shape(cta_group=2)
        >>> InstructionDescriptor.decode(0x08210490, "f16").check_shape(cta_group=3)
        Traceback (most recent call last):
            ...
        ValueError: there is no MMA with cta_group::3
        """
        if cta_group not in (1, 2) or (ws and cta_group == 2):
            form = ".ws " if ws else ""
            raise ValueError(f"there is no {form}MMA with cta_group::{cta_group}")
        rows, columns = self._shapes(cta_group, ws)
        if self.m not in rows or self.n not in columns:
            form = ".ws " if ws else ""
            raise ValueError(
                f"kind::{self.kind} {form}with cta_group::{cta_group} allows M in {rows} and N in "
                f"{columns}, not {self.m} x {self.n}"
            )

    def _shapes(self, cta_group: int, ws: bool) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the allowed M and N."""
        if ws:
            return (32, 64, 128), (64, 128, 256)
        rows = (64, 128) if cta_group == 1 else (128, 256)
        step = 8 * cta_group
        if self.operand_bytes == 1 and (self.kind == "i8" or self.b_major == "MN"):
            step *= 2
        columns = tuple(range(step, 257, step))
        if self.kind == "i8" and cta_group == 1 and self.b_major == "K":
            columns = (8, 16, 24, *columns[1:])
        return rows, columns
