"""The four examples as subjects of a soak: they wrap their rings, and have several tiles."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from fa4kernel.emulator.soak.subject import Prepared, Subject
from fa4kernel.emulator.tensor.formats import decode
from fa4kernel.examples import gemm, gemm_pair, ring, tma_copy
from fa4kernel.examples.matrices import matrix
from fa4kernel.examples.matrices import reference as product

NAMES = ("tma_copy", "gemm", "gemm_pair", "ring")
WHAT = {
    "tma_copy": "TMA in and out, four CTAs, ragged edges",
    "gemm": "two CTAs, a ring of 4 slots for 6 blocks",
    "gemm_pair": "two pairs of CTAs, a ring of 4 slots for 6 blocks",
    "ring": "two CTAs, three tiles, roles by warp, a ring of 3 slots",
}
#: Rows and columns of C, and what is summed over.
SIZES = {
    "gemm": (2 * gemm.M, gemm.N, 6 * gemm.K),
    "gemm_pair": (2 * gemm_pair.M, gemm_pair.N, 6 * gemm_pair.K),
    "ring": (3 * ring.M, ring.N, 5 * ring.K),
}
MODULES = {"gemm": gemm, "gemm_pair": gemm_pair, "ring": ring}


def subject(name: str) -> Subject:
    """One of the examples."""
    if name == "tma_copy":
        compiled = tma_copy.compile_ptx()
        return Subject(name, WHAT[name], {name: compiled.ptx}, partial(_copy, compiled))
    compiled = MODULES[name].compile_ptx()
    prepare = partial(_multiply, name, compiled, *SIZES[name])
    return Subject(name, WHAT[name], {name: compiled.ptx}, prepare)


def _copy(compiled: Any) -> Prepared:
    rng = np.random.default_rng(0)
    shape = 2 * tma_copy.ROWS - 3, 2 * tma_copy.COLUMNS - 4
    source = rng.standard_normal(shape).astype(np.float32)
    target = np.full_like(source, np.nan)

    def problems() -> list[str]:
        return [] if np.array_equal(source, target) else ["the copy differs"]

    launches = [("tma_copy", compiled.launch(source, target))]
    return Prepared(launches, lambda: [target], problems)


def _multiply(name: str, compiled: Any, m: int, n: int, k: int) -> Prepared:
    rng = np.random.default_rng(0)
    # of -1, 0 and 1, so that sums are exact in bf16, however they are added up
    a, b = matrix(rng.integers(-1, 2, (m, k))), matrix(rng.integers(-1, 2, (n, k)))
    c = matrix(np.full((m, n), np.nan))

    def problems() -> list[str]:
        wrong = int(np.count_nonzero(decode(c, "bf16") != product(a, b)))
        return [f"{wrong:,} of {c.size:,} sums are wrong"] if wrong else []

    return Prepared([(name, compiled.launch(a, b, c))], lambda: [c], problems)
