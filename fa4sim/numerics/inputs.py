"""Inputs: the arrays of one attention problem, checked once where they enter.

Layouts, everywhere in this package:

==========  ==========================================  =======
array       shape                                       note
==========  ==========================================  =======
q           (batch, seqlen_q, heads, head_dim)
k           (batch, seqlen_k, kv_heads, head_dim)
v           (batch, seqlen_k, kv_heads, head_dim_v)
out         (batch, seqlen_q, heads, head_dim_v)
lse         (batch, heads, seqlen_q)                    natural log
sink        (heads,)                                    one logit per query head
seqlens_q   (batch,) whole numbers                      rows beyond are padding
seqlens_k   (batch,) whole numbers                      keys beyond are padding
descales    (batch, kv_heads) float32                   of 8-bit q, k and v
==========  ==========================================  =======

Query head h reads key head h // ratio, where ratio = heads // kv_heads.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fa4sim.numerics.formats import FP8_DTYPES, Float32Array, check_float32
from fa4sim.numerics.scales import check_logits, check_positive, is_finite

FloatArray = NDArray[np.floating[Any]]


@dataclass(frozen=True)
class Sizes:
    """Sizes of a checked attention problem.

    Attributes:
        batch, seqlen_q, seqlen_k, heads, kv_heads, head_dim, head_dim_v: from the array shapes.
        ratio: query heads per key head.
        seqlens_q, seqlens_k: actual length of each sequence, at most the padded length.
        softmax_scale: multiplies the scores.
    """

    batch: int
    seqlen_q: int
    seqlen_k: int
    heads: int
    kv_heads: int
    head_dim: int
    head_dim_v: int
    ratio: int
    seqlens_q: tuple[int, ...]
    seqlens_k: tuple[int, ...]
    softmax_scale: float


def check_inputs(
    q: FloatArray,
    k: FloatArray,
    v: FloatArray,
    *,
    softmax_scale: float | None = None,
    softcap: float = 0.0,
    sink: FloatArray | None = None,
    seqlens_q: Sequence[int] | None = None,
    seqlens_k: Sequence[int] | None = None,
) -> Sizes:
    """Check that the arrays of an attention problem fit together, and return its sizes.

    Args:
        q, k, v, sink, seqlens_q, seqlens_k: see the head of this module; any float dtype.
        softmax_scale: multiplies the scores, positive; None for head_dim**-0.5.
        softcap: 0 for none, else positive.

    Raises:
        ValueError: shapes disagree, or a number is out of range; the message quotes it.

    >>> q, k = np.zeros((1, 4, 6, 8)), np.zeros((1, 4, 4, 8))
    >>> check_inputs(q, k, k)
    Traceback (most recent call last):
        ...
    ValueError: 6 query heads cannot be shared among 4 key heads; heads must be a multiple of \
kv_heads
    """
    for name, array in (("q", q), ("k", k), ("v", v)):
        if not isinstance(array, np.ndarray):
            raise ValueError(
                f"{name} is a {type(array).__name__}, but a NumPy array (batch, seqlen, heads, "
                "head_dim) is needed"
            )
        if array.ndim != 4 or not np.issubdtype(array.dtype, np.floating):
            raise ValueError(
                f"{name} has shape {array.shape} and dtype {array.dtype}, but a float array "
                "(batch, seqlen, heads, head_dim) is needed"
            )
    batch, seqlen_q, heads, head_dim = q.shape
    _, seqlen_k, kv_heads, _ = k.shape
    if k.shape[0] != batch or k.shape[3] != head_dim:
        raise ValueError(f"k of shape {k.shape} does not fit q of shape {q.shape}")
    if v.shape[:3] != k.shape[:3]:
        raise ValueError(f"v of shape {v.shape} does not fit k of shape {k.shape}")
    if kv_heads == 0 or heads % kv_heads:
        raise ValueError(
            f"{heads} query heads cannot be shared among {kv_heads} key heads; "
            "heads must be a multiple of kv_heads"
        )
    if head_dim == 0:
        raise ValueError("head_dim is 0; it must be at least 1")
    if softmax_scale is None:
        softmax_scale = head_dim**-0.5
    if not (is_finite(softmax_scale) and softmax_scale > 0):
        raise ValueError(f"softmax_scale={softmax_scale!r} must be positive and finite")
    if not (is_finite(softcap) and softcap >= 0):
        raise ValueError(f"softcap={softcap!r} must be 0 (off) or positive and finite")
    if sink is not None:
        if np.shape(sink) != (heads,):
            raise ValueError(
                f"sink has shape {np.shape(sink)}, but one value per head is {(heads,)}"
            )
        check_logits(np.asarray(sink))
    return Sizes(
        batch,
        seqlen_q,
        seqlen_k,
        heads,
        kv_heads,
        head_dim,
        v.shape[3],
        heads // kv_heads,
        _lengths("seqlens_q", seqlens_q, batch, seqlen_q),
        _lengths("seqlens_k", seqlens_k, batch, seqlen_k),
        float(softmax_scale),
    )


def _lengths(name: str, lengths: Sequence[int] | None, batch: int, padded: int) -> tuple[int, ...]:
    if lengths is None:
        return (padded,) * batch
    try:
        checked = tuple(operator.index(length) for length in lengths)
    except TypeError:
        raise ValueError(f"{name}={lengths!r} must be whole numbers, one per sequence") from None
    if len(checked) != batch or any(not 0 <= length <= padded for length in checked):
        raise ValueError(
            f"{name}={checked} must be {batch} lengths between 0 and the padded length {padded}"
        )
    return checked


@dataclass(frozen=True)
class Descales:
    """Descales of a checked problem, float32 arrays (batch, kv_heads); 1 where none was given."""

    q: Float32Array
    k: Float32Array
    v: Float32Array


def check_descales(
    q_descale: Float32Array | None,
    k_descale: Float32Array | None,
    v_descale: Float32Array | None,
    sizes: Sizes,
    dtype: str,
) -> Descales:
    """Check the descales of 8-bit inputs: what q, k and v were divided by, per sequence and head.

    Args:
        q_descale, k_descale, v_descale: float32 arrays (batch, kv_heads), positive; None for 1.
            The query heads of a group share one.
        sizes: of the problem.
        dtype: of the inputs.

    Raises:
        ValueError: descales come with a 16-bit ``dtype``, have another shape or element type, or
            one of them is not positive and finite.

    Source: flash_attn/cute/interface.py, ``_flash_attn_fwd``; positivity is our own check.

    >>> q = np.zeros((2, 1, 4, 8))
    >>> sizes = check_inputs(q, q, q)
    >>> check_descales(None, None, np.ones((2, 1), dtype=np.float32), sizes, "e4m3")
    Traceback (most recent call last):
        ...
    ValueError: v_descale has shape (2, 1), but one value per sequence and key head is (2, 4)
    """
    shape = (sizes.batch, sizes.kv_heads)
    checked = []
    given = {"q_descale": q_descale, "k_descale": k_descale, "v_descale": v_descale}
    for name, descale in given.items():
        if descale is None:
            checked.append(np.ones(shape, dtype=np.float32))
            continue
        if dtype not in FP8_DTYPES:
            raise ValueError(f"{name} is for 8-bit inputs ('e4m3', 'e5m2'), not dtype {dtype!r}")
        descale = check_float32(descale, name)
        if descale.shape != shape:
            raise ValueError(
                f"{name} has shape {descale.shape}, but one value per sequence and key head is "
                f"{shape}"
            )
        check_positive(name, descale)
        checked.append(descale)
    return Descales(*checked)
