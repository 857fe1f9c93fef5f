"""The timeline without a mouse, for those who hear it, on a phone, in the dark, and two at once."""

import pytest

from fa4sim.views import write_interactive
from tests.views.interactive.conftest import app, select, selected, shown

pytestmark = pytest.mark.browser


def focused(page):
    return page.evaluate(
        "(document.activeElement.getAttribute('aria-label') || document.activeElement.textContent)"
    )


def live(page):
    return page.locator(".fa4-live").inner_text()


def test_everything_can_be_reached_and_done_by_keys_alone(browser, causal_page):
    with shown(browser, causal_page) as page:
        page.keyboard.press("Tab")
        assert focused(page).startswith("Search")
        seen = []
        while not focused(page).startswith("Timeline:"):
            seen.append(focused(page))
            page.keyboard.press("Tab")
            assert len(seen) < 12, seen
        assert any("critical path" in name for name in seen)
        page.keyboard.press("ArrowRight")
        first = selected(page)
        assert first and first[0] in live(page).replace("wait for ", "")
        page.keyboard.press("ArrowRight")
        second = selected(page)
        assert second[2] >= first[3] and second[1] == first[1]
        page.keyboard.press("ArrowDown")
        assert selected(page)[1] != first[1]
        page.keyboard.press("ArrowUp")
        assert selected(page)[1] == first[1]
        before = app(page, "app.view.t1 - app.view.t0")
        page.keyboard.press("w")
        assert app(page, "app.view.t1 - app.view.t0") < before
        at = app(page, "app.view.t0")
        page.keyboard.press("d")
        assert app(page, "app.view.t0") > at
        page.keyboard.press("/")
        assert focused(page).startswith("Search")
        page.keyboard.type("qk")
        page.keyboard.press("Enter")
        assert "QK" in selected(page)[0]
        page.keyboard.press("Escape")
        assert app(page, "app.marks") is None and focused(page).startswith("Timeline:")
        page.keyboard.press("Escape")
        assert selected(page) is None
        page.keyboard.press("?")
        assert page.get_by_role("dialog", name="Keys").is_visible()
        page.keyboard.press("Escape")
        assert page.get_by_role("dialog", name="Keys").is_hidden()
        page.keyboard.press("Tab")
        assert "CTA 0" in focused(page)
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        assert page.locator(".fa4-op").count() > 0


def test_the_focus_can_be_seen(browser, causal_page):
    with shown(browser, causal_page) as page:
        for _ in range(12):
            page.keyboard.press("Tab")
            outline = page.evaluate("getComputedStyle(document.activeElement).outlineWidth")
            assert float(outline.removesuffix("px")) >= 3, focused(page)


def test_a_screen_reader_hears_what_is_selected(browser, causal_page):
    with shown(browser, causal_page) as page:
        select(page, "softmax0", "S_full", 2)
        said = live(page)
        assert "wait for S_full[0], softmax0, warp 0, from" in said
        assert "cycles" in said and "Ended by tensor" in said and "1 before" in said
        buttons = page.locator(".fa4-timeline button").all()
        assert all(b.get_attribute("aria-label") or b.inner_text() for b in buttons)
        tree = page.locator(".fa4-labels").get_by_role("button", name="softmax1: warp 4")
        assert tree.get_attribute("aria-expanded") == "false"
        tree.click()
        assert tree.get_attribute("aria-expanded") == "true"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_stand_out_from_what_is_behind_them(browser, causal_page, scheme):
    with shown(browser, causal_page, color_scheme=scheme) as page:
        ratios = page.evaluate(
            """() => {
              const root = document.getElementById("fa4-timeline");
              const style = getComputedStyle(root);
              const of = (name) => style.getPropertyValue(`--fa4-${name}`).trim();
              const light = (colour) => {
                const [r, g, b] = [1, 3, 5].map((k) => parseInt(colour.slice(k, k + 2), 16) / 255)
                  .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
                return 0.2126 * r + 0.7152 * g + 0.0722 * b;
              };
              const ratio = (a, b) => {
                const [high, low] = [light(of(a)), light(of(b))].sort((x, y) => y - x);
                return (high + 0.05) / (low + 0.05);
              };
              return [["ink", "paper"], ["quiet", "paper"], ["ink", "band"], ["quiet", "band"],
                      ["accent", "paper"], ["focus", "paper"]].map((pair) => ratio(...pair));
            }"""
        )  # fmt: skip
        assert min(ratios[:5]) >= 4.5 and ratios[5] >= 3
        paper = app(page, "app.painter.theme.paper")
        assert paper == ("#ffffff" if scheme == "light" else "#16181c")


