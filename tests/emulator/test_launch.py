"""What a launch may say, and what is refused before a kernel runs."""

import numpy as np
import pytest

from fa4kernel.emulator import EmulationError, Launch, Pointer, Struct, emulate
from fa4kernel.emulator.launch import check_launch

ONE = (1, 1, 1)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"grid": (0, 1, 1), "block": ONE}, r"grid=\(0, 1, 1\)"),
        ({"grid": ONE, "block": (2048, 1, 1)}, "1024 are the most"),
        ({"grid": (3, 1, 1), "block": ONE, "cluster": (2, 1, 1)}, "make x a multiple of 2"),
        ({"grid": ONE, "block": ONE, "shared_bytes": 300_000}, "shared_bytes=300000"),
        ({"grid": (32, 1, 1), "block": ONE, "cluster": (32, 1, 1)}, "more than 16 CTAs"),
        ({"grid": (1.5, 1, 1), "block": ONE}, "grid has 1.5 in it"),
        ({"grid": ("2",), "block": ONE}, "grid has '2' in it"),
        ({"grid": (1, 65_536, 1), "block": ONE}, "the most are"),
        ({"grid": ONE, "block": (1, 1, 128)}, r"block=\(1, 1, 128\): the most are"),
        ({"grid": ONE, "block": ONE, "registers_per_thread": -3}, "registers_per_thread=-3"),
        ({"grid": ONE, "block": ONE, "pending": (1,), "arguments": [1]}, "pending has 1"),
        ({"grid": ONE, "block": ONE, "arguments": None}, "arguments is a NoneType"),
        ({"grid": ONE, "block": ONE, "arguments": np.zeros(2)}, "arguments is a ndarray"),
    ],
)
def test_impossible_launches_are_refused(given, words):
    with pytest.raises(ValueError, match=words):
        Launch(**given)


def test_missing_dimensions_are_one():
    assert Launch(grid=(4,), block=(32, 2)).grid == (4, 1, 1)


@pytest.mark.parametrize(
    ("directives", "words"),
    [
        ({"reqntid": (128,)}, r"compiled for \(128, 1, 1\) \(.reqntid\)"),
        ({"maxntid": (32, 1, 1)}, "at most 32"),
        ({"reqnctapercluster": (2,)}, r"cluster=\(1, 1, 1\)"),
    ],
)
def test_a_kernel_is_launched_as_it_was_compiled(directives, words):
    with pytest.raises(ValueError, match=words):
        check_launch(Launch(ONE, (64, 1, 1)), directives)


def kernel(parameters, body):
    return f"""
    .version 8.8
    .target sm_100a
    .address_size 64
    .visible .entry k({parameters})
    {{ .reg .b32 %r<9>; .reg .b64 %rd<9>; {body} ret; }}
    """


COPY = kernel(
    ".param .u64 to, .param .align 8 .b8 s[24]",
    """ld.param.u64 %rd1, [to]; ld.param.u32 %r1, [s]; ld.param.u64 %rd2, [s+8];
    ld.param.f32 %r2, [s+16]; ld.global.u32 %r3, [%rd2];
    st.global.v4.b32 [%rd1], {%r1, %r2, %r3, %r3};""",
)


def test_structs_are_laid_out_as_c_does():
    out, other = np.zeros(4, np.uint32), np.arange(10, dtype=np.uint32)
    emulate(COPY, Launch(ONE, ONE, arguments=[out, Struct(7, Pointer(other, 12), 1.5)]))
    assert out.tolist() == [7, np.float32(1.5).view(np.uint32), 3, 3]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([np.zeros(4, np.uint32)], "has 2 parameters, the launch gives 1"),
        ([np.zeros(4, np.uint32), b"12"], "argument 1 has 2 bytes, the parameter 24"),
        ([np.zeros((4, 4), np.uint32)[:, ::2], bytes(24)], "not contiguous"),
        ([np.uint32(1), bytes(24)], "has 4 bytes, the parameter 8"),
        (
            [np.zeros(4, np.uint32), np.zeros((9, 2))],
            r"argument 1 has 8 bytes, the parameter 24: a pointer to float64 \(9, 2\); .*Struct",
        ),
        ([object(), bytes(24)], "object"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(arguments, words):
    with pytest.raises((ValueError, TypeError), match=words):
        emulate(COPY, Launch(ONE, ONE, arguments=arguments))


@pytest.mark.parametrize(
    ("argument", "words"),
    [
        (1.5, "argument 0: 1.5 is a float; the parameter is a whole number"),
        ([1], r"argument 0: \[1\] \(list\) cannot be passed"),
        ("x", "argument 0: 'x' .* cannot be passed"),
        (np.zeros(4, object), "dtype object"),
        (np.zeros(4, ">u4"), "dtype >u4"),
        (Pointer([1, 2]), "a Pointer to a list"),  # type: ignore[arg-type]
    ],
)
def test_what_no_kernel_can_be_given_is_refused(argument, words):
    with pytest.raises(ValueError, match=words):
        emulate(kernel(".param .u64 p", ""), Launch(ONE, ONE, arguments=[argument]))


def test_an_address_without_any_array_is_out_of_bounds():
    store = "ld.param.u64 %rd1, [p]; st.global.u32 [%rd1], %r1;"
    with pytest.raises(EmulationError, match="global address 0x40: no argument points there"):
        emulate(kernel(".param .u64 p", store), Launch(ONE, ONE, arguments=[64]))


@pytest.mark.parametrize(
    "option",
    [{"processes": 0}, {"processes": "2"}, {"resident_ctas": -1}, {"arithmetic": "slow"},
     {"trace": ""}],
    ids=str,
)  # fmt: skip
def test_options_that_make_no_sense_are_refused(option):
    (name,) = option
    with pytest.raises(ValueError, match=f"{name}="):
        emulate(kernel("", ""), Launch(ONE, ONE), **option)
