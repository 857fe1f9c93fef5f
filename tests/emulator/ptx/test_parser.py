"""A module read from PTX: its functions, instructions and their places."""

import re
import time

import pytest

from fa4kernel.emulator.ptx.module import Label, Location, Module, PtxError, Symbol, Vector
from fa4kernel.emulator.ptx.parser import parse
from tests.emulator.ptx.snippets import entry, entry_text

TWO = """
.version 8.8
.target sm_100a, debug
.address_size 64
    // .globl first
.extern .shared .align 1024 .b8 pool[];
.global .b32 counter = 3;
.extern .func (.param .b32 status) print(.param .b64 format);
.alias other, print;
.visible .entry first()
.reqntid 128
{
    ret;
}
.func (.param .b32 out) helper(.param .b32 in) { .reg .b32 %r<2>;
    ld.param.b32 %r1, [in];
    st.param.b32 [out], %r1;
    ret; }
.visible .entry second() { .param .b32 a; .param .b32 b; call.uni (a), helper, (b); ret; }
    .file 1 "kernel.py"
    .section .debug_info { .b8 1, 2 }
"""


def test_a_module_has_its_heading_functions_and_variables() -> None:
    module = parse(TWO)
    assert (module.version, module.target, module.address_size) == ("8.8", "sm_100a, debug", 64)
    assert [(f.name, f.is_entry) for f in module.functions] == [
        ("first", True), ("helper", False), ("second", True)
    ]  # fmt: skip
    assert [(v.name, v.size, v.initial) for v in module.variables] == [
        ("pool", None, None), ("counter", 4, b"\3\0\0\0")
    ]  # fmt: skip
    assert module.files == {1: "kernel.py"}


def test_an_entry_is_chosen_by_name_unless_it_is_the_only_one() -> None:
    assert parse(TWO).entry("second").name == "second"
    assert parse(entry_text("ret;")).entry().name == "kernel"
    with pytest.raises(PtxError, match="first, second"):
        parse(TWO).entry()
    with pytest.raises(PtxError, match=r"helper.*first, second"):
        parse(TWO).entry("helper")
    with pytest.raises(PtxError, match="none"):
        Module("", "", 64, (), (), {}).entry()


def test_a_call_names_results_function_and_arguments() -> None:
    call = parse(TWO).entry("second").instructions[0]
    assert call.operands == (Vector((Symbol("a"),)), Symbol("helper"), Vector((Symbol("b"),)))


def test_an_opcode_is_split_at_single_dots_only() -> None:
    (instruction,) = entry(
        "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes"
        ".L2::cache_hint.cta_group::2 [%r1], [%rd1, {%r1, %r1, %r1, %r1}], [%r2], %rd2;"
    ).instructions
    assert instruction.opcode == "cp"
    assert instruction.qualifiers == (
        "async", "bulk", "tensor", "4d", "shared::cluster", "global",
        "mbarrier::complete_tx::bytes", "L2::cache_hint", "cta_group::2",
    )  # fmt: skip
    assert instruction.has("tensor", "cta_group::2") and not instruction.has("tensor", "cta_group")
    assert instruction.type == ""


def test_qualifiers_may_stand_apart() -> None:
    (instruction,) = entry("add\n.rn .f32 %r1, %r2, %r3;").instructions
    assert (instruction.opcode, instruction.qualifiers) == ("add", ("rn", "f32"))
    assert instruction.text == "add .rn .f32 %r1, %r2, %r3;"


@pytest.mark.parametrize(
    ("text", "type"),
    [
        ("mul.wide.u16 %r1, %rs1, 2;", "u16"),
        ("cvt.rn.bf16x2.f32 %r1, %r2, %r3;", "f32"),
        ("cvt.rn.satfinite.e4m3x2.f32 %rs1, %r2, %r3;", "f32"),
        ("fma.rn.f32x2 %rd1, %rd2, %rd3, %rd4;", "f32x2"),
        ("not.pred %p1, %p2;", "pred"),
        ("tcgen05.ld.sync.aligned.32x32b.x2.b32 {%r1, %r2}, [%r3];", "b32"),
        ("bar.sync 0;", ""),
    ],
)
def test_the_type_is_the_last_type_of_the_qualifiers(text: str, type: str) -> None:
    assert entry(text).instructions[0].type == type


