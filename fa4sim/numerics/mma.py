"""MMA: the two matrix products of a tile, in k-steps of 16 (8-bit inputs: 32).

A tensor-core instruction multiplies tiles over 32 bytes of the summed dimension (one *k-step*: 16
elements of 16 bits, or 32 of 8) and adds the result to a float32 accumulator in tensor memory. S =
Q K' runs over the head dim; O += P V runs over the keys of a block, and the kernel issues its first
six of eight k-steps (three of four) before the last quarter of P exists.

**The model.** A k-step multiplies its pairs of numbers (exact in float64), sums the products in
float64, adds the accumulator, still in float64, and rounds to float32. The products of 16-bit
numbers have at most 22 bits, so a sum of 16 of them is *exact*, in any order, while they lie within
a factor of 2**27 (fp16) or 2**33 (bf16) of each other, and a sum of 32 products of e4m3 numbers
always is; BLAS may then sum as it likes, and a group of rows gives the same bits as the whole tile,
on every machine. The caveat: with a wider spread the float64 sum is off by about 1e-16 of its
largest term, in an order that BLAS chooses by shape and machine; it then takes a result within that
distance of a rounding boundary, about one in 10**8, for a float32 bit to differ.

**The hardware** aligns the products of a k-step to the largest and truncates (bit-accurate models:
MMA-Sim, github.com/microsoft/MMA-Sim), so its accumulators differ from these by a few float32
spacings, much less than the rounding of P and of the output.

Source: flash_attn/cute/flash_fwd_sm100.py, ``mma``.
"""

from __future__ import annotations

import numpy as np

from fa4sim.numerics.formats import FP8_DTYPES, Float32Array, Float64Array, check_dtype

K_STEP = 16
"""Elements that one 16-bit MMA instruction sums over."""
K_STEP_FP8 = 32
"""Elements that one 8-bit MMA instruction sums over."""


def k_step_of(dtype: str) -> int:
    """Return how many elements one MMA instruction sums over.

    Args:
        dtype: "bf16", "fp16", "e4m3" or "e5m2".

    Raises:
        ValueError: ``dtype`` is not one of them.

    >>> k_step_of("bf16"), k_step_of("e4m3")
    (16, 32)
    """
    check_dtype(dtype)
    if dtype == "fp32":
        raise ValueError("dtype 'fp32' has no tensor-core path; use a 16- or 8-bit format")
    return K_STEP_FP8 if dtype in FP8_DTYPES else K_STEP


def mma_qk(q_tile: Float32Array, k_tile: Float32Array, k_step: int = K_STEP) -> Float32Array:
    """Compute the scores of a tile, S = Q K', over all k-steps.

    Args:
        q_tile: float32 array (m, head_dim) of 16- or 8-bit values.
        k_tile: float32 array (n, head_dim) of such values.
        k_step: elements per k-step, see :func:`k_step_of`.

    Returns:
        float32 array (m, n), unscaled.

    Raises:
        ValueError: the head dims differ.

    Source: flash_attn/cute/flash_fwd_sm100.py, ``mma``.

    >>> q = np.eye(2, 32, dtype=np.float32)
    >>> mma_qk(q, 3 * q)
    array([[3., 0.],
           [0., 3.]], dtype=float32)
    """
    return mma_qk_steps(None, q_tile, k_tile, range(-(-q_tile.shape[1] // k_step)), k_step)


def mma_qk_steps(
    acc: Float32Array | None,
    q_tile: Float32Array,
    k_tile: Float32Array,
    steps: range,
    k_step: int = K_STEP,
) -> Float32Array:
    """Run some k-steps of S = Q K' on an accumulator.

    Args:
        acc: float32 array (m, n) from earlier k-steps, or None to start from zero.
        q_tile: float32 array (m, head_dim) of 16- or 8-bit values.
        k_tile: float32 array (n, head_dim) of such values.
        steps: which k-steps to run, each covering ``k_step`` of the head dim, in order.
        k_step: elements per k-step, see :func:`k_step_of`.

    Returns:
        float32 array (m, n), a new accumulator.

    Raises:
        ValueError: the head dims differ, or a step lies outside them.

    >>> q = np.ones((1, 32), dtype=np.float32)
    >>> half = mma_qk_steps(None, q, q, range(0, 1))
    >>> float(half[0, 0]), float(mma_qk_steps(half, q, q, range(1, 2))[0, 0])
    (16.0, 32.0)
    """
    if q_tile.shape[1] != k_tile.shape[1]:
        raise ValueError(f"q_tile {q_tile.shape} and k_tile {k_tile.shape} differ in head dim")
    return _accumulate(acc, q_tile, k_tile.T, steps, k_step)


def mma_pv_steps(
    acc: Float32Array | None,
    p: Float32Array,
    v: Float32Array,
    steps: range,
    zero_first: bool,
    k_step: int = K_STEP,
) -> Float32Array:
    """Run some k-steps of O += P V on an accumulator.

    The kernel runs the first six of eight (8 bits: three of four) as soon as three quarters of P
    are stored, and the rest later; splitting changes no bit.

    Args:
        acc: float32 array (m, head_dim_v); ignored, and may be None, if ``zero_first``.
        p: float32 array (m, n) of 16- or 8-bit values.
        v: float32 array (n, head_dim_v) of such values.
        steps: which k-steps to run, each covering ``k_step`` keys, in order.
        zero_first: the first of these k-steps starts from zero (first block of a tile).
        k_step: elements per k-step, see :func:`k_step_of`.

    Returns:
        float32 array (m, head_dim_v), a new accumulator.

    Raises:
        ValueError: ``p`` and ``v`` differ in keys, a step lies outside, or there is no accumulator.

    Source: flash_attn/cute/flash_fwd_sm100.py, ``mma``.

    >>> p, v = np.ones((1, 32), dtype=np.float32), np.ones((32, 1), dtype=np.float32)
    >>> first = mma_pv_steps(None, p, v, range(0, 1), zero_first=True)
    >>> float(mma_pv_steps(first, p, v, range(1, 2), zero_first=False)[0, 0])
    32.0
    """
    if p.shape[1] != v.shape[0]:
        raise ValueError(f"p {p.shape} and v {v.shape} differ in the number of keys")
    if acc is None and not zero_first:
        raise ValueError("acc is None, but zero_first is False; pass the accumulator")
    return _accumulate(None if zero_first else acc, p, v, steps, k_step)


def _accumulate(
    acc: Float32Array | None, a: Float32Array, b: Float32Array, steps: range, k_step: int
) -> Float32Array:
    """Add the k-steps of a @ b to acc: each summed in float64, then rounded once to float32."""
    count = -(-a.shape[1] // k_step)
    if any(not 0 <= step < count for step in steps):
        raise ValueError(
            f"steps={steps} lie outside the {count} k-steps of {a.shape[1]} elements "
            f"(k_step={k_step})"
        )
    total = np.zeros((a.shape[0], b.shape[1]), np.float32) if acc is None else acc
    with np.errstate(over="ignore", invalid="ignore"):
        a_wide: Float64Array = np.ascontiguousarray(a, dtype=np.float64)
        b_wide: Float64Array = np.ascontiguousarray(b, dtype=np.float64)
        for step in steps:
            inner = slice(step * k_step, (step + 1) * k_step)
            total = (total + a_wide[:, inner] @ b_wide[inner]).astype(np.float32)
    return total
