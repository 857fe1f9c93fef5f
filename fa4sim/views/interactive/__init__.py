"""A timeline to zoom, walk and search in: a widget in a notebook, or an HTML file of its own.

>>> from fa4sim import Problem, simulate
>>> from fa4sim.views import write_interactive
>>> trace = simulate(Problem(seqlen_q=256), scope="cta").trace
>>> path = write_interactive(trace, getfixture("tmp_path") / "timeline.html")
>>> path.read_text(encoding="utf-8")[:15]
'<!doctype html>'
"""

from fa4sim.views.interactive.data import MOST_SLICES, Payload, timeline_data
from fa4sim.views.interactive.show import interactive_html, interactive_timeline, write_interactive

__all__ = [
    "MOST_SLICES",
    "Payload",
    "interactive_html",
    "interactive_timeline",
    "timeline_data",
    "write_interactive",
]
