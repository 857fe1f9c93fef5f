"""Small problems whose outputs on a GPU are held against the emulator's, element by element.

The same PTX and the same numbers on both. What the emulator models only as well as the manual
promises is 2^x, 1/x and log2 x of the special-function unit; the rest is IEEE arithmetic, and the
tensor core's, which its arithmetic "faithful" rounds bit by bit. Where all scores are whole numbers
(`Case.whole`), every 2^x is exact, and only 1/x and log2 x are left.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib import resources
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fa4kernel.forward.launch import Arrays
from fa4kernel.hopper.config import Config
from fa4kernel.hopper.design import config_for
from fa4kernel.hopper.recording import Run, compute, in_emulator, normal
from fa4kernel.kernels import Kernel, kernel_for
from fa4sim.numerics.formats import from_bits16, to_bits16
from fa4sim.specs import B200, Problem

SMS = 2  # so that CTAs work on several tiles
SEED = 11
FILE = "h200_outputs.npz"
#: Numbers of Q that are not 0 in each row of a case with whole scores: these lie in -6 to 6.
NONZERO = 6


@dataclass(frozen=True)
class Case:
    """A problem, and how the kernel's design is changed for it.

    Attributes:
        name: in words.
        problem: what is computed.
        changes: fields of `fa4kernel.hopper.Config`.
        whole: scores are whole numbers, and powers of 2 their exponentials.
    """

    name: str
    problem: Problem
    changes: dict[str, Any] = field(default_factory=dict, compare=False)
    whole: bool = False

    @property
    def cfg(self) -> Config:
        """Of the kernel."""
        return config_for(self.problem, **self.changes)

    @property
    def kernel(self) -> Kernel:
        """Not compiled before its `ptx` is asked for."""
        return kernel_for(self.problem, "sm_90a", B200, self.changes)

    @property
    def ptx(self) -> str:
        """The compiled kernel; needs the DSL unless it was compiled before."""
        return self.kernel.ptx

    def arrays(self) -> Arrays:
        """Its numbers, and room for the output."""
        found = normal(self.problem, SEED)
        if not self.whole:
            return found
        rng = np.random.default_rng(SEED)
        q: NDArray[np.float32] = np.zeros(found.q.shape, np.float32)
        k = rng.choice([-1.0, 1.0], found.k.shape)
        columns = np.broadcast_to(np.arange(found.q.shape[-1]), found.q.shape)
        chosen = rng.permuted(columns, axis=-1)[..., :NONZERO]
        np.put_along_axis(q, chosen, rng.choice([-1.0, 1.0], chosen.shape).astype("f4"), axis=-1)
        dtype = self.problem.dtype
        return replace(found, q=to_bits16(q, dtype), k=to_bits16(k.astype("f4"), dtype))

    def run(self, run: Run) -> Output:
        """What the kernel gives."""
        arrays = self.arrays()
        compute(self.cfg, self.problem, arrays, SMS, run)
        assert arrays.lse is not None
        return Output(arrays.o, arrays.lse)


class Output(NamedTuple):
    """Bits of O, and LSE."""

    o: NDArray[np.uint16]
    lse: NDArray[np.float32]


LN_2 = math.log(2)  # as the scale of the softmax, exp(s ln 2) is 2^s

CASES = (
    Case("d128 full", Problem(seqlen_q=256, seqlen_k=640)),
    Case("d128 causal, odd lengths", Problem(seqlen_q=203, seqlen_k=521, causal=True)),
    Case("d128 window, grouped",
         Problem(heads=2, kv_heads=1, seqlen_q=140, seqlen_k=390, window=(130, 70))),
    Case("d128 fp16", Problem(seqlen_q=128, seqlen_k=384, dtype="fp16")),
    Case("d64 full, 3 consumers", Problem(head_dim=64, seqlen_q=384, seqlen_k=512)),
    Case("d64 causal, grouped, 3 consumers",
         Problem(head_dim=64, heads=4, kv_heads=2, seqlen_q=150, seqlen_k=290, causal=True)),
    Case("d64 fp16, 2 consumers", Problem(head_dim=64, seqlen_q=256, seqlen_k=300, dtype="fp16"),
         {"consumers": 2, "registers": (240, 24)}),
    Case("d128 96 keys, no overlap", Problem(seqlen_q=128, seqlen_k=480),
         {"tile_n": 96, "overlap": False}),
    Case("d128 full, whole scores",
         Problem(seqlen_q=256, seqlen_k=512, softmax_scale=LN_2), whole=True),
    Case("d128 fp16, whole scores",
         Problem(seqlen_q=128, seqlen_k=384, dtype="fp16", softmax_scale=LN_2), whole=True),
    Case("d64 causal, whole scores, 3 consumers",
         Problem(head_dim=64, seqlen_q=300, seqlen_k=300, causal=True, softmax_scale=LN_2),
         whole=True),
)  # fmt: skip


@dataclass(frozen=True)
class Difference:
    """Two outputs, element by element.

    Attributes:
        elements: numbers in O.
        differing: of them, those whose bits differ.
        steps: the largest difference, in steps between neighbouring 16-bit numbers.
        largest: the same, as a number.
        lse_differing, lse_largest: likewise of LSE; infinities that agree differ by 0.
    """

    elements: int
    differing: int
    steps: int
    largest: float
    lse_differing: int
    lse_largest: float

    @classmethod
    def of(cls, dtype: str, one: Output, other: Output) -> Difference:
        """Of two outputs of a case."""
        values = [from_bits16(each.o, dtype).astype(np.float64) for each in (one, other)]
        steps = np.abs(_ordered(one.o) - _ordered(other.o))
        with np.errstate(invalid="ignore"):
            lse = np.abs(one.lse.astype(np.float64) - other.lse)
        lse[one.lse == other.lse] = 0.0
        return cls(
            one.o.size, int((one.o != other.o).sum()), int(steps.max()),
            float(np.abs(values[0] - values[1]).max()), int((one.lse != other.lse).sum()),
            float(lse.max()),
        )  # fmt: skip


def _ordered(bits: NDArray[np.uint16]) -> NDArray[np.int32]:
    """Whole numbers in the order of the floats; both zeros are 0."""
    magnitude = (bits & 0x7FFF).astype(np.int32)
    return np.where(bits >> 15 == 1, -magnitude, magnitude)


def digest(ptx: str) -> str:
    """Of the instructions of a kernel: paths, lines of the source and notes don't count."""
    lines = (line.strip() for line in ptx.split("\n\t.section\t.debug")[0].splitlines())
    return hashlib.sha256("\n".join(_instructions(lines)).encode()).hexdigest()[:16]


