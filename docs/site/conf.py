"""Sphinx's configuration of the site; :mod:`build` gathers the sources and calls Sphinx."""

import os

from docutils import nodes
from explore import WIDGET, with_timelines

import fa4sim

project = "fa4sim"
author = "The fa4sim developers"
copyright = "the fa4sim developers; Apache-2.0"
version = release = fa4sim.__version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_click",
    "sphinx_copybutton",
]
default_role = "code"  # a single backtick in a docstring is code
suppress_warnings = ["config.cache", "mystnb.unknown_mime_type"]
nitpicky = False

myst_enable_extensions = ["colon_fence", "deflist", "linkify"]
myst_linkify_fuzzy_links = False
myst_heading_anchors = 4

outputs = os.environ.get("FA4SIM_SITE_OUTPUTS", "")
nb_execution_mode = "cache" if outputs else "off"
nb_execution_cache_path = outputs
nb_execution_timeout = 300
nb_execution_raise_on_error = True
nb_execution_in_temp = False
nb_ipywidgets_js = {}  # nothing is fetched: controls work in the notebook, not on the page
nb_merge_streams = True
nb_render_markdown_format = "gfm"  # tables that a notebook makes

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
napoleon_numpy_docstring = False
napoleon_use_rtype = False

html_theme = "furo"
html_title = "fa4sim"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0b5394", "color-brand-content": "#0b5394"},
    "dark_css_variables": {"color-brand-primary": "#8ab8f0", "color-brand-content": "#8ab8f0"},
}
copybutton_exclude = ".linenos, .gp, .go"

LIVE_ONLY = "(The notebook has a control here: open it with `make lab` to turn the knob.)"


def without_controls(app, tree):
    """Put a line of words where a notebook shows a control: a page can't re-run anything.

    A widget that brings a picture of itself is shown by that.
    """
    noted = None
    for bundle in list(tree.findall(nodes.container)):
        if bundle.get("nb_element") != "mime_bundle":
            continue
        live = [child for child in bundle.children if child.get("mime_type") == WIDGET]
        if not live:
            continue
        if any(str(child.get("mime_type")).startswith("image/") for child in bundle.children):
            for child in live:
                bundle.remove(child)
            continue
        cell = bundle.parent
        if noted is cell:  # one line for all controls of a cell
            cell.remove(bundle)
            continue
        before, command, after = LIVE_ONLY.split("`")
        words = (nodes.Text(before), nodes.literal("", command), nodes.Text(after))
        bundle.replace_self(nodes.paragraph("", "", *words, classes=["live-only"]))
        noted = cell


def setup(app):
    """Called by Sphinx."""
    app.connect("doctree-read", with_timelines)
    app.connect("doctree-read", without_controls)
