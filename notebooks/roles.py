"""Our kernel's roles and the simulator's: the functions that notebook 08 shows side by side."""

from __future__ import annotations

from fa4kernel.forward import correction, epilogue, load, mma, softmax
from fa4sim.pipelines.fa4.correction import CorrectionRole
from fa4sim.pipelines.fa4.epilogue import EpilogueRole
from fa4sim.pipelines.fa4.load import LoadRole
from fa4sim.pipelines.fa4.mma import MmaRole
from fa4sim.pipelines.fa4.softmax import SoftmaxRole

#: By the name of the file on both sides: the role's loop, and what it calls where the order of
#: things stands there; of softmax, a step.
ROLES = {
    "load": ((load.run,), (LoadRole.run, LoadRole.load_tile)),
    "correction": ((correction.run,), (CorrectionRole.run,)),
    "epilogue": ((epilogue.run,), (EpilogueRole.run,)),
    "mma": ((mma.multiply_tiles, mma.pv), (MmaRole.run, MmaRole.pv)),
    "softmax": ((softmax.softmax_step,), (SoftmaxRole.softmax_step,)),
}
