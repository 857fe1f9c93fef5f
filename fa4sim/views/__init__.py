"""Pictures of a trace, and traces for the Perfetto viewer.

Every function takes a :class:`fa4sim.trace.Trace`, whatever made it, and returns a matplotlib
figure that carries a description in words and numbers; :func:`alt_text` reads it, :func:`save`
writes it into the file. Nothing here touches ``pyplot``.

>>> from fa4sim import Problem, simulate
>>> from fa4sim.views import alt_text, tile_life
>>> run = simulate(Problem(seqlen_q=512, causal=True), scope="cta")
>>> print(alt_text(tile_life(run.trace)))
The life of K₃...
"""

try:
    import matplotlib as _matplotlib  # noqa: F401
except ImportError as error:
    raise ImportError("pictures need matplotlib: pip install 'fa4sim[viz]'") from error

from fa4sim.views.aligned import align, aligned_timelines
from fa4sim.views.barrier_phases import barrier_phases
from fa4sim.views.figure import Picture, alt_text, save
from fa4sim.views.interactive import (
    interactive_html,
    interactive_timeline,
    write_interactive,
)
from fa4sim.views.kv_pages import page_map, page_sizes
from fa4sim.views.memory_map import memory_map
from fa4sim.views.occupancy import sm_occupancy
from fa4sim.views.perfetto import write_perfetto
from fa4sim.views.perfetto_reader import read_perfetto
from fa4sim.views.tiles import tile_life
from fa4sim.views.timeline import compare_timelines, timeline
from fa4sim.views.units import unit_utilisation

__all__ = [
    "Picture",
    "align",
    "aligned_timelines",
    "alt_text",
    "barrier_phases",
    "compare_timelines",
    "interactive_html",
    "interactive_timeline",
    "memory_map",
    "page_map",
    "page_sizes",
    "read_perfetto",
    "save",
    "sm_occupancy",
    "tile_life",
    "timeline",
    "unit_utilisation",
    "write_interactive",
    "write_perfetto",
]
