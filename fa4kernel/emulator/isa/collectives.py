"""What the lanes of a warp do together: shfl, vote, match, redux, elect, activemask.

Arrays are (warps, 32). A lane's *members* are the executing lanes in its membermask. A lane that
reads from a lane that doesn't execute gets what that lane's register holds (PTX: undefined).
Sources: PTX ISA 9.7.9.6, 9.7.13.9 to 9.7.13.12 and 9.7.13.14.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fa4kernel.emulator.isa.extremes import canonical_nan, maximum, minimum
from fa4kernel.emulator.isa.semantics import DTYPES, Array, Builder, Semantics, Spelling

_LANES = np.arange(32)
_BIT = np.uint32(1) << _LANES.astype(np.uint32)
_EVERYONE = 0xFFFFFFFF
Mask: TypeAlias = NDArray[np.bool_]


def members(membermask: Array, active: Mask) -> Mask:
    """Who takes part with whom.

    Args:
        membermask: uint32 (warps, 32), or a scalar that holds for every lane.
        active: bool (warps, 32), the lanes that execute.

    Returns:
        bool (warps, 32, 32): for each lane, its members; (warps, 1, 32) for a scalar mask.
    """
    if np.ndim(membermask) == 0:
        if membermask != _EVERYONE:
            active = active & ((_BIT & membermask) != 0)
        return active[:, None, :]
    return np.asarray(active[:, None, :] & ((membermask[:, :, None] & _BIT) != 0))


def ballot(which: Mask) -> NDArray[np.uint32]:
    """A bit per lane along the last axis.

    >>> ballot(np.arange(32) < 3)
    array([7], dtype=uint32)
    """
    return np.packbits(which, axis=-1, bitorder="little").view(np.uint32)


def to_all(result: Array, active: Mask) -> Array:
    """One result per lane or (warps, 1) per warp, as (warps, 32)."""
    spread = np.empty(active.shape, result.dtype)
    spread[...] = result
    return spread


def per_lane(x: Array, active: Mask) -> Array:
    """An input as (warps, 32), a scalar copied to every lane."""
    return x if np.ndim(x) == 2 else np.full(active.shape, x)


def source_lane(mode: str, b: Array, c: Array) -> tuple[Array, Mask]:
    """Where each lane of a warp reads in a shuffle, and whether that is in range."""
    b, clamp, segment = b & 31, c & 31, c >> 8 & 31
    last = (_LANES & segment) | (clamp & ~segment)
    source = {
        "up": lambda: _LANES - b,
        "down": lambda: _LANES + b,
        "bfly": lambda: _LANES ^ b,
        "idx": lambda: (_LANES & segment) | (b & ~segment),
    }[mode]()
    fine = source >= last if mode == "up" else source <= last
    return np.where(fine, source, _LANES), fine


#: The same for constant operands.
_constant_source = cache(source_lane)


def _shuffle(mode: str) -> Callable[..., tuple[Array, Array]]:
    def shuffle(a: Array, b: Array, c: Array, m: Array, active: Mask) -> tuple[Array, Array]:
        a = per_lane(a, active)
        if np.ndim(b) == np.ndim(c) == 0:
            source, fine = _constant_source(mode, int(b), int(c))
            return a.take(source, axis=1), to_all(fine, active)
        wide = (np.asarray(x).astype(np.int64) for x in (b, c))
        source, fine = source_lane(mode, *wide)
        first = np.arange(0, a.size, 32)[:, None]
        return a.take(source + first), to_all(fine, active)

    return shuffle


def build_shfl(s: Spelling) -> Semantics:
    """``shfl.sync.{up,down,bfly,idx}.b32 d{|p}, a, b, c, membermask``."""
    kind = s.type("b32")
    s.need("sync")
    shuffle = _shuffle(s.need("up", "down", "bfly", "idx"))
    if len(s.results) == 2:
        return Semantics(shuffle, (kind, "u32", "u32", "u32"), (kind, "pred"), collective=True)

    def value(a: Array, b: Array, c: Array, m: Array, active: Mask) -> Array:
        return shuffle(a, b, c, m, active)[0]

    return Semantics(value, (kind, "u32", "u32", "u32"), (kind,), collective=True)


def build_vote(s: Spelling) -> Semantics:
    """``vote.sync.{all,any,uni}.pred`` and ``vote.sync.ballot.b32``."""
    s.need("sync")
    mode, into = s.need("all", "any", "uni", "ballot"), s.type("pred", "b32")
    if (into == "b32") != (mode == "ballot"):
        raise s.refusal(f"vote.{mode} has no .{into} result")

    def vote(p: Array, m: Array, active: Mask) -> Array:
        who = members(m, active)
        p = per_lane(p, active)[:, None, :]
        if mode == "ballot":
            result: Array = ballot(who & p)[..., 0]
        else:
            some = np.asarray((who & p).any(axis=-1))
            none = np.asarray(~(who & ~p).any(axis=-1))
            result = {"any": some, "all": none, "uni": none | ~some}[mode]
        return to_all(result, active)

    return Semantics(vote, ("pred", "u32"), (into,), collective=True)


def build_match(s: Spelling) -> Semantics:
    """``match.{any,all}.sync.{b32,b64} d{|p}, a, membermask``."""
    s.need("sync")
    mode, kind = s.need("any", "all"), s.type("b32", "b64")
    both = len(s.results) == 2
    if both and mode == "any":
        raise s.refusal("match.any has one result")

    def match(a: Array, m: Array, active: Mask) -> Array | tuple[Array, Array]:
        who = members(m, active)
        a = per_lane(a, active)
        same = who & (a[:, :, None] == a[:, None, :])
        mask = ballot(same)[..., 0]
        if mode == "any":
            return mask
        equal = np.asarray((same == who).all(axis=-1))
        found = np.where(equal, mask, np.uint32(0))
        return (found, equal) if both else found

    outputs = ("b32", "pred") if both else ("b32",)
    return Semantics(match, (kind, "u32"), outputs, collective=True)


_REDUCTIONS: dict[str, tuple[Any, tuple[str, ...]]] = {
    "add": (np.add, ("u32", "s32")),
    "min": (np.minimum, ("u32", "s32")),
    "max": (np.maximum, ("u32", "s32")),
    "and": (np.bitwise_and, ("b32",)),
    "or": (np.bitwise_or, ("b32",)),
    "xor": (np.bitwise_xor, ("b32",)),
}


def _neutral(name: str, dtype: np.dtype[Any]) -> int:
    if name in ("add", "or", "xor"):
        return 0
    if name == "and":
        return 0xFFFFFFFF
    return int(np.iinfo(dtype).max if name == "min" else np.iinfo(dtype).min)


def build_redux(s: Spelling) -> Semantics:
    """``redux.sync.op.type d, a, membermask``."""
    s.need("sync")
    name, kind = s.need(*_REDUCTIONS), s.type("u32", "s32", "b32", "f32")
    if kind == "f32" and name in ("min", "max"):
        function = _reduce_floats(name, s.flag("abs"), s.flag("NaN"))
        return Semantics(function, (kind, "u32"), (kind,), collective=True)
    ufunc, kinds = _REDUCTIONS[name]
    if kind not in kinds:
        raise s.refusal(f"redux.{name} has no .{kind}")
    dtype = DTYPES[kind]
    neutral = dtype.type(_neutral(name, dtype))

    def reduce(a: Array, m: Array, active: Mask) -> Array:
        who = members(m, active)
        a = per_lane(a, active)[:, None, :]
        total = ufunc.reduce(np.where(who, a, neutral), axis=-1, dtype=dtype)
        return to_all(total, active)

    return Semantics(reduce, (kind, "u32"), (kind,), collective=True)


def _reduce_floats(name: str, absolute: bool, nan: bool) -> Callable[..., Array]:
    extreme = maximum if name == "max" else minimum

    def reduce(a: Array, m: Array, active: Mask) -> Array:
        who = members(m, active)
        a = np.abs(a) if absolute else a
        a = per_lane(a, active)[:, None, :]
        kept = np.where(who, a, np.float32("nan"))
        lost = (who & np.isnan(a)).any(axis=-1) if nan else np.isnan(kept).all(axis=-1)
        while kept.shape[-1] > 1:
            half = kept.shape[-1] // 2
            kept = extreme(kept[..., :half], kept[..., half:])
        total = np.where(lost, canonical_nan(kept.dtype), kept[..., 0])
        return to_all(total, active)

    return reduce


def build_elect(s: Spelling) -> Semantics:
    """``elect.sync d|p, membermask``: the lowest executing lane of the mask leads."""
    s.need("sync")
    if len(s.results) != 2:
        raise s.refusal("elect has two results, d|p")

    def elect(m: Array, active: Mask) -> tuple[Array, Array]:
        leader = members(m, active).argmax(axis=-1)
        return to_all(leader.astype(np.uint32), active), to_all(leader == _LANES, active)

    return Semantics(elect, ("u32",), ("b32", "pred"), collective=True)


def build_activemask(s: Spelling) -> Semantics:
    """``activemask.b32 d``."""
    s.type("b32")

    def mask(active: Mask) -> Array:
        return to_all(ballot(active), active)

    return Semantics(mask, (), ("b32",), collective=True)


BUILDERS: dict[str, Builder] = {
    "shfl": build_shfl,
    "vote": build_vote,
    "match": build_match,
    "redux": build_redux,
    "elect": build_elect,
    "activemask": build_activemask,
}
