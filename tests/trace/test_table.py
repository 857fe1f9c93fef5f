"""Tables: columns by name, texts behind codes, rows that match."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fa4sim import Problem, simulate
from fa4sim.trace import COLUMNS, NONE, TEXT_COLUMNS, Trace

ROLES = ("load", "mma", "softmax0", "")
ROWS = st.lists(
    st.tuples(st.sampled_from(ROLES), st.integers(0, 3), st.integers(-1, 5)), max_size=20
)


def trace_of(rows):
    trace = Trace()
    for role, warp, tile in rows:
        values = {"warp": warp, "tile": tile, "start": 0, "end": 1}
        trace.add("span", **values, **({"role": role} if role else {}))
    return trace


@given(ROWS)
def test_columns_and_texts_are_what_was_added(rows):
    span = trace_of(rows).span
    assert len(span) == len(rows)
    assert span.text("role").tolist() == [role for role, _, _ in rows]
    assert span["warp"].tolist() == [warp for _, warp, _ in rows]
    assert span["tile"].tolist() == [tile for _, _, tile in rows]
    assert (span["parent"] == NONE).all()
    assert [row["role"] for row in span.rows()] == span.text("role").tolist()


@given(ROWS)
def test_the_distinct_texts_come_in_order_of_first_appearance(rows):
    wanted = list(dict.fromkeys(role for role, _, _ in rows if role))
    assert trace_of(rows).span.unique("role") == wanted


@given(ROWS, st.sampled_from(["mma", "nobody"]), st.sets(st.integers(0, 3)), st.booleans())
def test_rows_are_chosen_by_text_number_and_mask(rows, role, warps, masked):
    span = trace_of(rows).span
    mask = span["tile"] > 0 if masked else None
    chosen = span.where(mask, role=(role, "load"), warp=warps)
    wanted = [
        i
        for i, (r, w, t) in enumerate(rows)
        if r in (role, "load") and w in warps and (not masked or t > 0)
    ]
    assert chosen.ids.tolist() == wanted
    assert chosen.array.tolist() == span.array[wanted].tolist()
    # Rows keep their numbers through a second choice.
    again = chosen.where(warp=0)
    assert again.ids.tolist() == [i for i in wanted if rows[i][1] == 0]


def test_one_value_and_a_list_of_one_are_the_same():
    span = trace_of([("mma", 1, 0), ("load", 2, 0)]).span
    assert span.where(role="mma").ids.tolist() == span.where(role=["mma"]).ids.tolist() == [0]
    assert len(span.where(role=())) == 0


def test_text_columns_can_be_asked_for_their_codes():
    span = trace_of([("mma", 0, 0), ("load", 0, 0), ("mma", 0, 0)]).span
    codes = span["role"]
    assert codes[0] == codes[2] != codes[1] and codes.dtype == np.int64


def test_a_column_that_does_not_exist_is_answered_with_those_that_do():
    span = Trace().span
    with pytest.raises(KeyError, match="table 'span' has no column 'colour'; it has sm, cta, role"):
        span["colour"]
    with pytest.raises(KeyError, match="no column 'colour'"):
        span.where(colour=3)
    with pytest.raises(KeyError, match="column 'warp' of table 'span' holds numbers, not text"):
        span.text("warp")


@pytest.mark.parametrize("name", COLUMNS)
def test_every_table_starts_empty_with_its_columns(name):
    table = Trace().table(name)
    assert len(table) == 0 and table.columns == COLUMNS[name]
    assert table.array.shape == (0, len(COLUMNS[name])) and table.array.dtype == np.int64
    for column in COLUMNS[name]:
        assert table[column].tolist() == []
        if column in TEXT_COLUMNS[name]:
            assert table.text(column).tolist() == table.unique(column) == []


def test_a_column_that_is_not_there_is_named_with_those_that_are():
    table = Trace().span
    with pytest.raises(KeyError, match="no column 'rol'; it has sm, cta, role"):
        table.where(rol="mma")
    with pytest.raises(ValueError, match="'block' of table 'span' holds whole numbers, and 'x'"):
        table.where(block="x")
    assert len(table.where(role="nobody")) == 0  # what never happened is in no trace


def test_a_folded_trace_says_so():
    run = simulate(Problem(seqlen_q=256, seqlen_k=8192))
    assert "folded" in repr(run.trace) and run.trace.span.folded
    assert "folded" in repr(run.trace.span.where(role="mma"))
    whole = run.trace.expand()
    assert "folded" not in repr(whole) + repr(whole.span)
    assert f"span {whole.size('span'):,}" in repr(whole)
