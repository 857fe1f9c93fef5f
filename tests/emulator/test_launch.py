"""What a launch may say, and what is refused before a kernel runs."""

import numpy as np
import pytest

from fa4kernel.emulator import Launch, Pointer, Struct, emulate
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
        ([object(), bytes(24)], "object"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(arguments, words):
    with pytest.raises((ValueError, TypeError), match=words):
        emulate(COPY, Launch(ONE, ONE, arguments=arguments))