def test_a_phone_shows_it_without_scrolling_sideways(browser, causal_page):
    with shown(
        browser, causal_page, viewport={"width": 375, "height": 720}, has_touch=True
    ) as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= 375
        assert page.locator(".fa4-tracks").bounding_box()["width"] > 230
        number = app(
            page, "[...run.x0.keys()].find((i) => run.name(i) === 'QK' && run.x0[i] > app.view.t0)"
        )
        box = page.locator(".fa4-tracks").bounding_box()
        x, y = app(
            page,
            "((box) => [(box.x0 + box.x1) / 2, box.y + box.height / 2])"
            "(app.canvas.boxOf(run, argument))",
            number,
        )
        page.touchscreen.tap(box["x"] + x, box["y"] + y)
        assert selected(page)[0] == "QK"
        assert page.locator(".fa4-details").bounding_box()["width"] > 330


def test_two_fingers_zoom(browser, causal_page):
    with shown(browser, causal_page) as page:
        before = app(page, "app.view.t1 - app.view.t0")
        page.evaluate(
            """() => {
              const canvas = document.querySelector(".fa4-tracks");
              const { x, y } = canvas.getBoundingClientRect();
              const send = (type, id, dx) => canvas.dispatchEvent(new PointerEvent(type, {
                pointerId: id, pointerType: "touch", clientX: x + dx, clientY: y + 40,
                bubbles: true, button: type === "pointermove" ? -1 : 0,
              }));
              canvas.setPointerCapture = () => {};
              send("pointerdown", 11, 200);
              send("pointerdown", 12, 300);
              send("pointermove", 12, 400);
              send("pointermove", 11, 100);
              send("pointerup", 11, 100);
              send("pointerup", 12, 400);
            }"""
        )
        after = app(page, "app.view.t1 - app.view.t0")
        assert after == pytest.approx(before / 3, rel=0.1)
        assert selected(page) is None


# -- two runs -------------------------------------------------------------------------------------


def test_two_runs_stand_one_above_the_other_and_begin_together(
    browser, causal_trace, pair, tmp_path
):
    path = write_interactive(causal_trace, tmp_path / "two.html", pair, ["one CTA", "a pair"])
    with shown(browser, path) as page:
        labels = page.locator(".fa4-run span:last-child").all_inner_texts()
        assert labels == ["one CTA", "a pair"]
        pins = page.locator(".fa4-pinlabels").inner_text()
        assert "one CTA · critical path" in pins and "a pair · critical path" in pins
        firsts = app(page, "app.runs.map((each) => Math.min(...each.x0))")
        assert firsts[0] == firsts[1] == 0
        app(page, "app.select(app.runs[1], 5, {reveal: true})")
        assert "a pair" in page.locator(".fa4-details dl").inner_text()
        page.get_by_role("searchbox").fill("QK")
        assert all(app(page, "app.marks.ids.map((ids) => ids.length > 0)"))


def test_runs_of_other_clocks_are_put_together_product_by_product(browser, causal_trace, tmp_path):
    other = as_ticks(causal_trace)
    path = write_interactive(causal_trace, tmp_path / "two.html", other)
    with shown(browser, path) as page:
        assert page.title() == "simulated and emulated"
        page.get_by_label("How the two runs are put together").select_option(index=1)
        gaps = app(
            page,
            """(() => {
              const starts = (each) => [...each.x0.keys()]
                .filter((i) => each.name(i) === "issue QK").map((i) => each.x0[i]);
              const [a, b] = app.runs.map(starts);
              return a.map((x, k) => Math.abs(x - b[k]));
            })()""",
        )
        assert len(gaps) > 10 and max(gaps) < 1e-6
        app(page, "app.select(app.runs[1], 3)")
        text = page.locator(".fa4-details").inner_text()
        assert "ticks are the order of events, not time" in text and "µs" not in text
        assert "MMAs" in live_after_alignment(page)


def live_after_alignment(page):
    app(page, "app.alignBy(1)")
    return live(page)


def as_ticks(trace):
    """The same events on a clock that runs unevenly and is no time."""
    from fa4sim.trace import Trace

    moved = Trace("ticks")
    for name in ("span", "wait"):
        for row in trace.table(name).rows():
            row["start"], row["end"] = (int(row[c] ** 0.9) for c in ("start", "end"))
            moved.add(name, **row)
    return moved