def test_labels_have_the_index_of_what_comes_next() -> None:
    function = entry("a: b: ret; c:\n{ d: exit; }\ne:")
    assert function.labels == {"a": 0, "b": 0, "c": 1, "d@1": 1, "e": 2}


def test_a_branch_table_lists_its_labels() -> None:
    function = entry(
        "table: .branchtargets one, two;\none: brx.idx %r1, table;\n{ two: ret; }\ntwo:"
    )
    assert function.targets == {"table": ("one", "two")}
    assert function.instructions[0].operands[1] == Label("table")
    with pytest.raises(PtxError, match="no label"):
        entry("table: .branchtargets %r1;")


def test_lines_and_columns_are_those_of_the_text() -> None:
    text = entry_text("ret; /* two\nlines */ @%p1\n  exit; bar.sync\n\n0;\nL: ret;")
    lines = text.splitlines()
    for instruction in parse(text).entry().instructions:
        rest = lines[instruction.line - 1][instruction.column - 1 :]
        assert rest.startswith(instruction.text.split()[0])
    assert [i.line for i in parse(text).entry().instructions] == [3, 4, 5, 8]
    assert parse(text).entry().instructions[1].text == "@%p1 exit;"


def test_an_instruction_knows_its_source_line() -> None:
    text = entry_text(
        """ret;
        .loc 1 10 4
        ret; ret;
        .loc 2 5 0, function_name $L__info_string0, inlined_at 1 10 4
        ret;
        .loc 2 90 1, function_name $L__info_string1 + 12, inlined_at 2 5 0
        ret;
        .loc 7 1 1
        ret;"""
    )
    text += '.file 1 "kernel.py"\n.file 2 "lib/util.py", 0, 99\n'
    outer = Location("kernel.py", 10, 4)
    inner = Location("lib/util.py", 5, 0, "$L__info_string0", outer)
    assert [i.location for i in parse(text).entry().instructions] == [
        None, outer, outer, inner,
        Location("lib/util.py", 90, 1, "$L__info_string1", inner),
        Location("7", 1, 1),
    ]  # fmt: skip


def test_places_do_not_leak_from_one_function_into_the_next() -> None:
    text = ".entry a() { .loc 1 2 3 ret; } .entry b() { ret; }"
    assert parse(text).entry("b").instructions[0].location is None


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        (".version 8.8\nret;", 2, "outside a function"),
        (".entry f()\n{\n.visible .func g();\n}", 3, "inside a function"),
        ("\n.entry f(.param .reg x) { ret; }", 2, "no declaration"),
        ("\n.entry ;", 2, "no head"),
        (".entry f() {\n.reg .v2 .f32 v;\n}", 2, "vector registers"),
        (".global .b32 a;\n.global .b32 a;", 2, "declared twice"),
    ],
)
def test_a_text_that_cannot_be_read_is_reported_with_its_line(
    text: str, line: int, message: str
) -> None:
    with pytest.raises(PtxError, match=message) as caught:
        parse(text)
    assert caught.value.line == line
    assert str(caught.value).startswith(f"line {line}: ")


def test_parsing_takes_time_in_proportion_to_the_text() -> None:
    line = "L{0}: {{ .reg .pred P; @P bra L{0}; .loc 1 {0} 2\nfma.rn.f32 %r1, %r{1}, %r2, %r3; }}"

    def seconds(lines: int) -> float:
        text = entry_text("\n".join(line.format(n, n % 99) for n in range(lines)))
        start = time.process_time()
        function = parse(text).entry()
        assert len(function.instructions) == len(re.findall("bra|fma", text))
        return time.process_time() - start

    short = min(seconds(250) for _ in range(3))
    assert min(seconds(2000) for _ in range(3)) < 8 * short * 3


def test_lines_inside_inline_assembly_are_those_before_it() -> None:
    # LLVM counts the lines of the assembly text on from the place of the call.
    function = entry(
        """
        .loc 1 10 4
        // begin inline asm
        {
        .loc 1 12 4
        mov.b32 %r1, %r2;
        .loc 1 13 4
        mov.b32 %r2, %r1;
        }
        // end inline asm
        mov.b32 %r1, %r2;
        .loc 1 20 4
        ret;
        """
    )
    lines = [i.location.line for i in function.instructions if i.location is not None]
    assert lines == [10, 10, 10, 20]
