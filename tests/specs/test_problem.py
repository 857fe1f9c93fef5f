"""What is asked for: what follows from the fields, and what is refused with which words."""

import dataclasses
import json
import re

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from fa4sim.numerics.masks import mask_matrix
from fa4sim.specs import Problem, as_window

SIDES = st.none() | st.integers(-40, 60)
LENGTHS = st.integers(1, 40)


def refused(words, **fields):
    with pytest.raises(ValueError) as caught:
        Problem(**fields)
    assert words in str(caught.value)
    return str(caught.value)


# -- what follows ------------------------------------------------------------------------------


def test_what_is_not_given_follows_from_what_is():
    problem = Problem(heads=12, seqlen_q=300, head_dim=72)
    assert (problem.kv_heads, problem.seqlen_k, problem.dim_v) == (12, 300, 72)
    assert problem.group == 1 and not problem.varlen and not problem.is_local
    assert Problem(heads=12, kv_heads=4).group == 3


def test_key_lengths_by_sequence_follow_the_query_lengths():
    problem = Problem(seqlens_q=(5, 300, 0))
    assert problem.seqlens_k == (5, 300, 0)
    assert (problem.batch, problem.seqlen_q, problem.seqlen_k) == (3, 300, 300)
    assert [problem.lengths(b) for b in range(3)] == [(5, 5), (300, 300), (0, 0)]


def test_one_side_of_the_lengths_may_be_equal():
    by_keys = Problem(seqlen_q=1, seqlens_k=(10, 20))
    assert [by_keys.lengths(b) for b in range(2)] == [(1, 10), (1, 20)]
    by_queries = Problem(seqlens_q=(10, 20), seqlen_k=50)
    assert [by_queries.lengths(b) for b in range(2)] == [(10, 50), (20, 50)]
    assert by_keys.varlen and by_queries.varlen


def test_numbers_of_numpy_and_floats_without_fraction_are_taken():
    problem = Problem(
        batch=np.int64(2), heads=np.int32(8), kv_heads=4.0, seqlen_q=np.uint16(256),
        head_dim=np.int8(64), causal=np.True_, softcap=np.float32(30), softmax_scale=1,
    )  # fmt: skip
    plain = Problem(
        batch=2, heads=8, kv_heads=4, seqlen_q=256, head_dim=64, causal=True, softcap=30.0,
        softmax_scale=1.0,
    )  # fmt: skip
    assert problem == plain and hash(problem) == hash(plain)
    assert {type(v) for v in dataclasses.astuple(problem)} <= {int, bool, str, float, type(None)}
    assert Problem(seqlens_q=np.array([3, 4]), seqlens_k=[5, 6.0]) == Problem(
        seqlens_q=(3, 4), seqlens_k=(5, 6)
    )


def test_causal_is_a_window_without_left_side():
    assert Problem(window=(None, 0)) == Problem(causal=True)
    assert Problem(causal=True, window=(None, None)) == Problem(causal=True)
    both = Problem(causal=True, window=(64, None))
    assert both == Problem(window=(64, 0)) and not both.causal and both.is_local
    assert Problem(window=(None, None)) == Problem()
    assert Problem(window=[3, 4]).window == (3, 4)


def test_a_problem_can_be_changed_and_compared():
    problem = Problem(seqlens_q=(5, 6), heads=4, causal=True)
    assert dataclasses.replace(problem, heads=8).heads == 8
    assert dataclasses.replace(problem) == problem


# -- FLOPs -------------------------------------------------------------------------------------


@given(
    heads=st.integers(1, 4), q=LENGTHS, k=st.integers(0, 40), batch=st.integers(1, 3),
    dims=st.sampled_from([(64, 64), (128, 128), (192, 128), (72, 40)]),
)  # fmt: skip
def test_flops_are_four_per_pair_and_mean_head_dimension(heads, q, k, batch, dims):
    d, dv = dims
    fields = {"batch": batch, "heads": heads, "seqlen_q": q, "seqlen_k": k,
              "head_dim": d, "head_dim_v": dv}  # fmt: skip
    full = Problem(**fields).flops
    assert full == 4 * batch * heads * q * k * (d + dv) // 2
    assert 2 * Problem(**fields, causal=True).flops == full


