"""Lists and ranges of a sweep's values."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fa4sim.cli.errors import Failure
from fa4sim.cli.literals import literal, several


@pytest.mark.parametrize(
    "text, values",
    [
        ("2:6", [2, 3, 4, 5, 6]),
        ("2:10:2", [2, 4, 6, 8, 10]),
        ("2:9:3", [2, 5, 8]),
        ("5:5", [5]),
        ("0 : 16 : 8", [0, 8, 16]),
        ("-2:0", [-2, -1, 0]),
        ("1,4,9", [1, 4, 9]),
        ("3", [3]),
        ("lpt,dynamic", ["lpt", "dynamic"]),
        ("0.5, 8", [0.5, 8]),
        ("(1,2),(3,None)", [(1, 2), (3, None)]),
        ("True,False", [True, False]),
    ],
)
def test_a_range_includes_both_ends_and_a_list_splits_at_outer_commas(text, values):
    assert list(several("field", text)) == values


@pytest.mark.parametrize(
    "text", ["6:2", "2:6:0", "2:6:-1", "2:", ":6", "1.5:3", "2:6:2:1", "a:b", "1,,2", ",1", "1,"]
)
def test_a_range_or_list_that_makes_no_sense_is_refused(text):
    with pytest.raises(Failure, match="field"):
        several("field", text)


@given(low=st.integers(-1000, 1000), count=st.integers(1, 50), step=st.integers(1, 20))
def test_a_range_has_the_values_it_spells_out(low, count, step):
    high = low + (count - 1) * step
    values = several("field", f"{low}:{high}:{step}")
    assert list(values) == [low + i * step for i in range(count)]


@given(st.text(max_size=40))
def test_whatever_is_typed_gives_a_value_or_a_refusal(text):
    try:
        literal("field", text)
        several("field", text)
    except Failure as refusal:
        assert "field" in str(refusal)
