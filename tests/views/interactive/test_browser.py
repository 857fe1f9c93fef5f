"""The timeline in a real browser: what a reader sees, clicks and types."""

import pytest

from fa4sim.views import write_interactive
from tests.views.interactive.conftest import EVIL, app, evil_trace, select, selected, shown

pytestmark = pytest.mark.browser

TRACKS = ".fa4-tracks"


@pytest.fixture
def page(browser, causal_page):
    with shown(browser, causal_page) as page:
        yield page


def window(page):
    return tuple(app(page, "[app.view.t0, app.view.t1]"))


def place(page, number):
    """Where a slice of the first run is on the screen: the middle of its box."""
    box = page.locator(TRACKS).bounding_box()
    x, y = app(
        page,
        "(() => { const b = app.canvas.boxOf(run, argument);"
        " return [(b.x0 + b.x1) / 2, b.y + b.height / 2 - app.dom.scroller.scrollTop]; })()",
        number,
    )
    return box["x"] + x, box["y"] + y


def colours(page, selector=TRACKS):
    """How many different colours a canvas shows."""
    return page.evaluate(
        """(selector) => {
          const canvas = document.querySelector(selector);
          const {data} = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
          const seen = new Set();
          for (let i = 0; i < data.length; i += 4)
            seen.add((data[i] << 16) | (data[i + 1] << 8) | data[i + 2]);
          return seen.size;
        }""",
        selector,
    )  # fmt: skip


def test_it_opens_with_the_middle_of_the_run_and_every_role(page, causal_trace):
    labels = page.locator(".fa4-labels").inner_text()
    for role in causal_trace.span.unique("role"):
        assert role in labels
    t0, t1 = window(page)
    assert 0 < t0 < t1 < causal_trace.end
    assert colours(page) > 20 and colours(page, ".fa4-pins") > 10
    assert page.locator("#fa4-picture").count() == 0, "the static picture has gone"


def test_the_wheel_with_ctrl_zooms_where_the_pointer_is(page):
    box = page.locator(TRACKS).bounding_box()
    page.mouse.move(box["x"] + 200, box["y"] + 100)
    t0, t1 = window(page)
    at = t0 + 200 * (t1 - t0) / box["width"]
    page.keyboard.down("Control")
    page.mouse.wheel(0, -400)
    page.keyboard.up("Control")
    page.wait_for_function(
        "t => document.getElementById('fa4-timeline').timeline.view.t0 > t", arg=t0
    )
    n0, n1 = window(page)
    assert n1 - n0 < 0.8 * (t1 - t0)
    assert n0 + 200 * (n1 - n0) / box["width"] == pytest.approx(at, abs=(n1 - n0) / 200)


def test_dragging_moves_the_run_and_does_not_select(page):
    box = page.locator(TRACKS).bounding_box()
    t0, t1 = window(page)
    page.mouse.move(box["x"] + 400, box["y"] + 120)
    page.mouse.down()
    page.mouse.move(box["x"] + 300, box["y"] + 120, steps=4)
    page.mouse.up()
    n0, n1 = window(page)
    assert n1 - n0 == pytest.approx(t1 - t0)
    assert n0 - t0 == pytest.approx(100 * (t1 - t0) / box["width"], rel=0.02)
    assert selected(page) is None


def test_a_sideways_wheel_moves_and_an_upright_one_scrolls_the_page(page):
    box = page.locator(TRACKS).bounding_box()
    page.mouse.move(box["x"] + 200, box["y"] + 100)
    before = window(page)
    page.mouse.wheel(0, 100)
    assert window(page) == before
    page.mouse.wheel(100, 0)
    page.wait_for_function(
        "t => document.getElementById('fa4-timeline').timeline.view.t0 > t", arg=before[0]
    )


def test_the_view_never_leaves_the_run(page, causal_trace):
    for _ in range(40):
        page.keyboard.press("-")
        app(page, "app.zoom(3)")
    assert window(page)[1] - window(page)[0] < 1.1 * causal_trace.end
    app(page, "(app.view.pan(1e9), app.redraw())")
    assert window(page)[1] < 1.05 * causal_trace.end
    for _ in range(40):
        app(page, "app.zoom(0.2)")
    assert window(page)[1] - window(page)[0] >= 15


