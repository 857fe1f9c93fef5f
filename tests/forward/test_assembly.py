"""Forms of the kernel that serve inference keep everything in registers."""

from __future__ import annotations

import pytest

pytest.importorskip("cutlass", reason="needs the CuTe DSL: pip install 'fa4sim[kernel]'")

from fa4kernel.code import ptxas
from tests.forward.cases import named
from tests.forward.launching import kernel_of

FORMS = (
    ("pair", "fp8"), ("causal-WR", "fp8"), ("d64-WT", "fp8"), ("d64-window", "fp8"),
    ("d96-T", "fp8"), ("packed-2-pair", "fp8"), ("one-tile", "fp8"), ("decode", "split"),
    ("prefill-R", "split"), ("causal-R", "split"), ("fp8-decode", "split"),
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.sample(2)
@pytest.mark.skipif(ptxas.find() is None, reason="no ptxas here")
@pytest.mark.parametrize("name, group", FORMS)
def test_nothing_is_spilled(name, group):
    assert not ptxas.assemble(kernel_of(named(name, group)).ptx, ptxas.find()).spills
