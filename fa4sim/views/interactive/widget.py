"""The timeline in a notebook: a widget of anywidget, with a picture where nothing is live."""

from __future__ import annotations

import base64
import json
from typing import Any

import anywidget
import traitlets
from IPython.display import publish_display_data

from fa4sim.views.figure import Picture, alt_text, png
from fa4sim.views.interactive.assets import WIDGET, script, text
from fa4sim.views.interactive.data import Payload

#: What stands below the picture where a notebook shows no widgets.
NOT_LIVE = "(Run the cell: the same as a timeline to explore.)"

#: The same for JupyterLab, which saves a widget's output without its model, and has nothing but an
#: error for it when the notebook is opened again: ipywidgets' renderer (jupyterlab-manager 5) does
#: not turn to the output's other types. Put out before the picture. Where a notebook is not
#: trusted, JupyterLab takes neither style nor widget, and shows the words by itself.
SAVED = f"""\
<style class="fa4-saved">
.jp-OutputArea-child:has(style.fa4-saved) {{ display: none; }}
.jp-OutputArea-child:has(style.fa4-saved) + .jp-OutputArea-child + .jp-OutputArea-child
  > .jp-OutputArea-output.jupyter-widgets:not(:has(*)) {{ font-size: 0; }}
.jp-OutputArea-child:has(style.fa4-saved) + .jp-OutputArea-child + .jp-OutputArea-child
  > .jp-OutputArea-output.jupyter-widgets:not(:has(*))::before {{
  content: "{NOT_LIVE}"; font-size: var(--jp-content-font-size1, 14px);
}}
</style>"""


class TimelineWidget(anywidget.AnyWidget):
    """An interactive timeline in Jupyter.

    ``selected`` is what the reader has selected: ``{"run": 0, "table": "span", "row": 12}``, the
    row being that of the (expanded) trace's table; empty for nothing. ``observe`` it to follow.
    ``height`` is that of the tracks, in pixels.

    Its picture is put out before it, for where nothing is live: a notebook that is opened again,
    printed, or on a web site. Where the timeline is live, JupyterLab does not show the picture;
    where it is not, it shows words below it.
    """

    _esm = script(WIDGET)
    _css = text("style.css")
    header = traitlets.Unicode().tag(sync=True)
    columns = traitlets.Bytes().tag(sync=True)
    height = traitlets.Int(520).tag(sync=True)
    selected = traitlets.Dict().tag(sync=True)

    def __init__(self, payload: Payload, picture: Picture, height: int = 520) -> None:
        super().__init__(header=json.dumps(payload.header), columns=payload.columns, height=height)
        self.picture = picture

    def _ipython_display_(self) -> None:
        """Put out a style, the picture, then what becomes the timeline where all is live."""
        still = {
            "text/plain": alt_text(self.picture),
            "image/png": base64.b64encode(png(self.picture)).decode(),
        }
        width = round(self.picture.get_figwidth() * self.picture.dpi)
        publish_display_data({"text/html": SAVED})
        publish_display_data(still, {"image/png": {"width": width}})
        publish_display_data(*self._repr_mimebundle_())

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        live = super()._repr_mimebundle_(**kwargs)
        data, metadata = live if live is not None else ({}, {})
        return {**data, "text/plain": NOT_LIVE}, metadata