def test_the_published_counts():
    # 32k tokens, 16 heads, head dim 128: what the FLOP/s of the paper's table refer to.
    flops = {
        n: Problem(batch=32768 // n, heads=16, seqlen_q=n).flops for n in (1024, 4096, 16384, 32768)
    }
    assert flops[4096] == 4 * 8 * 16 * 4096**2 * 128 == 1_099_511_627_776
    assert [flops[n] // flops[1024] for n in flops] == [1, 4, 16, 32]


def test_half_of_an_odd_square_is_not_rounded():
    assert Problem(seqlen_q=1, causal=True, head_dim=64).flops == 128
    assert Problem(seqlen_q=3, seqlen_k=5, causal=True, head_dim=64).flops == 15 * 128


@given(q=LENGTHS, k=LENGTHS, window=st.tuples(SIDES, SIDES))
def test_a_window_counts_the_keys_that_the_mask_matrix_shows(q, k, window):
    assume(None in window or sum(window) >= 0)
    seen = int(mask_matrix(q, k, window=window).sum())
    assume(seen)
    problem = Problem(seqlen_q=q, seqlen_k=k, window=window, head_dim=64)
    assert problem.visible_pairs(q, k) == seen
    if not problem.causal:
        assert problem.flops == 4 * seen * 64


def test_variable_lengths_are_summed():
    problem = Problem(heads=3, seqlens_q=(5, 0, 7), seqlens_k=(2, 9, 0), head_dim=64)
    assert problem.flops == 4 * 3 * 5 * 2 * 64
    local = Problem(seqlens_q=(50, 30), seqlens_k=(20, 90), window=(9, 4))
    parts = [Problem(seqlen_q=q, seqlen_k=k, window=(9, 4)).flops for q, k in ((50, 20), (30, 90))]
    assert local.flops == sum(parts)


def test_the_largest_lengths_are_counted_at_once_and_exactly():
    n = 2**31 - 1
    assert Problem(seqlen_q=n, window=(0, 0)).flops == 4 * n * 128
    assert Problem(seqlen_q=n, window=(1, 0)).flops == 4 * (2 * n - 1) * 128
    assert Problem(seqlen_q=n, window=(n, n)).flops == 4 * n * n * 128
    assert Problem(batch=n, heads=n, seqlen_q=n, causal=True).flops == 2 * n**4 * 128


# -- what is refused ---------------------------------------------------------------------------

COUNTS = ("batch", "heads", "kv_heads", "seqlen_q")


@pytest.mark.parametrize("name", COUNTS)
@pytest.mark.parametrize("value", [0, -1, -(2**70)])
def test_counts_start_at_one(name, value):
    refused("must be at least 1", **{name: value})


@pytest.mark.parametrize("name", [*COUNTS, "seqlen_k", "head_dim", "head_dim_v"])
@pytest.mark.parametrize("value", ["4", 2.5, True, float("nan"), [4], 1j, object])
def test_counts_are_whole_numbers(name, value):
    message = refused("must be a whole number", **{name: value})
    assert message.startswith(f"{name}={value!r}")


@pytest.mark.parametrize("name", [*COUNTS, "seqlen_k"])
def test_counts_fit_into_32_bits(name):
    refused("2147483648 must be at most 2147483647", **{name: 2**31})


def test_no_keys_at_all_is_a_problem_and_a_negative_number_of_them_is_not():
    assert Problem(seqlen_k=0).flops == 0
    refused("seqlen_k=-1 must be at least 0", seqlen_k=-1)


@pytest.mark.parametrize(
    "fields, words",
    [
        ({"seqlens_q": (3, -1)}, "seqlens_q[1]=-1 must be at least 0"),
        ({"seqlens_k": (2.5,)}, "seqlens_k[0]=2.5 must be a whole number"),
        ({"seqlens_k": ("5",)}, "seqlens_k[0]='5' must be a whole number"),
        ({"seqlens_q": ()}, "seqlens_q is empty; give one length per sequence"),
        ({"seqlens_q": 5}, "seqlens_q=5 must be a list of lengths"),
        ({"seqlens_q": "12"}, "seqlens_q='12' must be a list of lengths"),
        ({"seqlens_q": (1, 2), "seqlens_k": (1,)}, "seqlens_q has 2 sequences and seqlens_k has 1"),
        ({"seqlens_q": (1, 2), "batch": 3}, "batch=3, but 2 sequence lengths are given"),
        ({"seqlens_q": np.ones((2, 2), int)}, "seqlens_q[0]=array([1, 1]) must be a whole number"),
    ],
)
def test_lengths_by_sequence_make_one_batch(fields, words):
    refused(words, **fields)


def test_heads_divide_into_groups():
    message = refused("heads=6 is no multiple of kv_heads=4", heads=6, kv_heads=4)
    assert "use 4, 8, 12, … heads" in message
    refused("heads=2 is no multiple of kv_heads=4", heads=2, kv_heads=4)


@pytest.mark.parametrize(
    "pair, dtype",
    [
        *(((d, d), "bf16") for d in range(8, 129, 8)),
        *(((d, d), "e4m3") for d in range(16, 129, 16)),
        ((192, 128), "bf16"), ((192, 128), "e5m2"), ((72, 40), "fp16"),
    ],
)  # fmt: skip
def test_supported_head_dims(pair, dtype):
    problem = Problem(head_dim=pair[0], head_dim_v=pair[1], dtype=dtype)
    assert (problem.head_dim, problem.dim_v) == pair


@pytest.mark.parametrize(
    "pair, dtype, words",
    [
        ((4, 4), "bf16", "use multiples of 8 from 8 to 128"),
        ((0, 0), "bf16", "(0, 0) are not supported"),
        ((-8, -8), "bf16", "(-8, -8) are not supported"),
        ((100, 100), "fp16", "(100, 100) are not supported for fp16"),
        ((8, 8), "e4m3", "use multiples of 16 from 16 to 128"),
        ((136, 136), "bf16", "or (192, 128)"),
        ((192, 192), "bf16", "or (192, 128)"),
        ((128, 192), "bf16", "or (192, 128)"),
        ((256, 256), "bf16", "run in a kernel of their own, which is not modelled"),
        ((64, 512), "bf16", "run in a kernel of their own"),
        ((10**6, 10**6), "bf16", "(1000000, 1000000) are not supported"),
    ],
)
def test_other_head_dims_are_refused_with_what_would_do(pair, dtype, words):
    message = refused(words, head_dim=pair[0], head_dim_v=pair[1], dtype=dtype)
    assert str(pair) in message


@pytest.mark.parametrize("dtype", ["fp32", "BF16", "", None, 16, ["bf16"]])
def test_formats_have_names(dtype):
    message = refused("must be one of bf16, fp16, e4m3, e5m2", dtype=dtype)
    assert message.startswith(f"dtype={dtype!r}")


@pytest.mark.parametrize("name", ["causal", "sink"])
def test_switches_are_true_or_false(name):
    refused(f"{name}=1 must be True or False", **{name: 1})
    refused(f"{name}='no' must be True or False", **{name: "no"})


@pytest.mark.parametrize(
    "fields, words",
    [
        ({"softcap": -1}, "softcap=-1.0 must be 0 (off) or a positive number"),
        ({"softcap": float("inf")}, "softcap=inf must be a finite number"),
        ({"softcap": "x"}, "softcap='x' must be a finite number"),
        ({"softcap": True}, "softcap=True must be a finite number"),
        ({"softmax_scale": 0}, "softmax_scale=0.0 must be a positive number"),
        ({"softmax_scale": float("nan")}, "softmax_scale=nan must be a finite number"),
    ],
)
def test_scales_are_finite_and_positive(fields, words):
    refused(words, **fields)


@pytest.mark.parametrize(
    "window", ["12", "ab", 7, (1,), (1, 2, 3), {"left": 1}, (1.5, 0), (True, 0), ("1", 0), b"12"]
)
def test_a_window_is_a_pair_of_whole_numbers_or_none(window):
    assert repr(window) in refused("window=", window=window) or "whole number" in refused(
        "window=", window=window
    )


@pytest.mark.parametrize(
    "fields, words",
    [
        ({"window": (-1, -1)}, "window=(-1, -1) excludes every key: left + right is -2"),
        ({"window": (-1, 0)}, "use None, or leave it empty"),
        ({"window": (-5, 4)}, "left + right is -1"),
        ({"causal": True, "window": (4, 4)}, "causal and window=(4, 4) contradict each other"),
        ({"causal": True, "window": (-1, None)}, "left + right is -1"),
        (
            {"window": (None, -1024)},
            "window=(None, -1024) excludes every key: with 1024 queries and 1024 keys no query",
        ),
        ({"window": (-500, None), "seqlen_q": 500, "seqlen_k": 300}, "with 500 queries and 300"),
        ({"window": (None, -20), "seqlens_q": (9, 9), "seqlens_k": (20, 7)}, "with 9 queries"),
    ],
)
def test_a_window_that_excludes_everything_is_refused(fields, words):
    refused(words, **fields)


@given(q=LENGTHS, k=LENGTHS, window=st.tuples(SIDES, SIDES))
def test_a_window_is_refused_exactly_if_no_query_sees_a_key(q, k, window):
    left, right = window
    seen = bool(mask_matrix(q, k, window=window).any())
    seen &= left is None or right is None or left + right >= 0
    try:
        Problem(seqlen_q=q, seqlen_k=k, window=window)
    except ValueError as error:
        assert not seen, error
    else:
        assert seen


def test_a_window_with_nothing_to_look_at_is_no_mistake():
    assert Problem(seqlen_k=0, window=(3, 0)).flops == 0
    assert Problem(seqlens_q=(0, 4), seqlens_k=(7, 0), window=(3, 0)).flops == 0


def test_splits_are_0_to_256():
    assert [Problem(num_splits=n).num_splits for n in (0, 1, 256)] == [0, 1, 256]
    for wrong in (-1, 257, 10**400):
        refused("must be 0 to 256: 0 leaves it to the heuristic, 1 never splits", num_splits=wrong)
    for wrong in (True, None, "4", 1.5):
        refused(f"num_splits={wrong!r} must be a whole number", num_splits=wrong)


def test_a_page_has_one_token_or_more():
    assert Problem(page_size=np.int64(16)).page_size == 16 and Problem().page_size is None
    for wrong in (0, -16):
        refused(f"page_size={wrong} must be at least 1", page_size=wrong)
    refused("page_size=1.5 must be a whole number", page_size=1.5)
    refused(f"page_size={2**31} must be at most", page_size=2**31)


# -- lengths from a file -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        json.dumps({"q": [128, 512], "k": [512, 0]}),
        json.dumps({"q": [128.0, 512], "k": [512, 0]}),
        "q,k\n128,512\n512,0\n",
        "\ufeffq, k\r\n128, 512\r\n512, 0\r\n",
        "k,q\n512,128\n0,512",
    ],
)
def test_lengths_are_read_from_json_and_csv(tmp_path, text):
    path = tmp_path / "lengths"
    path.write_text(text, encoding="utf-8", newline="")
    assert Problem.lengths_from_file(path) == ((128, 512), (512, 0))


