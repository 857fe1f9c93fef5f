"""Attention: the definition, in float64, against which everything else is measured.

For each query row, with s the scaled (and perhaps capped) scores of the keys it sees,

    out = sum(exp(s) * v) / (sum(exp(s)) + exp(sink)),    lse = log(sum(exp(s)) + exp(sink))

No blocks, no running maximum that changes, no rounding to 16 bits: a few lines per head, written to
be checked by eye.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fa4sim.numerics.formats import BoolArray, Float64Array
from fa4sim.numerics.inputs import FloatArray, check_inputs
from fa4sim.numerics.masks import Window, mask_matrix


def attention_float64(
    q: FloatArray,
    k: FloatArray,
    v: FloatArray,
    *,
    causal: bool = False,
    window: Window | None = None,
    softmax_scale: float | None = None,
    softcap: float = 0.0,
    sink: FloatArray | None = None,
    seqlens_q: Sequence[int] | None = None,
    seqlens_k: Sequence[int] | None = None,
) -> tuple[Float64Array, Float64Array]:
    """Compute attention in float64, with every mask and option of the forward kernel.

    A row that sees no key gives zeros and lse -inf (with a sink: lse = sink).

    Args:
        q: float array (batch, seqlen_q, heads, head_dim).
        k: float array (batch, seqlen_k, kv_heads, head_dim).
        v: float array (batch, seqlen_k, kv_heads, head_dim_v).
        causal: causal mask, aligned bottom-right.
        window: (left, right) in keys, None for an unbounded side; see
            :mod:`fa4sim.numerics.masks`.
        softmax_scale: multiplies the scores; None for head_dim**-0.5.
        softcap: if positive, scaled scores s become softcap * tanh(s / softcap).
        sink: float array (heads,), a logit that joins the sum but has no value; -inf for none.
        seqlens_q, seqlens_k: actual lengths (batch,); rows beyond give zeros and lse -inf, keys
            beyond are not seen.

    Returns:
        out: float64 array (batch, seqlen_q, heads, head_dim_v).
        lse: float64 array (batch, heads, seqlen_q), natural log.

    Raises:
        ValueError: shapes disagree or a number is out of range.

    Source: the options follow flash_attn/cute/interface.py.

    >>> q, k = np.ones((1, 2, 1, 4)), np.zeros((1, 3, 1, 4))
    >>> v = np.arange(3.0).reshape(1, 3, 1, 1)
    >>> out, lse = attention_float64(q, k, v, causal=True)
    >>> out.ravel(), np.exp(lse).ravel()  # row 0 sees two keys, row 1 all three
    (array([0.5, 1. ]), array([2., 3.]))
    """
    sizes = check_inputs(
        q,
        k,
        v,
        softmax_scale=softmax_scale,
        softcap=softcap,
        sink=sink,
        seqlens_q=seqlens_q,
        seqlens_k=seqlens_k,
    )
    out = np.zeros((sizes.batch, sizes.seqlen_q, sizes.heads, sizes.head_dim_v))
    lse = np.full((sizes.batch, sizes.heads, sizes.seqlen_q), -np.inf)
    for batch, (seqlen_q, seqlen_k) in enumerate(
        zip(sizes.seqlens_q, sizes.seqlens_k, strict=True)
    ):
        mask = mask_matrix(seqlen_q, seqlen_k, causal, window)
        for head in range(sizes.heads):
            kv_head = head // sizes.ratio
            q_head = q[batch, :seqlen_q, head].astype(np.float64)  # (seqlen_q, head_dim)
            k_head = k[batch, :seqlen_k, kv_head].astype(np.float64)  # (seqlen_k, head_dim)
            v_head = v[batch, :seqlen_k, kv_head].astype(np.float64)  # (seqlen_k, head_dim_v)
            scores = q_head @ k_head.T * sizes.softmax_scale  # (seqlen_q, seqlen_k)
            if softcap > 0:
                scores = softcap * np.tanh(scores / softcap)
            logit = -np.inf if sink is None else float(sink[head])
            weights, lse[batch, head, :seqlen_q] = _softmax(scores, mask, logit)
            out[batch, :seqlen_q, head] = weights @ v_head
    return out, lse


def _softmax(
    scores: Float64Array, mask: BoolArray, sink: float
) -> tuple[Float64Array, Float64Array]:
    """Return each row's weights over the keys it sees, and the log of its sum."""
    scores = np.where(mask, scores, -np.inf)
    row_max = np.max(scores, axis=1, initial=sink)
    safe_max = np.where(row_max == -np.inf, 0.0, row_max)
    weights = np.exp(scores - safe_max[:, None])
    row_sum = weights.sum(axis=1) + np.exp(sink - safe_max)
    with np.errstate(divide="ignore"):
        lse = safe_max + np.log(row_sum)
    return weights / np.where(row_sum == 0, 1.0, row_sum)[:, None], lse
