"""Variables, parameters and function heads."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fa4kernel.emulator.ptx.declarations import parameters_of, read_declaration, variables_of
from fa4kernel.emulator.ptx.module import Parameter, PtxError, Variable
from tests.emulator.ptx.snippets import entry


def variable(text: str) -> Variable:
    (found,) = variables_of(read_declaration(text))
    return found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (".extern .shared .align 1024 .b8 pool[];", ("shared", 1024, None, "b8")),
        (".shared .align 16 .b8 tile[4096];", ("shared", 16, 4096, "b8")),
        (".shared::cta .b64 bar;", ("shared", 8, 8, "b64")),
        (".global .attribute(.managed) .f32 g[2][3];", ("global", 4, 24, "f32")),
        (".local .v4 .f32 quad[2];", ("local", 16, 32, "f32")),
        (".visible .const .b8 c[0x10];", ("const", 1, 16, "b8")),
    ],
)
def test_a_variable_has_space_alignment_size_and_type(
    text: str, expected: tuple[str, int, int | None, str]
) -> None:
    found = variable(text)
    assert (found.space, found.align, found.size, found.type) == expected
    assert found.initial is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (".global .u16 a = 0x0102;", b"\x02\x01"),
        (".global .b8 b[] = {1, -1, 3};", b"\x01\xff\x03"),
        (".global .s16 c[2][2] = {{1, 2}, {3, 4}};", b"\x01\0\x02\0\x03\0\x04\0"),
        (".global .u8 p[5] = {1, 2};", b"\x01\x02\0\0\0"),
        (".const .f32 d = 1.0;", b"\x00\x00\x80\x3f"),
        (".const .f32 e = 0f3F800000;", b"\x00\x00\x80\x3f"),
        (".const .f64 f = 0f3F800000;", b"\x00\x00\x00\x00\x00\x00\xf0\x3f"),
    ],
)  # fmt: skip
def test_initial_values_are_little_endian_and_the_rest_is_zero(text: str, expected: bytes) -> None:
    found = variable(text)
    assert (found.initial, found.size) == (expected, len(expected))


@pytest.mark.parametrize(
    "text",
    [
        ".shared .b32 x<4>;",
        ".global .u64 p = other;",
        ".shared x;",
        ".texref t;",
        ".shared .b32 1-2;",
    ],
)
def test_odd_declarations_are_refused(text: str) -> None:
    with pytest.raises(PtxError):
        entry(text)


def test_what_a_pointer_points_to_does_not_align_the_parameter() -> None:
    first, second = parameters_of(".param .u32 n, .param .u64 .ptr .global .align 256 p")
    assert first == Parameter("n", "u32", 4, 4, 0)
    assert second == Parameter("p", "u64", 8, 8, 8)


@given(st.lists(st.tuples(st.sampled_from([1, 2, 4, 8, 16, 64]), st.integers(1, 200)), max_size=9))
def test_parameters_are_aligned_and_leave_no_room_they_need_not(
    wanted: list[tuple[int, int]],
) -> None:
    text = ",\n".join(f".param .align {a} .b8 p{n}[{size}]" for n, (a, size) in enumerate(wanted))
    end = 0
    for parameter, (align, size) in zip(parameters_of(text), wanted, strict=True):
        assert (parameter.align, parameter.size, parameter.offset % align) == (align, size, 0)
        assert end <= parameter.offset < end + align
        end = parameter.offset + size


def test_directives_of_the_head_are_kept_with_their_numbers() -> None:
    head = """.entry kernel(.param .u32 n) .reqntid 512, 1, 1 .minnctapersm 1 .explicitcluster
    .reqnctapercluster 2,1,1 .pragma "nounroll"; .maxnreg 128"""
    assert entry("ret;", head).directives == {
        "reqntid": (512, 1, 1),
        "minnctapersm": (1,),
        "explicitcluster": (),
        "reqnctapercluster": (2, 1, 1),
        "maxnreg": (128,),
    }