@pytest.mark.parametrize(
    "text, words",
    [
        ('{"q": [1, 2]}', "there is no 'k'"),
        ('{"q": 5, "k": [1]}', "q=5 must be a list of lengths"),
        ('{"q": "12", "k": [1, 2]}', "q='12' must be a list of lengths"),
        ('{"q": [1.5], "k": [1]}', "q[0]=1.5 must be a whole number"),
        ('{"q": [-1], "k": [1]}', "q[0]=-1 must be at least 0"),
        ('{"q": [NaN], "k": [1]}', "q[0]=nan must be a whole number"),
        ('{"q": [], "k": []}', "q is empty"),
        ("[1, 2]", "holds no sequence lengths"),
        ('{"q": [1', "holds no sequence lengths"),
        ("[" * 100_000, "holds no sequence lengths"),
        ('{"q": [1], "k": [1], "note": "x"}', "'note' is neither q nor k"),
        ('{"q": [1], "k": [1], "q": [2]}', "'q' is there twice"),
        ("a,b\n1,2\n", "its header is 'a,b'"),
        ("q,k,batch\n1,2,3\n", "its header is 'q,k,batch'"),
        ("q,k\n1,2,3\n", "'1,2,3' has 3 entries, not 2"),
        ("q,k\n1\n", "'1' has 1 entries, not 2"),
        ("", "it is empty"),
        ("q,k\n", "there is no line below its header"),
        ("q,k\n1,two\n", "k='two' must be a whole number"),
        ("q,k\n1,-2\n", "k=-2 must be at least 0"),
        ("q,k\n1," + "9" * 200_000 + "\n", "holds no sequence lengths"),
    ],
)
def test_a_file_that_holds_something_else_is_refused_by_name(tmp_path, text, words):
    path = tmp_path / "some lengths"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=re.escape(words)) as caught:
        Problem.lengths_from_file(path)
    assert repr(str(path)) in str(caught.value)
    assert "give a file of JSON" in str(caught.value)


