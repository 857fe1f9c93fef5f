"""The widget: what it gives the notebook, and what its script does with that in a browser."""

import base64
import json

import pytest

from fa4sim.views import alt_text, interactive_timeline
from fa4sim.views.interactive.assets import PAGE, WIDGET, script, text
from tests.views.interactive.conftest import app, select, selected, watched

pytest.importorskip("anywidget")

from fa4sim.views.interactive.widget import NOT_LIVE, SAVED


@pytest.fixture(scope="module")
def widget(causal_trace):
    return interactive_timeline(causal_trace, height=300)


def test_its_data_is_what_the_page_has(widget):
    state = widget.get_state()
    header = json.loads(state["header"])
    assert header["schema"] == 1 and len(header["runs"][0]["tracks"]) > 10
    assert len(state["columns"]) > 1000 and state["height"] == 300
    assert "export default" in state["_esm"] and ".fa4-timeline" in state["_css"]


def test_it_puts_out_its_picture_with_words_for_where_nothing_is_live(widget, monkeypatch):
    """An output of its own: a saved notebook that is opened again has an error for a widget."""
    put_out = []
    monkeypatch.setattr(
        "fa4sim.views.interactive.widget.publish_display_data", lambda *each: put_out.append(each)
    )
    widget._ipython_display_()
    (saved,), (still, metadata), (live, _) = put_out
    assert saved == {"text/html": SAVED}
    assert base64.b64decode(still["image/png"]).startswith(b"\x89PNG")
    assert still["text/plain"] == alt_text(widget.picture)
    assert metadata["image/png"]["width"] == 1000
    assert live["application/vnd.jupyter.widget-view+json"]["model_id"] == widget.model_id
    assert "image/png" not in live, "the picture is not stored twice"


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
  document.getElementById("live").append(el);
  window.stop = await widget.render({ model, el });
  el.firstElementChild.id = "fa4-timeline";
}"""


#: What JupyterLab's own style does to the lists of an output, and the output before it.
NOTEBOOK = """
:root { --jp-content-font-size1: 14px; }
.jp-OutputArea-output dl, .jp-OutputArea-output dt, .jp-OutputArea-output dd { display: block; }
.jp-OutputArea-output dl { width: 100%; overflow: hidden; padding: 0; margin: 0; }
.jp-OutputArea-output dt { font-weight: bold; float: left; width: 20%; padding: 0; margin: 0; }
.jp-OutputArea-output dd { float: left; width: 80%; padding: 0; margin: 0; }
"""
OUTPUTS = f"""
<div class="jp-OutputArea">
<div class="jp-OutputArea-child" id="other"><div class="jp-RenderedImage">a picture</div></div>
<div class="jp-OutputArea-child" id="saved"><div class="jp-RenderedHTML">{SAVED}</div></div>
<div class="jp-OutputArea-child" id="still"><div class="jp-RenderedImage">its picture</div></div>
<div class="jp-OutputArea-child"><div class="jp-OutputArea-output" id="live"></div></div>
</div>"""


@pytest.fixture
def notebook(browser, widget):
    """A page that has rendered the widget among outputs, as a notebook does."""
    state = widget.get_state()
    given = {"esm": state["_esm"], "header": state["header"], "height": state["height"],
             "columns": base64.b64encode(bytes(state["columns"])).decode()}  # fmt: skip
    with watched(browser) as page:
        page.set_content(OUTPUTS)
        page.add_style_tag(content=state["_css"])
        page.add_style_tag(content=NOTEBOOK)  # it comes last: that must not matter
        page.evaluate(RENDER, given)
        yield page


@pytest.mark.browser
def test_a_notebook_s_style_leaves_the_panel_readable(notebook):
    select(notebook, "mma", "issue QK")
    name = notebook.locator(".fa4-details dt", has_text="K/V block")
    box, value = name.bounding_box(), name.locator("+ dd").bounding_box()
    assert box["width"] > 50 and box["height"] < 30, "on one line"
    assert value["x"] > box["x"] + box["width"] and abs(value["y"] - box["y"]) < 3, "beside it"


@pytest.mark.browser
def test_where_it_is_live_its_picture_does_not_show(notebook):
    assert not notebook.locator("#still").is_visible()
    assert notebook.locator("#other").is_visible()
    assert not notebook.locator("#saved").is_visible()
    notebook.evaluate("stop()")
    notebook.locator("#live").evaluate(NO_MODEL)
    assert notebook.locator("#still").is_visible()


#: What JupyterLab makes of a saved widget's output: its renderer's node, with nothing but words.
NO_MODEL = """(live) => {
  live.replaceChildren("Error displaying widget: model not found");
  live.classList.add("jupyter-widgets");
}"""
SHOWN = """(live) => {
  const words = getComputedStyle(live, "::before");
  return [getComputedStyle(live).fontSize, words.content, parseFloat(words.fontSize) > 9];
}"""


@pytest.mark.browser
def test_a_saved_notebook_that_is_opened_again_has_words_in_the_place_of_an_error(notebook):
    live = notebook.locator("#live")
    assert live.evaluate(SHOWN)[1] == "none"
    notebook.evaluate("stop()")
    live.evaluate(NO_MODEL)
    assert live.evaluate(SHOWN) == ["0px", f'"{NOT_LIVE}"', True]
    notebook.locator("#saved").evaluate("(saved) => saved.remove()")  # as in another's notebook
    assert live.evaluate(SHOWN)[1] == "none"


#: JupyterLab takes its outputs away for less than a frame while it changes the theme.
BLINK = """() => new Promise((done) => {
  const live = document.getElementById("live");
  live.style.display = "none";
  document.body.dataset.jpThemeLight = "false";
  // Behind the timeline's own turn, which a change of the theme has asked for.
  queueMicrotask(() => queueMicrotask(() => requestAnimationFrame(() => {
    live.style.display = "";
    setTimeout(done, 300);
  })));
})"""


@pytest.mark.browser
def test_a_theme_that_changes_while_it_is_hidden_is_drawn_when_it_shows_again(notebook):
    app(notebook, "app.frames.drawn.length = 0")
    notebook.evaluate(BLINK)
    corner = "[...app.dom.trackCanvas.getContext('2d').getImageData(300, 250, 1, 1).data]"
    assert app(notebook, "app.dom.trackCanvas.height") == 300
    assert app(notebook, "app.painter.theme.paper") == "#16181c"
    assert app(notebook, "app.frames.drawn.length") >= 1
    assert app(notebook, corner) != [255, 255, 255, 255]


@pytest.mark.browser
def test_no_key_that_is_pressed_in_it_reaches_the_notebook(notebook):
    """There X cuts the cell, B puts one below, D D deletes it."""
    notebook.evaluate("document.addEventListener('keydown', (e) => { window.leaked = e.key; })")
    notebook.locator(".fa4-tracks").focus()
    for key in ("d", "d", "x", "b", "z", "m", "ArrowRight"):
        notebook.keyboard.press(key)
        assert notebook.evaluate("window.leaked") is None, key
    notebook.keyboard.press("Control+s")
    assert notebook.evaluate("window.leaked") == "s", "saving is the notebook's"


@pytest.mark.browser
def test_a_notebook_can_render_it_hear_of_selections_and_remove_it(notebook):
    assert notebook.locator(".fa4-scroller").bounding_box()["height"] == 300
    number = app(notebook, "[...run.x0.keys()].find((i) => run.name(i) === 'QK')")
    app(notebook, "app.select(run, argument)", number)
    assert selected(notebook)[0] == "QK"
    row = app(notebook, "run.slice.row[argument]", number)
    assert notebook.evaluate("saved.at(-1)") == {"run": 0, "table": "span", "row": row}
    notebook.evaluate("document.body.dataset.jpThemeLight = 'false'")
    notebook.wait_for_function(
        "document.getElementById('fa4-timeline').timeline.painter.theme.paper === '#16181c'"
    )
    notebook.evaluate("stop()")
    assert notebook.locator("#fa4-timeline > *").count() == 0
