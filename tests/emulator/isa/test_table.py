"""The table knows every scalar opcode, and refuses what it doesn't model by line and text."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fa4kernel.emulator.isa import DTYPES, OPCODES, Unsupported, semantics_of
from fa4kernel.emulator.ptx.module import Instruction, PtxError, Register
from fa4kernel.emulator.ptx.parser import parse
from tests.emulator.isa.case import Case, column, instruction, op
from tests.emulator.isa.tables import CASES

COLLECTIVE = {"shfl", "vote", "match", "redux", "elect", "activemask"}


def test_every_opcode_of_the_table_has_a_case() -> None:
    tested = {re.split(r"[.\s]", case.text, maxsplit=1)[0] for case in CASES}
    assert set(OPCODES) == tested | COLLECTIVE


@pytest.mark.parametrize(
    "opcode", ["ld", "bra", "mbarrier", "tcgen05", "cvta", "mapa", "setmaxnreg"]
)
def test_what_isn_t_scalar_is_left_to_others(opcode: str) -> None:
    assert semantics_of(Instruction(opcode, ("b32",), ())) is None


@pytest.mark.parametrize(
    ("text", "kinds", "complaint"),
    [
        ("add.cc.u32 d, a, b;", "u32 u32 -> u32", ".cc"),
        ("add.rna.f32 d, a, b;", "f32 f32 -> f32", ".rna"),
        ("add.ftz.f64 d, a, b;", "f64 f64 -> f64", ".ftz"),
        ("add.rz.f64 d, a, b;", "f64 f64 -> f64", "rz.f64"),
        ("add.sat.f32x2 d, a, b;", "f32x2 f32x2 -> f32x2", ".sat"),
        ("add.sat.u32 d, a, b;", "u32 u32 -> u32", ".sat"),
        ("fma.f32 d, a, b, c;", "f32 f32 f32 -> f32", "needs one of .rn"),
        ("fma.rn.oob.f16 d, a, b, c;", "f16 f16 f16 -> f16", ".oob"),
        ("mul.wide.u64 d, a, b;", "u64 u64 -> u64", "wide"),
        ("mul.u32 d, a, b;", "u32 u32 -> u32", "needs one of .lo, .hi, .wide"),
        ("max.f64 d, a, b, c;", "f64 f64 f64 -> f64", "3 operands"),
        ("max.xorsign.abs.f32 d, a, b, c;", "f32 f32 f32 -> f32", ".xorsign"),
        ("setp.lo.s32 p, a, b;", "s32 s32 -> pred", "lo"),
        ("setp.lt.b32 p, a, b;", "b32 b32 -> pred", "lt"),
        ("setp.ltu.u32 p, a, b;", "u32 u32 -> pred", "ltu"),
        ("setp.foo.u32 p, a, b;", "u32 u32 -> pred", "needs one of"),
        ("cvt.f16.f32 d, a;", "f32 -> f16", "needs one of .rn"),
        ("cvt.rn.f32.f16 d, a;", "f16 -> f32", ".rn"),
        ("cvt.rs.bf16x2.f32 d, a, b, c;", "f32 f32 b32 -> bf16x2", "needs one of .rn, .rz"),
        ("cvt.rn.e4m3x2.f32 d, a, b;", "f32 f32 -> e4m3x2", "satfinite"),
        ("cvt.rn.satfinite.s2f6x2.f32 d, a, b;", "f32 f32 -> b16", "cvt"),
        ("ex2.approx.ftz.f16 d, a;", "f16 -> f16", ".ftz"),
        ("tanh.approx.ftz.f32 d, a;", "f32 -> f32", ".ftz"),
        ("sqrt.f32 d, a;", "f32 -> f32", "needs one of .approx"),
        ("shl.s32 d, a, b;", "s32 u32 -> s32", "shl"),
        ("lop3.b32 d, a, b, c, f;", "b32 b32 b32 b32 -> b32", "literal"),
        ("lop3.b32 d, a, b, c, 256;", "b32 b32 b32 -> b32", "256"),
        ("add.s32 d, a;", "s32 -> s32", "2 sources"),
        ("add.s64 d, a, b;", "s32 s64 -> s64", "too few"),
        ("vote.any.pred p, a;", "pred -> pred", "sync"),
        ("match.any.sync.b32 d|p, a, b;", "b32 b32 -> b32 pred", "one result"),
        ("redux.sync.add.f32 d, a, b;", "f32 b32 -> f32", "f32"),
    ],
)
def test_an_unknown_spelling_is_refused_with_its_line_and_text(
    text: str, kinds: str, complaint: str
) -> None:
    line = instruction(op(text, kinds))
    with pytest.raises(Unsupported) as caught:
        semantics_of(line)
    error = caught.value
    assert isinstance(error, PtxError)
    assert error.line == line.line > 0 and error.text == line.text
    assert text.rstrip(";").split()[0] in str(error) and complaint in str(error)


def test_registers_wider_than_the_type_are_cut_and_extended() -> None:
    wide, narrow = Register("%r1", "b32"), Register("%rs1", "b16")
    for text in ("s16", "u16"):
        semantics = semantics_of(Instruction("cvt", (text, "s32"), (wide, wide)))
        assert semantics is not None and bits(semantics.outputs[0]) == 32
    semantics = semantics_of(Instruction("cvt", ("u32", "u8"), (wide, narrow)))
    assert semantics is not None and bits(semantics.inputs[0]) == 16


def bits(kind: str) -> int:
    return DTYPES[kind].itemsize * 8


UFUNCS = [
    case
    for case in CASES
    if (semantics := semantics_of(instruction(case))) is not None
    and semantics.ufunc
    and semantics.packed == 1
    and len(semantics.inputs) == len(case.sources)
]


@pytest.mark.parametrize("case", UFUNCS, ids=lambda case: case.text)
@given(data=st.data())
@settings(max_examples=5)
def test_out_may_be_an_input_and_where_protects_the_other_lanes(
    case: Case, data: st.DataObject
) -> None:
    semantics = semantics_of(instruction(case))
    assert semantics is not None
    n = len(case.rows)
    where = np.array(data.draw(st.lists(st.booleans(), min_size=n, max_size=n)))
    inputs = [column(case, i, kind) for i, kind in enumerate(semantics.inputs)]
    dtype = DTYPES[semantics.outputs[0]]
    with np.errstate(all="ignore"):
        plain = np.broadcast_to(np.asarray(semantics.function(*inputs)), (n,)).astype(dtype)
        kept = np.zeros(n, dtype)
        semantics.function(*inputs, out=kept, where=where)
        assert raw(kept[where]) == raw(plain[where]) and not any(raw(kept[~where]))
        alias = [i for i, kind in enumerate(semantics.inputs) if DTYPES[kind] == dtype]
        for i in alias:
            copies = [x.copy() for x in inputs]
            semantics.function(*copies, out=copies[i], where=True)
            assert raw(copies[i]) == raw(plain)


def raw(x: np.ndarray) -> list[int]:
    x = np.ascontiguousarray(x)
    return [int(v) for v in (x if x.dtype == bool else x.view(f"u{x.dtype.itemsize}"))]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.text)
def test_inputs_stay_as_they_are(case: Case) -> None:
    semantics = semantics_of(instruction(case))
    assert semantics is not None
    if semantics.packed == 2 or len(semantics.inputs) != len(case.sources):
        return
    inputs = [column(case, i, kind) for i, kind in enumerate(semantics.inputs)]
    for array in inputs:
        array.flags.writeable = False
    before = [x.tobytes() for x in inputs]
    with np.errstate(all="ignore"):
        semantics.function(*inputs)
    assert [x.tobytes() for x in inputs] == before


def test_a_qualifier_may_stand_anywhere() -> None:
    for text in ("add.ftz.rn.f32", "add.f32.rn.ftz"):
        head = ".version 8.8\n.target sm_100a\n.visible .entry k()\n{\n.reg .f32 d;\n"
        semantics = semantics_of(parse(f"{head}{text} d, d, d;\nret;\n}}").entry().instructions[0])
        assert semantics is not None and semantics.inputs == ("f32", "f32")
