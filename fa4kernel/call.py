"""A call of attention, looked at: do its arrays fit together, and what do they ask for?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fa4kernel import descales
from fa4kernel.forward.launch import Arrays
from fa4kernel.lengths import Lengths
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
    lengths: Lengths
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
        seqused_k: Any = None,
        page_table: Any = None,
        q_descale: Any = None,
        k_descale: Any = None,
        v_descale: Any = None,
        num_splits: int = 1,
    ) -> Call:
        """Look at a call. Raises `ValueError` for what does not fit together."""
        factors = {"q_descale": q_descale, "k_descale": k_descale, "v_descale": v_descale}
        by_name = {"q": q, "k": k, "v": v}
        operands = {name: Operand.of(name, array, dtype) for name, array in by_name.items()}
        _check_alike(operands)
        lengths = Lengths.of(
            {name: each.shape for name, each in operands.items()}, cu_seqlens_q=cu_seqlens_q,
            cu_seqlens_k=cu_seqlens_k, seqused_k=seqused_k, page_table=page_table,
        )  # fmt: skip
        (*_, heads, head_dim), (*_, kv_heads, _) = operands["q"].shape, operands["k"].shape
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
            num_splits=num_splits,
            **lengths.fields,
        )
        logits = None if sink is None else numbers("sink", sink, np.float32, heads)
        return cls(
            operands["q"], operands["k"], operands["v"], problem, logits, lengths,
            descales.checked(factors, problem),
        )  # fmt: skip

    @property
    def is_empty(self) -> bool:
        """Whether there is no query or no key at all."""
        return 0 in self.q.shape or 0 in self.k.shape or not self.problem.seqlen_k

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

    def partial_results(self, splits: int) -> tuple[Any, Any]:
        """Room for the splits' O and LSE, NaN until it is written; two times None for one split."""
        if splits == 1:
            return None, None
        shapes = ((*self.q.shape[:-1], self.v.shape[-1]), self.lse_shape)
        partial_o, partial_lse = (np.full((splits, *s), np.nan, np.float32) for s in shapes)
        return partial_o, partial_lse

    def arrays(self, splits: int = 1) -> Arrays:
        """The arrays of a launch; outputs are NaN until they are written.

        Args:
            splits: of the keys, if more than 1 each with partial results of its own.
        """
        shape = (*self.q.shape[:-1], self.v.shape[-1])
        partial_o, partial_lse = self.partial_results(splits)
        return Arrays(
            self.q.bits(),
            self.k.bits(),
            self.v.bits(),
            np.full(shape, NOT_A_NUMBER, np.uint16),
            np.full(self.lse_shape, np.nan, np.float32),
            self.sink,
            descales=self.descales,
            **self.starts_and_pages,
            partial_o=partial_o,
            partial_lse=partial_lse,
        )

    @property
    def starts_and_pages(self) -> dict[str, NDArray[np.int32] | None]:
        """What tells a launch where sequences lie: fields of `Arrays`."""
        names = ("cu_seqlens_q", "cu_seqlens_k", "seqused_k", "page_table")
        return {name: getattr(self.lengths, name) for name in names}


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
