"""What is to be computed: the shapes, the mask and the extras of one attention call."""

from __future__ import annotations

import csv
import json
import math
import operator
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

#: Bytes of one element, by the name the command line uses.
DTYPE_BYTES = {"bf16": 2, "fp16": 2, "e4m3": 1, "e5m2": 1}
FP8 = ("e4m3", "e5m2")

#: Head dimension pairs (of Q and K, of V) beyond "equal, 8 to 128" that the kernel accepts.
UNEQUAL_HEAD_DIMS = ((192, 128),)


@dataclass(frozen=True)
class Problem:
    """One forward attention call, as ``flash_attn_func`` would see it.

    ``window`` is ``(left, right)`` with ``None`` for unbounded, counted in keys from the
    bottom-right aligned diagonal; ``causal`` is ``(None, 0)``. ``seqlens_q`` and ``seqlens_k``
    make the batch one of variable length (one entry per sequence; then ``batch``, ``seqlen_q``
    and ``seqlen_k`` are their number and maxima). ``sink`` adds a learnable logit per head,
    ``softcap`` bounds scores by ``softcap * tanh(s / softcap)``; 0 switches it off.

    Raises ``ValueError`` for anything the kernel would refuse, quoting it. The limits are those
    of ``flash_attn/cute/interface.py``; what this version does not cover yet (FP8 numerics,
    paged KV, split-KV, head dim 256) is refused where it is asked for.

    >>> Problem(batch=4, heads=16, seqlen_q=8192, seqlen_k=8192, head_dim=128).flops
    2199023255552
    >>> Problem(heads=6, kv_heads=4)
    Traceback (most recent call last):
    ...
    ValueError: heads=6 is no multiple of kv_heads=4; every K/V head serves heads / kv_heads \
query heads, so use 4, 8, 12, … heads
    """

    batch: int = 1
    heads: int = 1
    kv_heads: int | None = None
    seqlen_q: int = 1024
    seqlen_k: int | None = None
    head_dim: int = 128
    head_dim_v: int | None = None
    dtype: str = "bf16"
    causal: bool = False
    window: tuple[int | None, int | None] | None = None
    sink: bool = False
    softcap: float = 0.0
    softmax_scale: float | None = None
    seqlens_q: tuple[int, ...] | None = None
    seqlens_k: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        def fill(name: str, value: object) -> None:
            object.__setattr__(self, name, value)

        self._check_lengths(fill)
        if self.kv_heads is None:
            fill("kv_heads", self.heads)
        if self.head_dim_v is None:
            fill("head_dim_v", self.head_dim)
        self._check_heads()
        self._check_head_dims()
        self._check_mask(fill)
        if not math.isfinite(self.softcap) or self.softcap < 0:
            raise ValueError(f"softcap={self.softcap} must be 0 (off) or a positive number")
        if self.softmax_scale is not None and not (
            math.isfinite(self.softmax_scale) and self.softmax_scale > 0
        ):
            raise ValueError(f"softmax_scale={self.softmax_scale} must be a positive number")

    def _check_lengths(self, fill: Callable[[str, object], None]) -> None:
        for name in ("seqlens_q", "seqlens_k"):
            given = getattr(self, name)
            if given is None:
                continue
            lengths = tuple(_whole(name, length) for length in given)
            fill(name, lengths)
            if not lengths:
                raise ValueError(f"{name} is empty; give one length per sequence")
            if min(lengths) < 0:
                raise ValueError(f"{name} holds {min(lengths)}; lengths are 0 or more")
        q, k = self.seqlens_q, self.seqlens_k
        if q is not None or k is not None:
            known = q if q is not None else k
            assert known is not None
            if q is not None and k is not None and len(q) != len(k):
                raise ValueError(
                    f"seqlens_q has {len(q)} sequences and seqlens_k has {len(k)}; "
                    "they describe the same batch, so give as many of each"
                )
            if self.batch not in (1, len(known)):
                raise ValueError(
                    f"batch={self.batch}, but {len(known)} sequence lengths are given; "
                    "leave batch out or make them equal"
                )
            fill("batch", len(known))
            if q is not None:
                fill("seqlen_q", max(q))
            if k is not None:
                fill("seqlen_k", max(k))
        if self.seqlen_k is None:
            fill("seqlen_k", self.seqlen_q)
        for name in ("batch", "heads", "seqlen_q", "seqlen_k"):
            value = _whole(name, getattr(self, name))
            least = 0 if name == "seqlen_k" or q is not None else 1
            if value < least:
                raise ValueError(f"{name}={value} must be at least {least}")

    def _check_heads(self) -> None:
        assert self.kv_heads is not None
        kv_heads = _whole("kv_heads", self.kv_heads)
        if kv_heads < 1:
            raise ValueError(f"kv_heads={kv_heads} must be at least 1")
        if self.heads % kv_heads:
            some = ", ".join(str(kv_heads * i) for i in (1, 2, 3))
            raise ValueError(
                f"heads={self.heads} is no multiple of kv_heads={kv_heads}; every K/V head "
                f"serves heads / kv_heads query heads, so use {some}, … heads"
            )

    def _check_head_dims(self) -> None:
        if self.dtype not in DTYPE_BYTES:
            raise ValueError(
                f"dtype={self.dtype!r} is not known; use one of {', '.join(DTYPE_BYTES)}"
            )
        pair = (_whole("head_dim", self.head_dim), _whole("head_dim_v", self.head_dim_v))
        multiple = 16 // DTYPE_BYTES[self.dtype]
        equal_enough = all(8 <= d <= 128 and d % multiple == 0 for d in pair)
        if equal_enough or pair in UNEQUAL_HEAD_DIMS:
            return
        if max(pair) >= 256:
            raise ValueError(
                f"head dims {pair} run in a kernel of their own, which is not modelled; "
                "use 8 to 128, or (192, 128)"
            )
        raise ValueError(
            f"head dims {pair} are not supported for {self.dtype}: use multiples of {multiple} "
            f"from 8 to 128 (16 bytes per row step), or (192, 128)"
        )

    def _check_mask(self, fill: Callable[[str, object], None]) -> None:
        if self.window is None:
            return
        try:
            left, right = self.window
        except (TypeError, ValueError):
            raise ValueError(
                f"window={self.window!r} must be a pair (left, right), None for unbounded"
            ) from None
        for side in (left, right):
            if side is not None:
                _whole("window", side)
        if self.causal:
            if right not in (None, 0):
                raise ValueError(
                    f"causal and window={self.window} contradict each other: causal means "
                    "right = 0; give window without causal"
                )
            right = 0
        if left is not None and right is not None and left + right < 0:
            raise ValueError(
                f"window={(left, right)} excludes every key: left + right is {left + right}; "
                "make it 0 or more (-1 does not mean unbounded here: use None, or leave it empty)"
            )
        fill("causal", left is None and right == 0)
        fill("window", None if (left is None and right in (None, 0)) else (left, right))

    # -- what follows from the fields ----------------------------------------------------------

    @property
    def is_local(self) -> bool:
        """Whether a sliding window (not just the causal mask) is in force."""
        return self.window is not None

    @property
    def varlen(self) -> bool:
        """Whether sequence lengths differ by sequence (either side)."""
        return self.seqlens_q is not None or self.seqlens_k is not None

    @property
    def element_bytes(self) -> int:
        """Bytes of one element of Q, K and V."""
        return DTYPE_BYTES[self.dtype]

    @property
    def out_bytes(self) -> int:
        """Bytes of one element of O: FP8 inputs give bf16 output."""
        return 2

    @property
    def group(self) -> int:
        """Query heads per K/V head."""
        assert self.kv_heads is not None
        return self.heads // self.kv_heads

    @property
    def dim_v(self) -> int:
        """Head dimension of V and O."""
        assert self.head_dim_v is not None
        return self.head_dim_v

    def lengths(self, index: int) -> tuple[int, int]:
        """``(seqlen_q, seqlen_k)`` of sequence ``index``."""
        assert self.seqlen_k is not None
        q = self.seqlen_q if self.seqlens_q is None else self.seqlens_q[index]
        k = self.seqlen_k if self.seqlens_k is None else self.seqlens_k[index]
        return q, k

    @property
    def flops(self) -> int:
        """Floating-point operations of the two GEMMs, as published benchmarks count them.

        ``4 * batch * heads * seqlen_q * seqlen_k * (head_dim + head_dim_v) / 2``, causal half of
        it; a window counts the keys each row may see. Source: ``benchmarks/bench_utils.py`` of
        the flash-attention repository.
        """
        pairs = 0
        for index in range(self.batch):
            pairs += self._visible_pairs(*self.lengths(index))
        return 2 * self.heads * pairs * (self.head_dim + self.dim_v)

    def _visible_pairs(self, q: int, k: int) -> int:
        if self.causal:
            return q * k // 2
        if self.window is None:
            return q * k
        left, right = self.window
        total = 0
        for row in range(q):
            diagonal = row + k - q
            low = 0 if left is None else max(0, diagonal - left)
            high = k if right is None else min(k, diagonal + right + 1)
            total += max(0, high - low)
        return total

    @staticmethod
    def lengths_from_file(path: str | os.PathLike[str]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Read ``(seqlens_q, seqlens_k)`` from JSON ``{"q": […], "k": […]}`` or CSV ``q,k``.

        Raises ``ValueError`` naming the file and what is wrong with it.
        """
        path = Path(path)
        try:
            text = path.read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            raise ValueError(f"cannot read sequence lengths from {str(path)!r}: {error}") from None
        try:
            if text.lstrip().startswith(("{", "[")):
                data = json.loads(text)
                q, k = data["q"], data["k"]
            else:
                rows = list(csv.DictReader(text.splitlines(), skipinitialspace=True))
                q = [row["q"] for row in rows]
                k = [row["k"] for row in rows]
            return (
                tuple(_whole("q", value) for value in q),
                tuple(_whole("k", value) for value in k),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(
                f"{str(path)!r} holds no sequence lengths ({error}); give JSON "
                '{"q": [128, …], "k": [512, …]} or CSV with the header q,k'
            ) from None


def _whole(name: str, value: Any) -> int:
    """``value`` as an int, or a ValueError that quotes it."""
    if isinstance(value, bool):
        raise ValueError(f"{name}={value!r} must be a whole number")
    try:
        return int(str(value)) if isinstance(value, str) else operator.index(value)
    except (TypeError, ValueError):
        raise ValueError(f"{name}={value!r} must be a whole number") from None


def as_window(text: str | Sequence[int | None] | None) -> tuple[int | None, int | None] | None:
    """``"L,R"`` as a window; an empty side is unbounded.

    >>> as_window("256,0"), as_window("128,")
    ((256, 0), (128, None))
    """
    if text is None:
        return None
    parts = text.split(",") if isinstance(text, str) else list(text)
    if len(parts) != 2:
        raise ValueError(f"window {text!r} must be two numbers L,R (leave one empty: unbounded)")
    sides: list[int | None] = []
    for part in parts:
        if part is None or (isinstance(part, str) and part.strip().lower() in ("", "none")):
            sides.append(None)
        else:
            sides.append(_whole("window", part))
    return sides[0], sides[1]
