"""What is known of made-up kernels."""

from __future__ import annotations

from dataclasses import replace

from fa4kernel.code.comparison import WORK, Code
from fa4kernel.code.kernels import Kernel
from fa4kernel.code.machine_code import MachineLoop
from fa4kernel.code.measure import Measurement, Role
from fa4kernel.code.ptxas import Assembly
from fa4kernel.code.shapes import SHAPES
from tests.code.kernels import stand_in, stand_in_launch

SHAPE = SHAPES["full-128"]
NO_SPILLS = Assembly(128, spill_stores=0, spill_loads=0, stack=0, static_shared=0)
SPILLS = replace(NO_SPILLS, spill_stores=8, spill_loads=24, stack=16)


def code(
    name: str = "ours",
    exponentials: int = 113,
    assembly: Assembly | None = NO_SPILLS,
    work: dict[str, float] | None = None,
    even: bool = True,
    exact: bool = True,
    **changes: object,
) -> Code:
    """A kernel with a softmax role alone; ``changes`` are of its measurement."""
    kernel = Kernel(name, f"the {name} kernel, version 7", stand_in(), stand_in_launch)
    step = {"MUFU": float(exponentials), "packed FMA": 2.0, "move": 40.0}
    role = Role("softmax", (0, 1, 2, 3), 192, step, step, {"conversion": 5.0}, None, even, exact)
    some = dict.fromkeys(WORK, 4.0)
    measured = Measurement(SHAPE, kernel, 1024, 4321, (role,), some | (work or {}), some, True)
    loops = {} if assembly is None else {"softmax": MachineLoop(120, exponentials, 7)}
    return Code(replace(measured, **changes), assembly, loops)
