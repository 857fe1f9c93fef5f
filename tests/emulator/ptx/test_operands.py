"""What the operands of an instruction are."""

import pytest

from fa4kernel.emulator.ptx.module import (
    Address,
    Guard,
    Immediate,
    Label,
    Not,
    Pair,
    PtxError,
    Register,
    Sink,
    Special,
    Symbol,
    TensorAddress,
    Vector,
)
from tests.emulator.ptx.snippets import entry

HEAD = ".visible .entry kernel(.param .align 64 .b8 map[128], .param .u32 n)"
R1, R2, R3 = (Register(f"%r{n}", "b32") for n in (1, 2, 3))
RD1, P1, P2 = Register("%rd1", "b64"), Register("%p1", "pred"), Register("%p2", "pred")


@pytest.mark.parametrize(
    ("text", "operand"),
    [
        ("%r1", R1),
        ("-7", Immediate(-7)),
        ("0xFFFFFFFF", Immediate(0xFFFFFFFF)),
        ("%tid.x", Special("%tid.x")),
        ("%cluster_ctarank", Special("%cluster_ctarank")),
        ("map", Symbol("map", 0)),
        ("map+64", Symbol("map", 64)),
        ("_", Sink()),
        ("!%p1", Not(P1)),
        ("%p1|%p2", Pair(P1, P2)),
        ("_|%p2", Pair(Sink(), P2)),
        ("%r1 | _", Pair(R1, Sink())),
        ("{%r1, 0x40004040}", Vector((R1, Immediate(0x40004040)))),
        ("{_,\n%r2 , %r3}", Vector((Sink(), R2, R3))),
        ("[%r1]", Address(R1, 0)),
        ("[%r1+134144]", Address(R1, 134144)),
        ("[%r1 + 0x8]", Address(R1, 8)),
        ("[%r1+-16]", Address(R1, -16)),
        ("[%r1 - 16]", Address(R1, -16)),
        ("[map+8]", Address(Symbol("map", 0), 8)),
        ("[1024]", Address(Immediate(1024), 0)),
        ("[%rd1, {%r1, %r2, 0}]", TensorAddress(RD1, (R1, R2, Immediate(0)))),
        ("[ %rd1 , {%r1} , {%r2} ]", TensorAddress(RD1, (R1,), (Vector((R2,)),))),
        ("end", Label("end")),
    ],
)
def test_an_operand_is_read_as_what_it_is(text: str, operand: object) -> None:
    (instruction,) = entry(f"op.b32 {text}, {text}; end:", HEAD).instructions
    assert instruction.operands == (operand, operand)


@pytest.mark.parametrize("spelling", ["@%p1 ", "@ %p1  ", "@%p1\n\t"])
def test_a_guard_may_be_spaced_out(spelling: str) -> None:
    negated = spelling.replace("@", "@!")
    plain, other = entry(f"{spelling}exit; {negated}exit;").instructions
    assert (plain.guard, other.guard) == (Guard(P1), Guard(P1, negated=True))


@pytest.mark.parametrize(
    "text",
    ["%r99", "%r01", "%tid.q", "nothing", "kernel*2", "1 2", "%r1,, %r2", "{%r1}+4", "!%r1",
     "[%r1", "[]", "[%r1*4]", "[%rd1, %r1]", "[%rd1+8, {%r1}]", "%r1|1", "%p1|%p2|%p3"],
)  # fmt: skip
def test_what_is_no_operand_is_reported_with_line_and_text(text: str) -> None:
    with pytest.raises(PtxError) as caught:
        entry(f"ret;\nop.b32 {text};")
    assert (caught.value.line, caught.value.text) == (4, f"op.b32 {text};")


def test_a_guard_must_be_a_predicate() -> None:
    with pytest.raises(PtxError, match="no predicate register"):
        entry("@%r1 exit;")


def test_a_missing_semicolon_does_not_hide_an_instruction() -> None:
    with pytest.raises(PtxError):
        entry("add.s32 %r1, %r2, 1\nadd.s32 %r1, %r2, 2;")
