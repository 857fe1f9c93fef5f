"""What stands on the site where a notebook shows something live."""

import importlib.util
from pathlib import Path

import pytest

nodes = pytest.importorskip("docutils.nodes")
CONF = Path(__file__).resolve().parents[2] / "docs" / "site" / "conf.py"


@pytest.fixture(scope="module")
def conf():
    spec = importlib.util.spec_from_file_location("site_conf", CONF)
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(CONF.parent))  # as it is when Sphinx reads it
        spec.loader.exec_module(module)
    return module


def cell(*mime_types):
    """A cell of a page whose one output can be shown in these ways."""
    bundle = nodes.container(nb_element="mime_bundle")
    bundle += [nodes.container("", nodes.Text(kind), mime_type=kind) for kind in mime_types]
    return nodes.section("", nodes.container("", bundle))


def test_a_control_becomes_a_line_of_words(conf):
    tree = cell(conf.WIDGET, "text/plain")
    conf.without_controls(None, tree)
    assert tree.astext() == conf.LIVE_ONLY.replace("`", "")
    assert [each.astext() for each in tree.findall(nodes.literal)] == ["make lab"]


def test_a_widget_that_has_a_picture_becomes_its_picture(conf):
    tree = cell(conf.WIDGET, "text/plain", "image/png")
    conf.without_controls(None, tree)
    (bundle,) = (each for each in tree.findall(nodes.container) if each.get("nb_element"))
    assert [child["mime_type"] for child in bundle.children] == ["text/plain", "image/png"]


def test_what_is_not_live_stays(conf):
    tree = cell("text/html", "image/png")
    conf.without_controls(None, tree)
    assert "text/html" in tree.astext() and "image/png" in tree.astext()
