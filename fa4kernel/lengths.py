"""Where the sequences of a call lie and how long they are: shapes, `cu_seqlens`, pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fa4kernel.operands import is_torch, numbers
from fa4sim.numerics import check_page_table
from fa4sim.numerics.kinds import in_numpy

Numbers = NDArray[np.int32]
Shape = tuple[int, ...]

MOST_KEYS = 2**31 - 1  # in all pages together: the kernel counts them in 32 bits


@dataclass(frozen=True)
class Lengths:
    """What a call says of its sequences.

    Attributes:
        fields: of the :class:`~fa4sim.specs.Problem`: lengths, batch and size of pages.
        cu_seqlens_q, cu_seqlens_k: int32 (batch + 1,), where sequences begin that lie end to end.
        seqused_k: int32 (batch,), keys of each sequence.
        page_table: int32 (batch, most pages of a sequence).
    """

    fields: dict[str, Any] = field(default_factory=dict)
    cu_seqlens_q: Numbers | None = None
    cu_seqlens_k: Numbers | None = None
    seqused_k: Numbers | None = None
    page_table: Numbers | None = None

    @classmethod
    def of(
        cls,
        shapes: Mapping[str, Shape],
        *,
        cu_seqlens_q: Any,
        cu_seqlens_k: Any,
        seqused_k: Any,
        page_table: Any,
    ) -> Lengths:
        """Look at what a call says. Raises `ValueError` for what does not fit together."""
        if cu_seqlens_q is None and cu_seqlens_k is not None:
            raise ValueError("cu_seqlens_k is given without cu_seqlens_q; give both")
        if cu_seqlens_k is not None:
            for name, other in (("page_table", page_table), ("seqused_k", seqused_k)):
                if other is not None:
                    raise ValueError(
                        f"cu_seqlens_k is given with {name}: keys lie end to end, or in pages with "
                        "seqused_k as their lengths; leave one out"
                    )
        varlen, paged = cu_seqlens_q is not None, page_table is not None
        _check_shapes(shapes, varlen, paged)
        starts_q = None
        if cu_seqlens_q is not None:
            starts_q = _starts("cu_seqlens_q", cu_seqlens_q, shapes["q"][0])
        batch = shapes["q"][0] if starts_q is None else len(starts_q) - 1
        found: dict[str, Any] = {"batch": batch, "seqlen_q": shapes["q"][1]}
        if starts_q is not None:
            found = {"seqlens_q": _lengths(starts_q)}
        if paged:
            return _in_pages(shapes["k"], found, batch, starts_q, seqused_k, page_table)
        if starts_q is None:
            return _side_by_side(shapes["k"], found, batch, seqused_k)
        if seqused_k is not None:
            raise ValueError(
                "seqused_k is given with cu_seqlens_q but without page_table: say where each "
                "sequence's keys begin and end by cu_seqlens_k instead"
            )
        given = cu_seqlens_q if cu_seqlens_k is None else cu_seqlens_k
        starts_k = _starts("cu_seqlens_k", given, shapes["k"][0])
        if len(starts_k) != batch + 1:
            raise ValueError(
                f"cu_seqlens_q has {batch} sequences and cu_seqlens_k {len(starts_k) - 1}; they "
                "must be as many"
            )
        return cls(found | {"seqlens_k": _lengths(starts_k)}, starts_q, starts_k)


def _side_by_side(k: Shape, found: dict[str, Any], batch: int, seqused_k: Any) -> Lengths:
    """Sequences of equal length, of which only so many keys are used."""
    if seqused_k is None:
        return Lengths(found | {"seqlen_k": k[1]})
    used = numbers("seqused_k", seqused_k, np.int32, batch)
    if (used > k[1]).any():
        raise ValueError(
            f"seqused_k={used.tolist()} must be at most {k[1]}, the keys of a sequence of k"
        )
    return Lengths(found | {"seqlens_k": tuple(used.tolist())}, seqused_k=used)


def _in_pages(
    k: Shape, found: dict[str, Any], batch: int, starts_q: Any, seqused_k: Any, page_table: Any
) -> Lengths:
    """Sequences whose keys a table of pages finds."""
    pages, page_size = k[:2]
    table = page_table
    if is_torch(page_table):
        table = in_numpy("page_table", page_table, "int32")
    if not isinstance(table, np.ndarray):
        kind = type(table).__name__
        raise ValueError(f"page_table is a {kind}; it must be an int32 array (batch, max_pages)")
    if pages * page_size > MOST_KEYS:
        raise ValueError(
            f"k has {pages} pages of {page_size} keys; the kernel counts up to {MOST_KEYS} in all"
        )
    if table.ndim == 2 and len(table) != batch:
        raise ValueError(
            f"page_table has {len(table)} rows for {batch} sequences; each needs one of its own"
        )
    used = None
    if seqused_k is not None:
        used = numbers("seqused_k", seqused_k, np.int32, batch)
        lengths = tuple(used.tolist())
    else:
        width = table.shape[1] if table.ndim == 2 else 0
        lengths = (width * page_size,) * batch
    check_page_table(np.broadcast_to(np.uint16(0), k), table, lengths)
    what = {"seqlen_k": lengths[0]} if used is None else {"seqlens_k": lengths}
    return Lengths(
        found | what | {"page_size": page_size},
        starts_q,
        seqused_k=used,
        page_table=np.ascontiguousarray(table),
    )


def _check_shapes(shapes: Mapping[str, Shape], varlen: bool, paged: bool) -> None:
    """That the shapes fit together."""
    flat, whole = "(tokens, heads, head_dim)", "(batch, tokens, heads, head_dim)"
    for name, shape in shapes.items():
        in_pages = paged and name != "q"
        if len(shape) != (3 if varlen and not in_pages else 4):
            with_or_not = "with" if varlen else "without"
            how, form = f"{with_or_not} cu_seqlens", flat if varlen else whole
            if in_pages:
                how, form = "with a page_table", "(pages, page_size, heads, head_dim)"
            raise ValueError(f"{name} has shape {shape}; {how} it must be {form}")
    q, k, v = shapes["q"], shapes["k"], shapes["v"]
    if k[:-1] != v[:-1]:
        raise ValueError(f"k has shape {k} and v {v}: they may differ in the last number only")
    if q[-1] != k[-1]:
        raise ValueError(f"q has shape {q} and k {k}: the last numbers, head_dim, must be equal")
    if not varlen and not paged and q[0] != k[0]:
        raise ValueError(f"q has shape {q} and k {k}: the first numbers, batch, must be equal")


def _starts(name: str, array: Any, total: int) -> Numbers:
    """Where sequences begin, checked against the tokens there are."""
    starts = numbers(name, array, np.int32, None)
    if len(starts) < 2 or starts[0] != 0 or (np.diff(starts) < 0).any() or starts[-1] != total:
        raise ValueError(
            f"{name}={starts.tolist()} must begin with 0, not fall, and end with the number of "
            f"tokens, {total}"
        )
    return starts


def _lengths(starts: Numbers) -> Sequence[int]:
    return tuple(int(length) for length in np.diff(starts))
