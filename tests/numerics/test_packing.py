from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fa4sim.numerics import (
    attention_blockwise,
    mask_matrix,
    pack_heads,
    pack_lse,
    round_to,
    unpack_heads,
    unpack_lse,
)


@given(
    batch=st.integers(0, 3),
    queries=st.integers(0, 5),
    kv_heads=st.integers(1, 4),
    ratio=st.integers(1, 9),
)
def test_row_r_is_query_r_div_ratio_of_head_r_mod_ratio(batch, queries, kv_heads, ratio) -> None:
    shape = (batch, queries, kv_heads * ratio, 2)
    q = np.arange(np.prod(shape)).reshape(shape)
    packed = pack_heads(q, kv_heads)
    assert packed.shape == (batch, queries * ratio, kv_heads, 2)
    for row in range(queries * ratio):
        for group in range(kv_heads):
            head = group * ratio + row % ratio
            assert np.array_equal(packed[:, row, group], q[:, row // ratio, head])
    assert np.array_equal(unpack_heads(packed, ratio), q)
    lse = q[..., 0].swapaxes(1, 2)
    packed_lse = pack_lse(lse, kv_heads)
    assert np.array_equal(packed_lse, packed[..., 0].swapaxes(1, 2))
    assert np.array_equal(unpack_lse(packed_lse, ratio), lse)


@pytest.mark.parametrize("ratio", [1, 3, 5, 8, 16])
@pytest.mark.parametrize("queries", [1, 2, 90])
def test_unmasked_attention_of_packed_heads_has_the_same_bits(ratio, queries) -> None:
    rng = np.random.default_rng(ratio)
    q, k, v = (
        round_to(rng.standard_normal((2, rows, heads, 32)).astype(np.float32), "bf16")
        for rows, heads in ((queries, 2 * ratio), (333, 2), (333, 2))
    )
    out, lse = attention_blockwise(q, k, v)
    packed_out, packed_lse = attention_blockwise(pack_heads(q, 2), k, v)
    assert np.array_equal(unpack_heads(packed_out, ratio), out)
    assert np.array_equal(unpack_lse(packed_lse, ratio), lse)


@pytest.mark.parametrize("ratio", [2, 3])
def test_the_mask_of_packed_rows_is_that_of_their_queries(ratio) -> None:
    packed = mask_matrix(5, 9, causal=True, ratio=ratio)
    assert np.array_equal(packed, np.repeat(mask_matrix(5, 9, causal=True), ratio, axis=0))


def test_groups_that_don_t_come_out_even_are_refused() -> None:
    with pytest.raises(ValueError, match="6 heads don't make 4 groups"):
        pack_heads(np.zeros((1, 2, 6, 8)), 4)
    with pytest.raises(ValueError, match="7 packed rows are no multiple of ratio=2"):
        unpack_heads(np.zeros((1, 7, 2, 8)), 2)
    with pytest.raises(ValueError, match="too few axes"):
        pack_heads(np.zeros((6, 8)), 2)
    with pytest.raises(ValueError, match="ratio=0"):
        unpack_lse(np.zeros((2, 8)), 0)
    with pytest.raises(ValueError, match=r"kv_heads=2\.0 must be a whole number"):
        pack_heads(np.zeros((1, 2, 6, 8)), 2.0)
    with pytest.raises(ValueError, match="array is a list, no NumPy array"):
        pack_heads([[[1.0]]], 1)
