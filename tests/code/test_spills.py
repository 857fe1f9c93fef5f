"""Kernels in which threads copy rows spill no register, by the registers that the design gives."""

from __future__ import annotations

import pytest

pytest.importorskip("cutlass", reason="needs the CuTe DSL: pip install 'fa4sim[kernel]'")

from fa4kernel.code import ptxas
from tests.forward.cases import ALL, named
from tests.forward.launching import kernel_of

#: Rows of Q, of K and V, or of both are copied; or O is stored by the correction.
NAMES = (
    "page-16-WTR", "page-1-decode-T", "page-1-window-R", "page-8-varlen", "page-32-causal-WTR",
    "page-32-odd-3", "page-64-odd-7-one-row-T", "page-64-d96", "page-8-shared-prefix-d64",
    "page-16-d192-uneven-ring-WT", "page-1-decode-fp8", "page-32-fp8-d64-causal-odd-3",
    "page-16-split-causal-R", "odd-5-WT", "odd-7-one-row-T", "stored-by-correction-T",
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.sample(3)
@pytest.mark.parametrize("name", NAMES)
def test_no_register_is_spilled(name):
    found = ptxas.find()
    if found is None:
        pytest.skip(ptxas.ABSENT)
    assert not ptxas.assemble(kernel_of(named(name)).ptx, found).spills


def test_there_is_a_case_for_every_way_of_copying():
    cases = [named(name) for name in NAMES]
    ways = {(c.config.q_load, c.config.kv_load, c.config.q_stages) for c in cases}
    assert ways >= {
        (c.config.q_load, c.config.kv_load, c.config.q_stages)
        for c in ALL
        if "cp_async" in (c.config.q_load, c.config.kv_load)
    }
