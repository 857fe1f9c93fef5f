"""What the tests of the three GEMM examples share: operands, a run, and the events of a run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("fa4kernel.examples", reason="needs the CuTe DSL: pip install 'fa4sim[kernel]'")

from fa4kernel.emulator import Emulation, emulate
from fa4kernel.emulator.tensor.formats import decode
from fa4kernel.examples.matrices import Matrix, matrix

NAN = 0x7FFF


def signs(rng: np.random.Generator, m: int, n: int, k: int) -> tuple[Matrix, Matrix]:
    """A (m, k) and B (n, k) of −1, 0 and 1: sums up to 256 are exact in bf16, however added up."""
    a, b = rng.integers(-1, 2, (m, k)), rng.integers(-1, 2, (n, k))
    assert np.abs(a @ b.T).max() <= 256
    return matrix(a), matrix(b)


def multiply(
    compiled: Any,
    a: Matrix,
    b: Matrix,
    *,
    schedule: str | int = "lockstep",
    trace: bool = False,
    **options: Any,
) -> tuple[np.ndarray[Any, Any], Emulation]:
    """C as float32, from a run in which C and the padding of its rows were NaN before.

    The padding must still be NaN afterwards, and the checks have nothing to report.
    """
    m, n = len(a), len(b)
    padded = np.full((m, -(-n // 8) * 8 + 8), NAN, np.uint16)
    c = padded[:, :n]
    launch = compiled.launch(a, b, c, **options)
    run = emulate(compiled.ptx, launch, schedule=schedule, trace=trace)
    assert (padded[:, n:] == NAN).all(), "the kernel wrote outside C"
    assert not run.hazards, "\n".join(map(str, run.hazards))
    return decode(c, "bf16"), run


def arrivals(run: Emulation, barrier: str) -> dict[int, tuple[int, int]]:
    """For each CTA that has such a barrier: arrivals at all its stages, and bytes expected."""
    table, found = run.trace.arrive, {}
    for row in np.flatnonzero(np.array(table.text("barrier")) == barrier):
        count, size = found.get(cta := int(table["cta"][row]), (0, 0))
        found[cta] = count + int(table["count"][row]), size + int(table["tx_bytes"][row])
    return found


def work(run: Emulation, unit: str) -> dict[int, int]:
    """For each CTA: how many copies or MMAs its units did ("mma ×4" stands for four)."""
    table, found = run.trace.span, {}
    for row in np.flatnonzero(np.array(table.text("unit")) == unit):
        cta, (_, _, times) = int(table["cta"][row]), table.text("op")[row].partition("×")
        found[cta] = found.get(cta, 0) + int(times or 1)
    return found
