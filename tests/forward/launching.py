"""A case as a launch, for those who run it themselves: under mutations, under many schedules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fa4kernel.accuracy import LARGEST, LSE, RELATIVE, Accuracy, Errors, limits, lse_error, truth
from fa4kernel.call import Call
from fa4kernel.cli.run import arguments, padded, padded_lse
from fa4kernel.emulator import Launch
from fa4kernel.forward.launch import Arrays
from fa4kernel.kernels import Kernel, kernel_for
from fa4sim.numerics import combine, from_bits16
from tests.forward.cases import Case
from tests.forward.running import draw

_OPTIONAL = dict.fromkeys(("cu_seqlens_q", "cu_seqlens_k", "seqused_k", "page_table"))


@dataclass(frozen=True)
class Started:
    """One launch with arrays of its own, and what to ask when it has run."""

    case: Case
    launch: Launch
    arrays: Arrays
    expected: tuple[NDArray[np.float64], NDArray[np.float64]]
    limit: Errors

    def outputs(self) -> list[NDArray[np.float32]]:
        """Output and LSE as numbers; of splits combined as their kernel does it."""
        assert self.arrays.lse is not None
        dtype = "fp16" if self.case.problem.dtype == "fp16" else "bf16"
        if self.arrays.partial_o is None or self.arrays.partial_lse is None:
            return [from_bits16(self.arrays.o, dtype), self.arrays.lse]
        one = self.arrays.lse.ndim == 2  # sequence, as which all tokens are combined
        parts = (self.arrays.partial_o, self.arrays.partial_lse)
        found = combine(*(x[:, None] if one else x for x in parts), dtype)
        return [x[0] if one else x for x in found]

    def problems(self) -> list[str]:
        """What is wrong with the outputs."""
        out, lse = self.outputs()
        exact, exact_lse = self.expected
        problem = self.case.problem
        found = Accuracy(
            Errors.of(padded(problem, out), exact),
            lse_error(padded_lse(problem, lse), exact_lse),
            self.limit,
        )
        if found.ok:
            return []
        return [f"{found.errors} of {self.limit}; LSE is off by {found.lse:.3g} of {LSE}"]


def kernel_of(case: Case) -> Kernel:
    """The kernel of a case; its `ptx` is compiled when it is asked for."""
    return kernel_for(case.problem, "sm_100a", case.machine, case.design, case.descale)


def starter(case: Case, seed: int = 0) -> Callable[[], Started]:
    """Something that makes a launch of equal values each time; what is expected is found once."""
    inputs, problem = draw(case, seed), case.problem
    expected = truth(problem, inputs)
    limit = limits(problem, partial(draw, case), seed)
    assert limit is not None, f"PyTorch says what {RELATIVE} and {LARGEST} times its errors are"

    def start() -> Started:
        given: dict[str, Any] = _OPTIONAL | arguments(problem, inputs)
        call = Call.of(given.pop("q"), given.pop("k"), given.pop("v"), **given)
        kernel = kernel_of(case)
        arrays = call.arrays(kernel.splits)
        made = kernel.launch(arrays, case.sms)
        return Started(case, made, arrays, expected, limit)

    return start
