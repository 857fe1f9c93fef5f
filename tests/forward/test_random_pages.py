"""Random problems with keys in pages, on two compiled kernels that take pages of any size.

Drawn are lengths, sequences, the size of pages, heads, how many multiprocessors there are, whether
scores grow, and the order of events.
"""

from __future__ import annotations

import pytest

pytest.importorskip("cutlass", reason="needs the CuTe DSL: pip install 'fa4sim[kernel]'")

from hypothesis import given
from hypothesis import strategies as st

from tests.forward.test_random import MANY, check

pytestmark = pytest.mark.slow

BY_THREADS = {"kv_load": "cp_async"}  # pages of 128, too: all sizes run on one kernel
SIZES = st.integers(1, 256) | st.sampled_from([1, 2, 16, 64, 127, 128, 129, 256])
#: Keys of a few sequences; not all are empty.
KEYS = st.lists(st.integers(0, 500), min_size=1, max_size=4).filter(any)


@given(st.data(), st.integers(1, 300), KEYS, SIZES)
@MANY
def test_pages_of_any_size(data, q, keys, size):
    fixed = {"group": 4, "head_dim": 64, "causal": True, "design": BY_THREADS}
    check(data, fixed, seqlen_q=q, seqlens_k=tuple(keys), page_size=size)


@given(st.data(), st.integers(1, 25), KEYS, SIZES)
@MANY
def test_pages_of_any_size_with_one_tile_of_an_odd_group(data, q, keys, size):
    fixed = {"group": 5, "head_dim": 32, "sink": True, "design": {"q_stages": 1} | BY_THREADS}
    check(data, fixed, seqlen_q=q, seqlens_k=tuple(keys), page_size=size)
