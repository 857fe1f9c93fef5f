"""What is to be computed: the shapes, the mask and the extras of one attention call."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from fa4sim.specs.checks import finite, flag, one_of, quoted, whole, whole_between

#: Bytes of one element, by the name the command line uses.
DTYPE_BYTES = {"bf16": 2, "fp16": 2, "e4m3": 1, "e5m2": 1}
FP8 = ("e4m3", "e5m2")

#: Head dimension pairs (of Q and K, of V) beyond "equal, 8 to 128" that the kernel accepts.
UNEQUAL_HEAD_DIMS = ((192, 128),)

#: The kernel that combines partial results weighs at most this many splits.
MOST_SPLITS = 256

#: The kernel counts sequences, heads and tokens in 32-bit integers.
MOST = 2**31 - 1

Window = tuple[int | None, int | None]

_LENGTHS_FILE = 'give a file of JSON {"q": [128, …], "k": [512, …]} or of CSV with the header q,k'


@dataclass(frozen=True)
class Problem:
    """One forward attention call, as ``flash_attn_func`` would see it.

    ``window`` is ``(left, right)`` with ``None`` for unbounded, counted in keys from the
    bottom-right aligned diagonal; ``causal`` is ``(None, 0)``. ``seqlens_q`` and ``seqlens_k``
    make the batch one of variable length (one entry per sequence; then ``batch``, ``seqlen_q``
    and ``seqlen_k`` are their number and maxima). Lengths of K/V that are not given are those of
    Q. ``sink`` adds a learnable logit per head, ``softcap`` bounds scores by
    ``softcap * tanh(s / softcap)``; 0 switches it off. ``softmax_scale`` is
    ``head_dim ** -0.5`` if not given. With a ``page_size`` K and V lie in pages of so many tokens,
    (pages, page_size, kv_heads, head_dim), and a table of page numbers says for each sequence
    which; without one they lie in one piece. ``num_splits`` cuts the keys of every work tile into
    so many parts, whose partial results a second kernel combines: 1 never splits, 0 leaves the
    number to the kernel's heuristic (:attr:`Design.num_splits` is what comes of it).

    Raises ``ValueError`` for anything the kernel would refuse, quoting it. The limits are those
    of ``flash_attn/cute/interface.py``; what this version does not cover (head dim 256; with arrays
    also FP8) is refused where it is asked for.

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
    window: Window | None = None
    sink: bool = False
    softcap: float = 0.0
    softmax_scale: float | None = None
    seqlens_q: tuple[int, ...] | None = None
    seqlens_k: tuple[int, ...] | None = None
    page_size: int | None = None
    num_splits: int = 1

    def __post_init__(self) -> None:
        def fill(name: str, value: object) -> None:
            object.__setattr__(self, name, value)

        for name in ("causal", "sink"):
            fill(name, flag(name, getattr(self, name)))
        fill("dtype", one_of("dtype", self.dtype, tuple(DTYPE_BYTES)))
        self._check_lengths(fill)
        self._check_heads(fill)
        self._check_head_dims(fill)
        self._check_mask(fill)
        self._check_scales(fill)
        why = "0 leaves it to the heuristic, 1 never splits, and no more than 256 are combined"
        fill("num_splits", whole_between("num_splits", self.num_splits, 0, MOST_SPLITS, why))
        if self.page_size is not None:
            fill("page_size", _count("page_size", self.page_size, 1))

    def _check_lengths(self, fill: Callable[[str, object], None]) -> None:
        for name in ("seqlens_q", "seqlens_k"):
            if getattr(self, name) is not None:
                fill(name, _lengths(name, getattr(self, name)))
        fill("batch", whole("batch", self.batch))
        q, k = self.seqlens_q, self.seqlens_k
        if q is not None and k is None and self.seqlen_k is None:
            k = q
            fill("seqlens_k", q)
        for side, lengths in (("q", q), ("k", k)):
            given = getattr(self, f"seqlen_{side}")
            alone = given in (None, max(lengths or (0,)))
            alone = alone or (side == "q" and given == type(self).seqlen_q)
            if lengths is not None and not alone:
                raise ValueError(
                    f"seqlen_{side}={quoted(given)} contradicts seqlens_{side}, whose longest is "
                    f"{max(lengths)}; leave seqlen_{side} out"
                )
        known = q if q is not None else k
        if known is not None:
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
            least = 0 if name == "seqlen_k" or (name == "seqlen_q" and q is not None) else 1
            fill(name, _count(name, getattr(self, name), least))

    def _check_heads(self, fill: Callable[[str, object], None]) -> None:
        kv_heads = self.heads if self.kv_heads is None else _count("kv_heads", self.kv_heads, 1)
        fill("kv_heads", kv_heads)
        if self.heads % kv_heads:
            some = ", ".join(str(kv_heads * i) for i in (1, 2, 3))
            raise ValueError(
                f"heads={self.heads} is no multiple of kv_heads={kv_heads}; every K/V head "
                f"serves heads / kv_heads query heads, so use {some}, … heads"
            )

    def _check_head_dims(self, fill: Callable[[str, object], None]) -> None:
        fill("head_dim", whole("head_dim", self.head_dim))
        given = self.head_dim if self.head_dim_v is None else self.head_dim_v
        fill("head_dim_v", whole("head_dim_v", given))
        pair = (self.head_dim, self.dim_v)
        multiple = 16 // DTYPE_BYTES[self.dtype]
        equal_enough = all(8 <= d <= 128 and d % multiple == 0 for d in pair)
        if equal_enough or pair in UNEQUAL_HEAD_DIMS:
            return
        shown = f"({quoted(pair[0])}, {quoted(pair[1])})"
        if 256 <= max(pair) <= 512:
            raise ValueError(
                f"head dims {shown} run in a kernel of their own, which is not modelled; "
                f"use multiples of {multiple} from {multiple} to 128, or (192, 128)"
            )
        raise ValueError(
            f"head dims {shown} are not supported for {self.dtype}: use multiples of {multiple} "
            f"from {multiple} to 128 (rows are loaded in steps of 16 bytes), or (192, 128)"
        )

    def _check_mask(self, fill: Callable[[str, object], None]) -> None:
        if self.window is None:
            return
        left, right = _pair(self.window)
        for side in (left, right):
            if side is not None and abs(side) > MOST:
                raise ValueError(
                    f"window={quoted((left, right))}: a side must be {-MOST} to {MOST}, as the "
                    "kernel counts in 32 bits; None is unbounded"
                )
        if self.causal:
            if right not in (None, 0):
                raise ValueError(
                    f"causal and window={(left, right)} contradict each other: causal means "
                    "right = 0; give window without causal"
                )
            right = 0
        if left is not None and right is not None and left + right < 0:
            raise ValueError(
                f"window={(left, right)} excludes every key: left + right is {left + right}; "
                "make it 0 or more (-1 does not mean unbounded here: use None, or leave it empty)"
            )
        kept: Window | None = None if left is None and right in (None, 0) else (left, right)
        fill("causal", left is None and right == 0)
        fill("window", kept)
        if kept is not None:
            self._check_some_key_is_seen(kept)

    def _check_some_key_is_seen(self, window: Window) -> None:
        sequences = range(self.batch if self.varlen else 1)
        lengths = [(q, k) for q, k in map(self.lengths, sequences) if q and k]
        if lengths and not any(_visible_pairs(q, k, window) for q, k in lengths):
            q, k = lengths[0]
            raise ValueError(
                f"window={window} excludes every key: with {q} queries and {k} keys no query "
                "sees any; a negative side takes keys away, None leaves it unbounded"
            )

    def _check_scales(self, fill: Callable[[str, object], None]) -> None:
        fill("softcap", finite("softcap", self.softcap))
        if self.softcap < 0:
            raise ValueError(f"softcap={self.softcap} must be 0 (off) or a positive number")
        if self.softmax_scale is not None:
            fill("softmax_scale", finite("softmax_scale", self.softmax_scale))
            if self.softmax_scale <= 0:
                raise ValueError(f"softmax_scale={self.softmax_scale} must be a positive number")

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
        """Floating-point operations of the two GEMMs, as the published figures count them.

        ``4 * heads * (head_dim + head_dim_v) / 2`` per pair of a query and a key, summed over the
        sequences. Without a mask there are ``seqlen_q * seqlen_k`` pairs; causal counts half of
        them, whatever the lengths; a window counts the keys that each row sees. What the kernel
        computes beyond that (padding, masked parts of its blocks) doesn't count.

        Source: FlashAttention-4 paper (arXiv 2603.05451). ``benchmarks/bench_utils.py`` of the
        flash-attention repository agrees for causal masks with as many keys as queries; with
        more keys it counts ``seqlen_q * (2 * seqlen_k - seqlen_q) / 2`` pairs.

        >>> square = Problem(seqlen_q=4096)
        >>> [
        ...     Problem(seqlen_q=4096, **mask).flops / square.flops
        ...     for mask in ({"causal": True}, {"window": (1023, 0)})
        ... ]
        [0.5, 0.218780517578125]
        """
        if not self.causal:
            return self.flops_visible
        pairs = self._sum_over_sequences(lambda q, k: q * k)
        return self.heads * pairs * (self.head_dim + self.dim_v)

    @property
    def flops_visible(self) -> int:
        """The same by the pairs that the mask lets through, which for causal is not just half.

        With as many keys as queries it is half and a little; with other lengths it is far from
        it.

        >>> [
        ...     Problem(seqlen_q=1024, seqlen_k=k, causal=True).flops_visible
        ...     / Problem(seqlen_q=1024, seqlen_k=k, causal=True).flops
        ...     for k in (1024, 8192)
        ... ]
        [1.0009765625, 1.8751220703125]
        """
        pairs = self._sum_over_sequences(self.visible_pairs)
        return 2 * self.heads * pairs * (self.head_dim + self.dim_v)

    @property
    def half_is_a_convention(self) -> bool:
        """Whether the causal mask lets through something else than half of what lengths span."""
        return self.causal and any(
            q != k for q, k in map(self.lengths, range(self.batch if self.varlen else 1))
        )

    def _sum_over_sequences(self, pairs: Callable[[int, int], int]) -> int:
        """``pairs`` of every sequence's lengths, summed."""
        if not self.varlen:
            return self.batch * pairs(*self.lengths(0))
        return sum(pairs(*self.lengths(index)) for index in range(self.batch))

    def visible_pairs(self, queries: int, keys: int) -> int:
        """How many pairs of a query and a key the mask lets through in a sequence so long.

        >>> Problem(causal=True).visible_pairs(3, 5)
        12
        """
        window = (None, 0) if self.causal else self.window
        return queries * keys if window is None else _visible_pairs(queries, keys, window)

    @staticmethod
    def lengths_from_file(path: str | os.PathLike[str]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Read ``(seqlens_q, seqlens_k)`` from JSON ``{"q": […], "k": […]}`` or CSV ``q,k``.

        Raises ``ValueError`` naming the file and what is wrong with it.
        """
        path = Path(path)
        try:
            text = path.read_text(encoding="utf-8-sig")
        except (OSError, ValueError) as error:
            raise ValueError(
                f"cannot read sequence lengths from {str(path)!r}: {error}; {_LENGTHS_FILE}"
            ) from None
        try:
            if text.lstrip().startswith(("{", "[")):
                return _lengths_in_json(text)
            return _lengths_in_csv(text)
        except (KeyError, TypeError, ValueError, RecursionError, csv.Error) as error:
            what = f"there is no {error}" if isinstance(error, KeyError) else error
            raise ValueError(
                f"{str(path)!r} holds no sequence lengths ({what}); {_LENGTHS_FILE}"
            ) from None


def _count(name: str, value: object, least: int) -> int:
    number = whole(name, value)
    if number < least:
        raise ValueError(f"{name}={quoted(number)} must be at least {least}")
    if number > MOST:
        raise ValueError(
            f"{name}={quoted(number)} must be at most {MOST}: the kernel counts in 32 bits"
        )
    return number


def _lengths(name: str, given: object) -> tuple[int, ...]:
    """Sequence lengths as a tuple of ints, 0 or more each, at least one."""
    if isinstance(given, str | bytes | dict) or not isinstance(given, Iterable):
        raise ValueError(f"{name}={quoted(given)} must be a list of lengths, one per sequence")
    lengths = tuple(_count(f"{name}[{i}]", length, 0) for i, length in enumerate(given))
    if not lengths:
        raise ValueError(f"{name} is empty; give one length per sequence")
    return lengths


def _pair(window: object) -> Window:
    """``window`` as two whole numbers or None."""
    wrong = ValueError(
        f"window={quoted(window)} must be a pair (left, right) of whole numbers, None for unbounded"
    )
    if isinstance(window, str | bytes) or not isinstance(window, Iterable):
        raise wrong
    sides = list(window)
    if len(sides) != 2:
        raise wrong
    left, right = (None if side is None else whole("window", side) for side in sides)
    return left, right


def _visible_pairs(q: int, k: int, window: Window) -> int:
    """How many (query, key) pairs a window lets through: row i sees keys from i + k - q - left.

    Both ends move on by one key per row and stop at the ends of the sequence, so the sums over
    rows have a closed form.
    """
    left, right = window
    first = k - q
    ends = q * k if right is None else _sum_of_clipped(first + right + 1, q, k)
    starts = 0 if left is None else _sum_of_clipped(first - left, q, k)
    return ends - starts


def _sum_of_clipped(first: int, count: int, most: int) -> int:
    """The sum of ``count`` consecutive integers from ``first`` on, each clipped to 0 … ``most``."""

    def below(end: int) -> int:
        """The same sum over all integers below ``end``."""
        ramp = min(max(end, 0), most + 1)
        return ramp * (ramp - 1) // 2 + max(0, end - most - 1) * most

    return below(first + count) - below(first)


def _lengths_in_json(text: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """``(q, k)`` of ``{"q": […], "k": […]}`` with these keys only, once each."""
    pairs = json.loads(text, object_pairs_hook=list)
    if not isinstance(pairs, list) or not all(isinstance(pair, tuple) for pair in pairs):
        raise ValueError("it is no object with the keys q and k")
    names = [name for name, _ in pairs]
    data = dict(pairs)
    for name in names:
        if name not in ("q", "k"):
            raise ValueError(f"{quoted(name)} is neither q nor k")
        if names.count(name) > 1:
            raise ValueError(f"{quoted(name)} is there twice")
    return _lengths("q", data["q"]), _lengths("k", data["k"])


def _lengths_in_csv(text: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """``(q, k)`` of lines ``128,512`` under the header ``q,k`` (or ``k,q``)."""
    rows = [row for row in csv.reader(text.splitlines(), skipinitialspace=True) if row]
    head = [name.strip() for name in rows[0]] if rows else []
    if sorted(head) != ["k", "q"]:
        raise ValueError(f"its header is {quoted(','.join(head))}" if head else "it is empty")
    if len(rows) == 1:
        raise ValueError("there is no line below its header")
    for row in rows[1:]:
        if len(row) != 2:
            raise ValueError(f"{quoted(','.join(row))} has {len(row)} entries, not 2")
    lengths = {
        name: tuple(_whole_text(name, row[column]) for row in rows[1:])
        for column, name in enumerate(head)
    }
    return lengths["q"], lengths["k"]


def _whole_text(name: str, text: object) -> int:
    """The whole number that ``text`` spells out, 0 or more."""
    try:
        number = int(str(text))
    except ValueError:
        raise ValueError(f"{name}={quoted(text)} must be a whole number") from None
    return _count(name, number, 0)


def as_window(text: str | Iterable[int | None] | None) -> Window | None:
    """``"L,R"`` as a window; an empty side is unbounded.

    >>> as_window("256,0"), as_window("128,")
    ((256, 0), (128, None))
    """
    if text is None:
        return None
    if not isinstance(text, str):
        return _pair(text)
    parts = text.split(",")
    if len(parts) != 2:
        raise ValueError(f"window {text!r} must be two numbers L,R (leave one empty: unbounded)")
    sides: list[int | None] = []
    for part in parts:
        if part.strip().lower() in ("", "none"):
            sides.append(None)
            continue
        try:
            sides.append(int(part))
        except ValueError:
            raise ValueError(
                f"window {text!r} must be two numbers L,R, and {part.strip()!r} is not a whole "
                "number (leave a side empty: unbounded)"
            ) from None
    return sides[0], sides[1]
