"""The widget: what it gives the notebook, and what its script does with that in a browser."""

import base64
import json

import pytest

from fa4sim.views import alt_text, interactive_timeline
from fa4sim.views.interactive.assets import PAGE, WIDGET, script, text
from tests.views.interactive.conftest import app, selected, watched

pytest.importorskip("anywidget")


@pytest.fixture(scope="module")
def widget(causal_trace):
    return interactive_timeline(causal_trace, height=300)


def test_its_data_is_what_the_page_has(widget):
    state = widget.get_state()
    header = json.loads(state["header"])
    assert header["schema"] == 1 and len(header["runs"][0]["tracks"]) > 10
    assert len(state["columns"]) > 1000 and state["height"] == 300
    assert "export default" in state["_esm"] and ".fa4-timeline" in state["_css"]


def test_where_nothing_is_live_its_picture_stands_with_words(widget):
    data, metadata = widget._repr_mimebundle_()
    assert "application/vnd.jupyter.widget-view+json" in data
    assert base64.b64decode(data["image/png"]).startswith(b"\x89PNG")
    assert data["text/plain"] == alt_text(widget.picture)
    assert metadata["image/png"]["width"] == 1000


def test_page_and_widget_are_the_same_script_but_for_its_end():
    shared = script(WIDGET).removesuffix(text(WIDGET))
    assert script(PAGE) == shared + text(PAGE)
    assert "import " not in shared.replace("important", ""), "no part loads anything"


RENDER = """async ({esm, header, columns, height}) => {
  const url = URL.createObjectURL(new Blob([esm], {type: "text/javascript"}));
  const { default: widget } = await import(url);
  const bytes = Uint8Array.from(atob(columns), (letter) => letter.charCodeAt(0));
  const padded = new Uint8Array(bytes.length + 16);
  padded.set(bytes, 16); // a notebook's DataView may begin inside a larger buffer
  const state = { header, columns: new DataView(padded.buffer, 16), height, selected: {} };
  window.saved = [];
  const model = {
    get: (name) => state[name],
    set: (name, value) => { state[name] = value; },
    save_changes: () => window.saved.push(state.selected),
  };
  const el = document.createElement("div");
  document.body.append(el);
  window.stop = await widget.render({ model, el });
  el.firstElementChild.id = "fa4-timeline";
}"""


@pytest.mark.browser
def test_a_notebook_can_render_it_hear_of_selections_and_remove_it(browser, widget):
    state = widget.get_state()
    given = {"esm": state["_esm"], "header": state["header"], "height": state["height"],
             "columns": base64.b64encode(bytes(state["columns"])).decode()}  # fmt: skip
    with watched(browser) as page:
        page.add_style_tag(content=state["_css"])
        page.evaluate(RENDER, given)
        assert page.locator(".fa4-scroller").bounding_box()["height"] == 300
        number = app(page, "[...run.x0.keys()].find((i) => run.name(i) === 'QK')")
        app(page, "app.select(run, argument)", number)
        assert selected(page)[0] == "QK"
        row = app(page, "run.slice.row[argument]", number)
        assert page.evaluate("saved.at(-1)") == {"run": 0, "table": "span", "row": row}
        page.evaluate("document.body.dataset.jpThemeLight = 'false'")
        page.wait_for_function(
            "document.getElementById('fa4-timeline').timeline.painter.theme.paper === '#16181c'"
        )
        # A notebook's own keys (A: a cell above, D D: delete) must not hear ours.
        page.evaluate("document.addEventListener('keydown', () => { window.leaked = true; })")
        page.locator(".fa4-tracks").focus()
        page.keyboard.press("d")
        page.keyboard.press("a")
        assert page.evaluate("window.leaked") is None
        page.evaluate("stop()")
        assert page.locator("#fa4-timeline > *").count() == 0
