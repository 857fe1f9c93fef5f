"""A call of attention, looked at: do its arrays fit together, and what do they ask for?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fa4kernel import descales
from fa4kernel.forward.launch import Arrays
from fa4kernel.operands import Operand, is_torch, numbers
from fa4sim.specs import Problem, as_window

Window = tuple[int | None, int | None]

NOT_A_NUMBER = 0x7FFF  # in bf16 and in fp16


@dataclass(frozen=True)
class Call:
    """A call that has been looked at: operands and what they ask for."""

    q: Operand
    k: Operand
    v: Operand
    problem: Problem
    sink: NDArray[np.float32] | None
    cu_seqlens_q: NDArray[np.int32] | None
    cu_seqlens_k: NDArray[np.int32] | None
    descales: NDArray[np.float32] | None = None

    @classmethod
    def of(
        cls,
        q: Any,
        k: Any,
        v: Any,
        *,
        causal: bool,
        window: Window | None,
        softmax_scale: float | None,
        sink: Any,
        cu_seqlens_q: Any,
        cu_seqlens_k: Any,
        dtype: str | None,
        q_descale: Any = None,
        k_descale: Any = None,
        v_descale: Any = None,
    ) -> Call:
        """Look at a call. Raises `ValueError` for what does not fit together."""
        factors = {"q_descale": q_descale, "k_descale": k_descale, "v_descale": v_descale}
        by_name = {"q": q, "k": k, "v": v}
        operands = {name: Operand.of(name, array, dtype) for name, array in by_name.items()}
        _check_alike(operands)
        varlen = cu_seqlens_q is not None
        if not varlen and cu_seqlens_k is not None:
            raise ValueError("cu_seqlens_k is given without cu_seqlens_q; give both")
        _check_shapes({name: each.shape for name, each in operands.items()}, varlen)
        (*_, heads, head_dim), (*_, kv_heads, _) = operands["q"].shape, operands["k"].shape
        starts_q = starts_k = None
        lengths: dict[str, Any]
        if varlen:
            starts_q = _starts("cu_seqlens_q", cu_seqlens_q, operands["q"].shape[0])
            given = cu_seqlens_q if cu_seqlens_k is None else cu_seqlens_k
            starts_k = _starts("cu_seqlens_k", given, operands["k"].shape[0])
            if len(starts_q) != len(starts_k):
                raise ValueError(
                    f"cu_seqlens_q has {len(starts_q) - 1} sequences and cu_seqlens_k "
                    f"{len(starts_k) - 1}; they must be as many"
                )
            lengths = {"seqlens_q": _lengths(starts_q), "seqlens_k": _lengths(starts_k)}
        else:
            lengths = {
                "batch": operands["q"].shape[0],
                "seqlen_q": operands["q"].shape[1],
                "seqlen_k": operands["k"].shape[1],
            }
        problem = Problem(
            heads=heads,
            kv_heads=kv_heads,
            head_dim=head_dim,
            head_dim_v=operands["v"].shape[-1],
            dtype=operands["q"].dtype,
            causal=causal,
            window=None if window is None else as_window(window),
            sink=sink is not None,
            softmax_scale=softmax_scale,
            **lengths,
        )
        logits = None if sink is None else numbers("sink", sink, np.float32, heads)
        return cls(
            operands["q"], operands["k"], operands["v"], problem, logits, starts_q, starts_k,
            descales.checked(factors, problem),
        )  # fmt: skip

    @property
    def is_empty(self) -> bool:
        """Whether there is no query or no key at all."""
        return 0 in self.q.shape or 0 in self.k.shape

    @property
    def lse_shape(self) -> tuple[int, ...]:
        """(batch, heads, seqlen_q), or (heads, total_q)."""
        *batch, tokens, heads, _ = self.q.shape
        return (*batch, heads, tokens)

    def nothing(self) -> tuple[Any, Any]:
        """Output and LSE of rows that see no key."""
        out = np.zeros((*self.q.shape[:-1], self.v.shape[-1]), np.uint16)
        lse = np.full(self.lse_shape, -np.inf, np.float32)
        if self.sink is not None:
            lse[:] = self.sink[:, None]
        return self.q.result(out), self.q.like(lse)

    def arrays(self) -> Arrays:
        """The arrays of a launch; outputs are NaN until they are written."""
        return Arrays(
            self.q.bits(),
            self.k.bits(),
            self.v.bits(),
            np.full((*self.q.shape[:-1], self.v.shape[-1]), NOT_A_NUMBER, np.uint16),
            np.full(self.lse_shape, np.nan, np.float32),
            self.sink,
            self.cu_seqlens_q,
            self.cu_seqlens_k,
            descales=self.descales,
        )


def _check_alike(operands: dict[str, Operand]) -> None:
    """All of one library, type and device."""
    first = operands["q"]
    for name, each in operands.items():
        if is_torch(each.array) != is_torch(first.array):
            raise ValueError(f"q and {name} must both be NumPy arrays or both PyTorch tensors")
        if each.dtype != first.dtype or str(each.array.dtype) != str(first.array.dtype):
            raise ValueError(f"q is {first.array.dtype} and {name} {each.array.dtype}; use one")
        if is_torch(each.array) and each.array.device != first.array.device:
            raise ValueError(
                f"q is on {first.array.device} and {name} on {each.array.device}; use one device"
            )


def _check_shapes(shapes: dict[str, tuple[int, ...]], varlen: bool) -> None:
    """That the shapes fit together."""
    form = "(tokens, heads, head_dim)" if varlen else "(batch, tokens, heads, head_dim)"
    for name, shape in shapes.items():
        if len(shape) != (3 if varlen else 4):
            with_or_not = "with" if varlen else "without"
            raise ValueError(
                f"{name} has shape {shape}; {with_or_not} cu_seqlens it must be {form}"
            )
    q, k, v = shapes["q"], shapes["k"], shapes["v"]
    if k[:-1] != v[:-1]:
        raise ValueError(f"k has shape {k} and v {v}: they may differ in the last number only")
    if q[-1] != k[-1]:
        raise ValueError(f"q has shape {q} and k {k}: the last numbers, head_dim, must be equal")
    if not varlen and q[0] != k[0]:
        raise ValueError(f"q has shape {q} and k {k}: the first numbers, batch, must be equal")


def _starts(name: str, array: Any, total: int) -> NDArray[np.int32]:
    """Where sequences begin, checked against the tokens there are."""
    starts = numbers(name, array, np.int32, None)
    if len(starts) < 2 or starts[0] != 0 or (np.diff(starts) < 0).any() or starts[-1] != total:
        raise ValueError(
            f"{name}={starts.tolist()} must begin with 0, not fall, and end with the number of "
            f"tokens, {total}"
        )
    return starts


def _lengths(starts: NDArray[np.int32]) -> Sequence[int]:
    return tuple(int(length) for length in np.diff(starts))