def test_a_click_tells_all_about_a_slice(page, causal_trace):
    number = app(
        page, "[...run.x0.keys()].find((i) => run.name(i) === 'PV' && run.x0[i] > app.view.t0)"
    )
    page.mouse.click(*place(page, number))
    row = app(page, "run.slice.row[argument]", number)
    (span,) = causal_trace.span.where(causal_trace.span.ids == row).rows()
    text = page.locator(".fa4-details").inner_text()
    assert f"{span['start']:,}" in text and f"{span['end']:,}" in text
    assert f"{span['end'] - span['start']:,} cycles" in text
    assert "tensor" in text and f"block {span['block']}" in text
    assert "µs" in text


def test_the_pointer_over_a_slice_shows_a_note(page):
    number = app(page, "[...run.x0.keys()].find((i) => run.isWait(i) && run.name(i) === 'S_full'"
                       " && run.x0[i] > app.view.t0)")  # fmt: skip
    page.mouse.move(*place(page, number))
    note = page.locator(".fa4-tip")
    note.wait_for(state="visible")
    assert "wait for S_full" in note.inner_text() and "Last to arrive" in note.inner_text()


def test_counters_tell_their_value_under_the_pointer_and_of_a_slice(page, causal_trace):
    number = select(page, "tensor", "PV", 4)
    start = app(page, "run.slice.start[argument]", number)
    counter = causal_trace.counter.where(name="bytes_in_flight")
    before = counter["value"][counter["time"] <= start][-1]
    assert (
        f"{before:,} of at most {counter['value'].max():,}" in page.locator("dl").first.inner_text()
    )
    box = page.locator(TRACKS).bounding_box()
    y = app(page, "(({y, height}) => y + height / 2 - app.dom.scroller.scrollTop)"
                  "(app.lines.find(({node}) => node.label === 'ring slots held'))")  # fmt: skip
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + y)
    note = page.locator(".fa4-tip").inner_text()
    assert "ring slots held" in note and note.split(" ")[0] in ("1", "2", "3")


def test_a_wait_says_why_and_its_chain_can_be_walked_back_and_forth(page):
    select(page, "softmax0", "S_full", 3)
    page.locator(TRACKS).focus()
    why = page.locator(".fa4-why").inner_text()
    assert "Last to arrive: tensor" in why and "commit" in why
    assert "the scores S are there" in page.locator(".fa4-details dl").inner_text()
    chain = [selected(page)[:2]]
    for _ in range(3):
        page.keyboard.press("[")
        chain.append(selected(page)[:2])
    assert chain == [("S_full", "softmax0"), ("QK", "tensor"), ("issue QK", "mma"), chain[-1]]
    assert chain[-1][1] == "mma", "an issue follows what its own warp did before"
    page.keyboard.press("]")
    page.keyboard.press("]")
    assert selected(page)[:2] == ("QK", "tensor")


def test_all_that_came_before_is_listed_and_only_direct_arrows_are_drawn(page):
    select(page, "tensor", "PV", 2)
    section = page.locator(".fa4-details section", has_text="Before it")
    names = section.locator("li span").all_inner_texts()
    assert sum("store P" in name for name in names) == 4, "all four warps, not only the last"
    assert any("load V" in name for name in names)
    section.locator("button", has_text="load V").click()
    assert selected(page)[0] == "load V"


def test_a_wait_lists_all_who_arrived_the_last_first(page):
    select(page, "mma", "P_full_O_rescaled", 6)
    section = page.locator(".fa4-details section", has_text="Before it")
    assert "8 direct" in section.inner_text()
    told = section.locator("li small").all_inner_texts()[:8]
    assert sum("correction" in text for text in told) == 4
    times = [int(text.split(" at ")[1].replace(",", "")) for text in told]
    assert times == sorted(times, reverse=True)
    assert f"{times[0]:,}" in page.locator(".fa4-why").inner_text()


def test_a_search_finds_marks_and_goes_from_one_to_the_next(page, causal_trace):
    field = page.get_by_role("searchbox")
    field.fill("softmax0 exp2 block:3")
    expected = len(causal_trace.span.where(role="softmax0", op="exp2", block=3))
    assert page.locator(".fa4-found").inner_text() == f"{expected} found"
    field.press("Enter")
    first = selected(page)
    field.press("Enter")
    second = selected(page)
    assert first[:2] == second[:2] == ("exp2", "softmax0") and first[4:] != second[4:]
    assert page.locator(".fa4-found").inner_text() == f"2 of {expected}"
    t0, t1 = window(page)
    assert t0 <= second[2] <= t1
    field.fill("no such thing")
    assert page.locator(".fa4-found").inner_text() == "0 found"


