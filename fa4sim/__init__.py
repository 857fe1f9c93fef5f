"""Attention's forward pass on NVIDIA Blackwell and Hopper, simulated barrier by barrier.

>>> import fa4sim
>>> run = fa4sim.simulate(fa4sim.Problem(batch=1, heads=1, seqlen_q=512))
>>> run.report.cycles > 0
True

``Problem``, ``Design`` and ``Machine`` say what is run, how and on what; :func:`simulate` runs it
and returns a ``Run`` with a ``Trace``, a report and, with arrays attached, outputs. Pictures are in
``fa4sim.views``, tables in ``fa4sim.analysis``, the reference in ``fa4sim.numerics``.
"""

from fa4sim.engine.errors import Deadlock, Hazard, HazardError
from fa4sim.prediction import Prediction, predict
from fa4sim.report import Report, Wait
from fa4sim.simulate import Outputs, Run, simulate
from fa4sim.specs import (
    B200,
    B300,
    H100,
    H200,
    Design,
    Fault,
    HopperDesign,
    Machine,
    Problem,
    design_for,
    machine_named,
)
from fa4sim.trace import Trace

__version__ = "0.1.0"

__all__ = [
    "B200",
    "B300",
    "H100",
    "H200",
    "Deadlock",
    "Design",
    "Fault",
    "Hazard",
    "HazardError",
    "HopperDesign",
    "Machine",
    "Outputs",
    "Prediction",
    "Problem",
    "Report",
    "Run",
    "Trace",
    "Wait",
    "design_for",
    "machine_named",
    "predict",
    "simulate",
]