def test_a_length_that_contradicts_those_by_sequence_is_refused():
    refused("seqlen_q=500 contradicts seqlens_q, whose longest is 300",
            seqlens_q=(300, 17), seqlen_q=500)  # fmt: skip
    refused("seqlen_k=5 contradicts seqlens_k", seqlens_k=(300, 17), seqlen_k=5)
    assert Problem(seqlens_q=(300, 17), seqlen_q=300).seqlen_q == 300


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe\x00")
    for path in (tmp_path / "missing", tmp_path, binary, "with\0zero"):
        with pytest.raises(ValueError, match="cannot read sequence lengths from") as caught:
            Problem.lengths_from_file(path)
        assert repr(str(path)) in str(caught.value)
        assert 'give a file of JSON {"q": [128' in str(caught.value)


# -- windows in words --------------------------------------------------------------------------


@given(left=SIDES, right=SIDES)
def test_a_window_written_down_is_read_back(left, right):
    text = ",".join("" if side is None else str(side) for side in (left, right))
    assert as_window(text) == as_window((left, right)) == (left, right)


@pytest.mark.parametrize("text", ["", "5", "1,2,3", "a,b", "1.5,2", "1;2", (1,), 5, ("1", 2)])
def test_other_words_are_no_window(text):
    with pytest.raises(ValueError, match="window"):
        as_window(text)


def test_no_window_stays_none():
    assert as_window(None) is None
    assert as_window("none, 3") == (None, 3)


def test_what_a_mask_lets_through_is_told_beside_the_convention():
    for q, k in ((1024, 1024), (1024, 8192), (8192, 1024)):
        problem = Problem(seqlen_q=q, seqlen_k=k, heads=3, causal=True)
        assert problem.flops == 4 * 3 * q * k * 128 // 2
        assert problem.flops_visible == 4 * 3 * 128 * problem.visible_pairs(q, k)
        assert problem.half_is_a_convention is (q != k)
    varlen = Problem(seqlens_q=(300, 17), seqlens_k=(300, 400), causal=True)
    assert varlen.half_is_a_convention
    pairs = varlen.visible_pairs(300, 300) + varlen.visible_pairs(17, 400)
    assert varlen.flops_visible == 4 * 128 * pairs
    assert not Problem(window=(100, 0), seqlen_k=5000).half_is_a_convention
    assert Problem(seqlen_k=77).flops == Problem(seqlen_k=77).flops_visible


def test_a_window_is_counted_in_32_bits():
    refused("a side must be", window=(10**22, 0))
    refused("a side must be", window=(None, -(10**10)))