def test_the_life_of_a_tile_goes_from_global_memory_to_global_memory(page, causal_trace):
    select(page, "softmax0", "exp2", 12)
    page.keyboard.press("l")
    life = page.locator(".fa4-life")
    steps = life.locator("ol span").all_inner_texts()
    order = ["load K", "QK₀", "exp2", "store P", "PV₀", "store O₀"]
    assert [steps.index(step) for step in order] == sorted(steps.index(step) for step in order)
    assert steps[0].startswith("issue Q")
    assert "sKV[" in life.inner_text() and "columns" in life.inner_text()
    marked = set(app(page, "app.marks.ids[0].map((i) => run.slice.block[i])"))
    block = app(page, "run.slice.block[app.selected.i]")
    assert block in marked
    page.locator(".fa4-life button", has_text="show everything").click()
    assert app(page, "app.marks") is None


def test_the_critical_path_can_be_shown_alone_and_clicked(page):
    page.get_by_role("button", name="Show only the critical path").click()
    marked = app(page, "app.marks.total")
    assert 0 < marked < app(page, "run.count") / 2
    box = page.locator(".fa4-pins").bounding_box()
    top = app(page, "app.canvas.pins().path[0]")
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + top + 8)
    assert app(page, "app.marks.has(run, app.selected.i)")


def test_the_overview_leads_to_any_part_of_the_run(page, causal_trace):
    box = page.locator(".fa4-pins").bounding_box()
    page.mouse.click(box["x"] + 0.9 * box["width"], box["y"] + 6)
    t0, t1 = window(page)
    assert t0 < 0.9 * causal_trace.end < t1


def test_tracks_open_down_to_their_ops(page):
    page.get_by_role("button", name="softmax0").click()
    assert page.get_by_role("button", name="softmax0, warp 3").is_visible()
    page.get_by_role("button", name="softmax0, warp 3").click()
    ops = page.locator(".fa4-op").all_inner_texts()
    assert {"exp2", "row max", "waits"} <= set(ops)
    lines = app(page, "app.lines.filter(({node}) => node.kind === 'op').map(({node}) =>"
                      " [node.label, node.rows[0].ids.length])")  # fmt: skip
    exp2 = app(page, "run.slice.name.filter((_, i) => run.name(i) === 'exp2' &&"
                     " run.track(i).warp === 3).length")  # fmt: skip
    assert dict(lines)["exp2"] == exp2
    page.get_by_role("button", name="CTA 0").click()
    assert page.locator(".fa4-op").count() == 0


def test_names_in_a_trace_cannot_break_out(browser, tmp_path):
    path = write_interactive(evil_trace(), tmp_path / "evil.html", labels=[EVIL[0]], title=EVIL[1])
    with shown(browser, path) as page:
        assert page.title() == EVIL[1]
        app(page, "[...run.x0.keys()].forEach((i) => app.select(run, i))")
        app(page, "app.search('img')")
        box = page.locator(TRACKS).bounding_box()
        for x in range(10, int(box["width"]), 60):
            page.mouse.move(box["x"] + x, box["y"] + 40)
        text = page.locator(".fa4-details").inner_text()
        assert any(name in text for name in EVIL)
        assert page.evaluate("window.broken") is None
        assert (
            page.locator(".fa4-timeline img, .fa4-timeline svg, .fa4-timeline script").count() == 0
        )


def test_without_scripts_the_picture_stays(browser, causal_page):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(causal_page.as_uri())
    picture = page.get_by_role("img")
    assert picture.is_visible() and "Timeline of CTA 0" in picture.get_attribute("alt")
    context.close()


def test_data_that_cannot_be_read_leaves_the_picture_and_says_so(browser, causal_page, tmp_path):
    broken = tmp_path / "broken.html"
    text = causal_page.read_text(encoding="utf-8")
    broken.write_text(text.replace('"schema":1', '"schema":9', 1), encoding="utf-8")
    context = browser.new_context()
    page = context.new_page()
    page.goto(broken.as_uri())
    page.get_by_role("alert").wait_for()
    assert "schema 9" in page.get_by_role("alert").inner_text()
    assert page.locator("#fa4-picture img").is_visible()
    context.close()
