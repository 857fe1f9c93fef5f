"""The checks of single values: what is kept, what is refused, and that refusals quote it."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fa4sim.specs.checks import finite, flag, multiple_of, one_of, quoted, whole, whole_between

NOT_WHOLE = [2.5, math.nan, math.inf, "3", None, True, [3], 3j, np.float32(0.5), np.True_, b"3"]
NOT_NUMBERS = [math.nan, -math.inf, "3", None, False, [1.0], 10**400, np.float64("nan")]
NOT_FLAGS = [0, 1, "True", "yes", None, 1.0, np.int64(1), []]


@given(st.integers())
def test_whole_numbers_stay_what_they_are(number):
    kept = whole("x", number)
    assert kept == number and type(kept) is int


@given(st.integers(-(2**53), 2**53))
def test_a_float_without_a_fraction_is_a_whole_number(number):
    assert whole("x", float(number)) == number


@pytest.mark.parametrize(
    "value", [np.int8(7), np.uint64(7), np.float16(7), np.float64(7), np.array(7), 7.0]
)
def test_numpy_s_numbers_become_plain_ones(value):
    assert whole("x", value) == 7 and type(whole("x", value)) is int


@pytest.mark.parametrize("value", NOT_WHOLE, ids=repr)
def test_what_is_not_a_whole_number_is_refused_and_quoted(value):
    with pytest.raises(ValueError, match="must be a whole number") as caught:
        whole("stages", value)
    assert str(caught.value).startswith(f"stages={value!r} ")


@pytest.mark.parametrize("value", NOT_NUMBERS, ids=lambda value: repr(value)[:20])
def test_what_is_not_a_finite_number_is_refused_and_quoted(value):
    with pytest.raises(ValueError, match="must be a finite number") as caught:
        finite("threshold", value)
    assert str(caught.value).startswith(f"threshold={quoted(value)} ")


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_finite_floats_stay_what_they_are(number):
    assert finite("x", number) == number


@pytest.mark.parametrize("value", NOT_FLAGS, ids=repr)
def test_only_true_and_false_are_flags(value):
    with pytest.raises(ValueError, match="must be True or False") as caught:
        flag("causal", value)
    assert f"causal={value!r}" in str(caught.value)
    assert flag("causal", np.False_) is False and flag("causal", True) is True


@given(st.integers(-100, 100), st.integers(-10, 10), st.integers(0, 20))
def test_a_range_has_both_its_ends(number, low, span):
    high = low + span
    if low <= number <= high:
        assert whole_between("x", number, low, high) == number
    else:
        with pytest.raises(ValueError, match=rf"x={number} must be {low} to {high}: because$"):
            whole_between("x", number, low, high, "because")


@given(st.integers(-100, 300))
def test_multiples_are_counted_from_zero(number):
    if number % 8 == 0 and 24 <= number <= 256:
        assert multiple_of(8, "x", number, 24, 256) == number
    else:
        with pytest.raises(ValueError, match=f"x={number} must be a multiple of 8 from 24 to 256"):
            multiple_of(8, "x", number, 24, 256)


def test_a_choice_is_of_words_or_of_whole_numbers():
    assert one_of("s", "lpt", ("lpt", "dynamic")) == "lpt"
    assert one_of("n", np.int32(2), (1, 2)) == 2
    for value in ("LPT", "", None, 1, ["lpt"], {"lpt"}):
        with pytest.raises(ValueError, match="must be one of lpt, dynamic"):
            one_of("s", value, ("lpt", "dynamic"))
    with pytest.raises(ValueError, match="n=3 must be one of 1, 2"):
        one_of("n", 3, (1, 2))
    with pytest.raises(ValueError, match="n=True must be a whole number"):
        one_of("n", True, (1, 2))
    with pytest.raises(ValueError, match="n=64 must be 128"):
        one_of("n", 64, (128,))


@pytest.mark.parametrize(
    "value", ["x" * 10**5, 10**5000, [10**5000], list(range(10**4))], ids=lambda _: ""
)
def test_long_values_are_quoted_in_short(value):
    assert len(quoted(value)) <= 60
