"""The one record that every run produces, and its reader and writer.

A simulated pipeline, an emulated kernel and a measured GPU all describe what happened with the
same six tables; every picture, check and comparison is a function of them.

>>> from fa4sim.trace import Trace
>>> trace = Trace()
>>> trace.add("span", sm=0, cta=0, role="load", warp=14, unit="issue", op="tma_k", start=0, end=9)
0
>>> trace.span.text("op")[0], int(trace.span["end"][0])
('tma_k', 9)
"""

from fa4sim.trace.io import load, save
from fa4sim.trace.table import NONE, Table
from fa4sim.trace.trace import (
    CLOCKS,
    COLUMNS,
    RECEIVERS,
    SCHEMA,
    TEXT_COLUMNS,
    Repeat,
    Ring,
    Trace,
)

__all__ = [
    "CLOCKS",
    "COLUMNS",
    "NONE",
    "RECEIVERS",
    "SCHEMA",
    "TEXT_COLUMNS",
    "Repeat",
    "Ring",
    "Table",
    "Trace",
    "load",
    "save",
]
