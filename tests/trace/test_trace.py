"""Traces: adding rows, the string list, the end, and cutting out a window."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fa4sim.trace import CLOCKS, COLUMNS, NONE, Trace

TIMES = st.tuples(st.integers(0, 60), st.integers(0, 30))


def test_adding_by_name_and_appending_by_column_are_the_same():
    named, plain = Trace(), Trace()
    named.add("span", sm=1, cta=2, role="mma", warp=12, unit="issue", op="qk", start=3, end=9,
              tile=4, block=5, stage=0, busy=6)  # fmt: skip
    code = plain.code
    plain.append["span"]((1, 2, code("mma"), 12, code("issue"), code("qk"), 3, 9, 4, 5, 0, NONE, 6))
    assert list(named.span.rows()) == list(plain.span.rows())


def test_adding_returns_the_row_s_number():
    trace = Trace()
    assert [trace.add("counter", name="x", time=t, value=t) for t in range(3)] == [0, 1, 2]
    assert trace.add("flow", source=0, target=1, what="data") == 0
    assert trace.sizes() == {name: {"counter": 3, "flow": 1}.get(name, 0) for name in COLUMNS}


def test_a_text_has_one_code():
    trace = Trace()
    assert trace.code("mma") == trace.code("mma") != trace.code("load")
    assert trace.strings == ["mma", "load"]


def test_what_a_trace_does_not_have_is_refused():
    trace = Trace()
    with pytest.raises(KeyError, match=r"no table 'event'; it has span, wait"):
        trace.add("event", start=0)
    with pytest.raises(KeyError, match=r"table 'wait' has no column 'busy'"):
        trace.add("wait", busy=3)
    with pytest.raises(ValueError, match="clock 'days' is not known; use one of cycles, ticks, ns"):
        Trace("days")
    assert [Trace(clock).clock for clock in CLOCKS] == list(CLOCKS)


def test_the_end_is_the_last_time_of_any_table():
    trace = Trace()
    assert trace.end == 0
    trace.add("counter", name="x", time=7, value=1)
    assert trace.end == 7
    trace.add("span", start=3, end=20)
    trace.add("life", tensor="K", birth=5, death=31)
    trace.add("flow", source=0, target=0)
    assert trace.end == 31


def test_the_tables_have_names():
    trace = Trace()
    for name in COLUMNS:
        assert getattr(trace, name).name == name


# -- windows -----------------------------------------------------------------------------------


@given(spans=st.lists(TIMES, max_size=12), low=st.integers(0, 80), width=st.integers(1, 60),
       data=st.data())  # fmt: skip
def test_a_window_keeps_what_touches_it_and_renumbers_references(spans, low, width, data):
    trace = Trace(meta={"machine": "B200"})
    high = low + width
    numbers = st.integers(-1, max(-1, len(spans) - 1))
    for start, length in spans:
        trace.add("span", op=f"at {start}", start=start, end=start + length,
                  parent=data.draw(numbers))  # fmt: skip
        trace.add("wait", on="K", start=start, end=start + length, span=data.draw(numbers))
        trace.add("counter", name="x", time=start, value=length)
    flows = data.draw(st.lists(st.tuples(numbers, numbers), max_size=6)) if spans else []
    for source, target in flows:
        trace.add("flow", source=source, target=target, what="tile")

    part = trace.window(low, high)
    kept = [i for i, (s, n) in enumerate(spans) if s < high and s + n >= low]
    new = {old: i for i, old in enumerate(kept)}
    whole = trace.span
    assert part.span.text("op").tolist() == whole.text("op")[kept].tolist()
    assert part.span["parent"].tolist() == [new.get(p, NONE) for p in whole["parent"][kept]]
    assert part.wait["span"].tolist() == [new.get(p, NONE) for p in trace.wait["span"][kept]]
    assert part.counter["time"].tolist() == [s for s, _ in spans if low <= s < high]
    inside = [(new[a], new[b]) for a, b in flows if a in new and b in new]
    assert list(zip(part.flow["source"], part.flow["target"], strict=True)) == inside
    assert part.meta == trace.meta and part.clock == trace.clock
    for start, length in spans:  # and nothing that lies inside is ever lost
        if low <= start and start + length < high:
            assert f"at {start}" in part.span.text("op").tolist()


def test_a_window_without_ends_is_everything():
    trace = Trace()
    trace.add("span", op="qk", start=0, end=9, parent=0)
    trace.add("arrive", barrier="S_full", time=9)
    assert trace.window().sizes() == trace.sizes()
    assert list(trace.window().span.rows()) == list(trace.span.rows())


def test_what_some_sms_did_is_all_of_it_with_references_renumbered():
    trace = Trace()
    for i in range(6):
        trace.add("span", sm=4 - i % 3, cta=i, role="mma", op=f"op {i}", start=i, end=i + 1)
        trace.add("counter", sm=4 - i % 3, cta=i, name="bytes", time=i, value=i)
    trace.add("flow", source=1, target=4, what="on SM 3")
    trace.add("flow", source=0, target=1, what="from SM 4 to SM 3")
    part = trace.of_sms(2)  # 2 and 3: the first that there are
    assert part.span.text("op").tolist() == ["op 1", "op 2", "op 4", "op 5"]
    assert part.counter["value"].tolist() == [1, 2, 4, 5]
    assert [(row["source"], row["target"]) for row in part.flow.rows()] == [(0, 2)]
    with pytest.raises(ValueError, match="sms=0 must be at least 1"):
        trace.of_sms(0)


@pytest.mark.parametrize("low, high", [(5, 5), (9, 3)])
def test_an_empty_window_is_refused(low, high):
    with pytest.raises(ValueError, match=f"the window from {low} to {high} is empty"):
        Trace().window(low, high)


def test_a_window_leaves_its_trace_alone():
    trace = Trace()
    trace.add("span", op="qk", start=0, end=9)
    part = trace.window(0, 5)
    part.add("span", op="pv", start=0, end=1)
    part.meta["new"] = 1
    assert trace.size("span") == 1 and "pv" not in trace.strings and trace.meta == {}
