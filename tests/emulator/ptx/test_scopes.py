"""Names that blocks declare: inline assembly brings many of them, the same ones again and again."""

import pytest

from fa4kernel.emulator.ptx.module import Function, Label, PtxError, Register, Symbol
from tests.emulator.ptx.snippets import entry

WAIT = """{
    .reg .pred P1;
again:
    mbarrier.try_wait.parity.shared::cta.b64 P1, [%r1], 0, 10000000;
    @P1 bra.uni done;
    bra.uni again;
done:
}"""


def names(function: Function) -> list[str]:
    return [operand.name for i in function.instructions for operand in i.operands
            if isinstance(operand, Register | Label)]  # fmt: skip


def test_two_blocks_with_the_same_names_do_not_meet() -> None:
    function = entry(f"{WAIT}\n{WAIT}\nret;")
    assert function.labels == {"again@1": 0, "done@1": 3, "again@2": 3, "done@2": 6}
    assert names(function) == ["P1@1", "done@1", "again@1", "P1@2", "done@2", "again@2"]
    assert set(function.registers) == {"P1@1", "P1@2", "%r1"}


def test_a_name_means_what_the_innermost_block_says() -> None:
    body = """.reg .b32 x;
    mov.b32 x, 0;
    {   mov.b32 x, 1;
        .reg .b64 x;
        mov.b64 x, 2;
        { .reg .f32 x; mov.f32 x, 0f00000000; }
        mov.b64 x, 3;
    }
    { mov.b32 x, 4; }
    mov.b32 x, 5;"""
    assert names(entry(body)) == ["x", "x", "x@1", "x@2", "x@1", "x", "x"]
    assert entry(body).registers["x@1"] == Register("x@1", "b64")


def test_a_block_may_jump_out_to_a_label_that_comes_later() -> None:
    function = entry("{ bra.uni out; }\nret;\nout: exit;")
    assert function.instructions[0].operands == (Label("out"),)
    assert function.labels == {"out": 2}


def test_nothing_outlives_its_block() -> None:
    with pytest.raises(PtxError, match="'x'"):
        entry("{ .reg .b32 x; }\nmov.b32 x, 0;")
    with pytest.raises(PtxError, match="'inner'"):
        entry("{ inner: ret; }\nbra inner;")


def test_a_family_has_as_many_registers_as_it_says() -> None:
    body = """.reg .b64 desc_<3>; .reg .b32 d1<12>, single;
    mov.b64 desc_0, desc_2; mov.b32 d111, single;"""
    assert names(entry(body)) == ["desc_0", "desc_2", "d111", "single"]
    with pytest.raises(PtxError, match="desc_3"):
        entry(body + "mov.b64 desc_0, desc_3;")


def test_only_registers_that_are_used_are_listed() -> None:
    function = entry("{ .reg .pred q; @!q add.s32 %r4, %r5, 1; }")
    assert set(function.registers) == {"q@1", "%r4", "%r5"}


@pytest.mark.parametrize(
    "twice", ["L: ret; L: ret;", ".reg .b32 a, a;", ".reg .b32 a; .shared .b32 a;"]
)
def test_a_name_is_declared_once_in_a_block(twice: str) -> None:
    with pytest.raises(PtxError, match="declared twice"):
        entry(twice)


def test_blocks_that_do_not_close_are_reported() -> None:
    with pytest.raises(PtxError, match="does not end"):
        entry("{ ret;")
    with pytest.raises(PtxError, match="outside a function"):
        entry("ret; }")


def test_a_shared_variable_of_a_block_has_a_name_of_its_own() -> None:
    block = "{ .shared .align 8 .b64 bar; mov.b32 %r1, bar; }"
    function = entry(block + block)
    assert [variable.name for variable in function.variables] == ["bar@1", "bar@2"]
    assert [i.operands[1] for i in function.instructions] == [Symbol("bar@1"), Symbol("bar@2")]
