"""An interactive timeline of a notebook gets a page of its own on the site."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from fa4sim import Problem, simulate
from fa4sim.views import alt_text, interactive_timeline
from fa4sim.views.figure import png

nodes = pytest.importorskip("docutils.nodes")
ipywidgets = pytest.importorskip("ipywidgets")
pytest.importorskip("anywidget")
SITE = Path(__file__).resolve().parents[2] / "docs" / "site"


@pytest.fixture(scope="module")
def explore():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(SITE))
        yield importlib.import_module("explore")


@pytest.fixture(scope="module")
def timeline():
    return interactive_timeline(simulate(Problem(seqlen_q=256), scope="cta").trace)


@pytest.fixture
def app(timeline, explore, tmp_path):
    """Sphinx, as it has read a notebook with a slider and a timeline."""
    state = ipywidgets.Widget.get_manager_state(widgets=[timeline, ipywidgets.IntSlider()])
    body = {"type": "application/vnd.jupyter.widget-state+json", "body": json.dumps(state)}
    scripts = {explore.STATES: (None, body), "other": ("x.js", {})}
    (tmp_path / "still.png").write_bytes(png(timeline.picture))
    env = SimpleNamespace(docname="notebooks/n", nb_metadata={"notebooks/n": {"js_files": scripts}})
    return SimpleNamespace(env=env, srcdir=str(tmp_path))


def output(*children):
    return nodes.container("", *children, nb_element="mime_bundle")


def shown_by(kind, node):
    return nodes.container("", node, mime_type=kind)


def live(explore, model):
    text = json.dumps({"version_major": 2, "version_minor": 1, "model_id": model})
    return output(shown_by(explore.WIDGET, nodes.raw("", f"<script>{text}</script>")))


def notebook(explore, timeline, *first):
    still = output(
        shown_by("image/png", nodes.image(uri="still.png")),
        shown_by("text/plain", nodes.literal_block("", alt_text(timeline.picture))),
    )
    return nodes.section("", nodes.container("", *first, still, live(explore, timeline.model_id)))


def test_the_timeline_stands_in_a_frame_in_its_picture_s_place(explore, timeline, app, tmp_path):
    tree = notebook(explore, timeline)
    explore.with_timelines(app, tree)
    assert not list(tree.findall(nodes.image))
    (frame,) = tree.findall(nodes.raw)
    assert 'src="../_static/timelines/notebooks-n-0.html"' in frame.astext()
    assert 'title="Interactive timeline: simulated: B200' in frame.astext()
    page = (tmp_path / "_static/timelines/notebooks-n-0.html").read_text(encoding="utf-8")
    assert 'src="data:image/png;base64,' in page and "Timeline of CTA 0" in page
    (header,) = [part.split("</script>")[0] for part in page.split('id="fa4-header">')[1:]]
    assert json.loads(header.replace("\\u003c", "<")) == json.loads(timeline.header)


def test_what_the_states_of_widgets_are_for_is_not_on_the_site_and_they_are_not_either(
    explore, timeline, app
):
    explore.with_timelines(app, notebook(explore, timeline))
    assert set(app.env.nb_metadata["notebooks/n"]["js_files"]) == {"other"}


def test_other_widgets_stay_for_those_who_turn_them_into_words(explore, timeline, app):
    slider = live(explore, "0123abcd")
    tree = notebook(explore, timeline, slider)
    explore.with_timelines(app, tree)
    assert slider.parent is not None


def test_a_notebook_that_was_not_run_has_nothing_to_show(explore, app):
    app.env.nb_metadata = {}
    tree = nodes.section("", nodes.paragraph("", "text"))
    explore.with_timelines(app, tree)
    assert tree.astext() == "text"
