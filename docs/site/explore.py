"""Interactive timelines of notebooks on the site, where no kernel runs.

A notebook's outputs hold what the timeline shows: the state of its widget, and its picture. Both
are put into a page of its own, which stands in a frame where the notebook has the widget, and is
loaded when a reader comes near it.
"""

from __future__ import annotations

import base64
import html
import json
import re
from pathlib import Path
from typing import Any

from docutils import nodes

from fa4sim.views.interactive.data import Payload
from fa4sim.views.interactive.page import page_with

WIDGET = "application/vnd.jupyter.widget-view+json"
#: Where myst-nb puts the states of a notebook's widgets, for scripts that this site does not load.
STATES = "ipywidgets_state"
FOLDER = "_static/timelines"

FRAME = """\
<iframe src="{to_root}{path}" title="{title}" loading="lazy"
 style="width: 100%; height: {height}px; border: 1px solid #8888; border-radius: 6px"></iframe>
<p><a href="{to_root}{path}">This timeline on a page of its own</a></p>
"""
#: Beside the tracks: the strips above them, and the panel and colours below.
AROUND = 260


def with_timelines(app: Any, tree: nodes.document) -> None:
    """Put a page into a frame wherever a notebook shows an interactive timeline."""
    scripts = app.env.nb_metadata.get(app.env.docname, {}).get("js_files", {})
    if STATES not in scripts:
        return
    _, attributes = scripts.pop(STATES)
    states = json.loads(attributes["body"])["state"]
    for number, bundle in enumerate(_bundles(tree)):
        state = states.get(_model(bundle), {}).get("state", {})
        if "header" not in state or "columns" not in _buffers(states[_model(bundle)]):
            continue
        still = _picture_before(bundle)
        if still is None:
            raise ValueError(f"{app.env.docname}: a timeline without its picture before it")
        path = f"{FOLDER}/{app.env.docname.replace('/', '-')}-{number}.html"
        _write(Path(app.srcdir), path, states[_model(bundle)], still)
        frame = FRAME.format(
            to_root="../" * app.env.docname.count("/"), path=path, height=state["height"] + AROUND,
            title=html.escape("Interactive timeline: " + json.loads(state["header"])["title"]),
        )  # fmt: skip
        still.parent.remove(still)
        bundle.replace_self(nodes.raw("", frame, format="html"))


def _bundles(tree: nodes.document) -> list[nodes.container]:
    """The outputs of a notebook that are widgets."""
    return [
        bundle
        for bundle in tree.findall(nodes.container)
        if bundle.get("nb_element") == "mime_bundle" and _model(bundle)
    ]


def _model(bundle: nodes.container) -> str:
    """The widget that an output shows; '' for none."""
    for child in bundle.children:
        if isinstance(child, nodes.container) and child.get("mime_type") == WIDGET:
            found = re.search(r'"model_id": "(\w+)"', child.children[0].astext())
            return found[1] if found else ""
    return ""


def _picture_before(bundle: nodes.container) -> nodes.container | None:
    """The output directly before one, if it is a picture."""
    at = bundle.parent.index(bundle)
    before = bundle.parent[at - 1] if at else None
    return before if isinstance(before, nodes.container) and list(_images(before)) else None


def _images(output: nodes.container) -> Any:
    return output.findall(nodes.image)


def _buffers(model: dict[str, Any]) -> dict[str, bytes]:
    """The bytes of a widget's state by name."""
    return {
        buffer["path"][0]: base64.b64decode(buffer["data"])
        for buffer in model.get("buffers", ())
        if buffer["encoding"] == "base64"
    }


def _write(source: Path, path: str, model: dict[str, Any], still: nodes.container) -> None:
    """The page of a timeline, with its picture for who runs no scripts."""
    (image,) = _images(still)
    words = [child.astext() for child in still.children if child.get("mime_type") == "text/plain"]
    text = page_with(
        Payload(json.loads(model["state"]["header"]), _buffers(model)["columns"]),
        (source / image["uri"].lstrip("/")).read_bytes(),
        words[0],
    )
    target = source / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, encoding="utf-8")
