"""What is to be simulated: the problem, the machine and the design, as immutable values.

>>> from fa4sim.specs import B200, Design, Problem
>>> Design.for_problem(Problem(seqlen_q=8192), B200).kv_stages
6
"""

from fa4sim.specs.design import FRAGMENT, SCHEDULERS, Design
from fa4sim.specs.faults import FAULT_KINDS, Fault
from fa4sim.specs.hopper import AnyDesign, HopperDesign, design_for
from fa4sim.specs.hopper_machines import H100, H200
from fa4sim.specs.machine import Machine
from fa4sim.specs.machines import B200, B300, MACHINES, machine_named
from fa4sim.specs.origin import Origin
from fa4sim.specs.problem import DTYPE_BYTES, FP8, Problem, as_window

__all__ = [
    "B200",
    "B300",
    "DTYPE_BYTES",
    "FAULT_KINDS",
    "FP8",
    "FRAGMENT",
    "H100",
    "H200",
    "MACHINES",
    "SCHEDULERS",
    "AnyDesign",
    "Design",
    "Fault",
    "HopperDesign",
    "Machine",
    "Origin",
    "Problem",
    "as_window",
    "design_for",
    "machine_named",
]