def _instructions(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        if line and not line.startswith((".loc", ".file", "//")):
            yield line


def stored_outputs() -> tuple[dict[str, Output], dict[str, Any]]:
    """What an H200 gave, by the name of the case; device, driver, date and digests of the PTX.

    >>> stored_outputs()[1]["device"]
    'NVIDIA H200'
    """
    place = resources.files("fa4kernel.bench") / "data" / FILE
    with np.load(io.BytesIO(place.read_bytes()), allow_pickle=False) as file:
        found = {
            case.name: Output(file[f"{case.name}/o"], file[f"{case.name}/lse"]) for case in CASES
        }
        return found, json.loads(str(file["about"]))


def pack(found: Mapping[str, Output], about: Mapping[str, Any]) -> bytes:
    """An .npz file of outputs from one machine."""
    arrays: dict[str, Any] = {}
    for name, output in found.items():
        arrays |= {f"{name}/o": output.o, f"{name}/lse": output.lse}
    target = io.BytesIO()
    np.savez_compressed(target, about=json.dumps(dict(about)), **arrays)
    return target.getvalue()


def hold(case: Case, arithmetic: str) -> Difference:
    """The emulator's output of a case against what the H200 gave; needs the DSL."""
    stored, _ = stored_outputs()
    ours = case.run(in_emulator(case.ptx, arithmetic))
    return Difference.of(case.problem.dtype, ours, stored[case.name])
