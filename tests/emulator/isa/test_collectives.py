"""What the lanes of a warp do together, against the manual's pseudo-code run lane by lane."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fa4kernel.emulator.isa import DTYPES, semantics_of
from tests.emulator.isa.case import instruction, op

FULL = 0xFFFFFFFF
WARPS = 2
ACTIVE = st.integers(1, FULL).map(lambda bits: [bits >> i & 1 for i in range(32)])
MASK = st.one_of(st.just(FULL), st.integers(1, FULL), st.sampled_from([0xFFFF, 0xFF00FF00]))


def lanes(element: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    """A value for each lane of two warps."""
    return st.lists(element, min_size=32 * WARPS, max_size=32 * WARPS)


def call(text: str, kinds: str, *inputs: Any, active: Any = None) -> Any:
    """A collective's results on (warps, 32) arrays; a scalar input stands for an immediate."""
    semantics = semantics_of(instruction(op(text, kinds)))
    assert semantics is not None and semantics.collective
    arrays = []
    for given_, kind in zip(inputs, semantics.inputs, strict=True):
        array = np.asarray(given_, DTYPES[kind])
        arrays.append(array.reshape(WARPS, 32) if array.ndim else array[()])
    who = (
        np.ones((WARPS, 32), bool) if active is None else np.array(active, bool).reshape(WARPS, 32)
    )
    with np.errstate(all="ignore"):
        found = semantics.function(*arrays, active=who)
    results = found if isinstance(found, tuple) else (found,)
    for result, kind in zip(results, semantics.outputs, strict=True):
        assert result.shape == (WARPS, 32) and result.dtype == DTYPES[kind]
    return found


@pytest.mark.parametrize("mode", ["up", "down", "bfly", "idx"])
@given(a=lanes(st.integers(0, FULL)), b=lanes(st.integers(0, 40)), c=st.integers(0, 0x1FFF))
def test_a_shuffle_reads_the_lane_that_the_manual_says(
    mode: str, a: list[int], b: list[int], c: int
) -> None:
    value, fine = call(
        f"shfl.sync.{mode}.b32 d|p, a, b, c, -1;", "b32 b32 b32 -> b32 pred", a, b, c, FULL
    )
    for warp in range(WARPS):
        for lane in range(32):
            bval, cval, segment = b[32 * warp + lane] & 31, c & 31, c >> 8 & 31
            last, first = lane & segment | cval & ~segment, lane & segment
            source = {
                "up": lane - bval,
                "down": lane + bval,
                "bfly": lane ^ bval,
                "idx": first | bval & ~segment,
            }[mode]
            inside = source >= last if mode == "up" else source <= last
            assert fine[warp, lane] == inside
            assert value[warp, lane] == a[32 * warp + (source if inside else lane)]


def test_a_butterfly_over_half_warps_stays_in_them() -> None:
    a = list(range(64))
    got = call("shfl.sync.bfly.b32 d, a, 8, 0x101F, -1;", "b32 -> b32", a, 8, 0x101F, FULL)
    assert [int(x) for x in got[0]] == [i ^ 8 for i in range(32)]


@given(p=lanes(st.booleans()), first=ACTIVE, second=ACTIVE, mask=MASK)
def test_votes_count_executing_members_only(
    p: list[bool], first: list[int], second: list[int], mask: int
) -> None:
    active = first + second
    for warp in range(WARPS):
        who = [i for i in range(32) if active[32 * warp + i] and mask >> i & 1]
        cast = [p[32 * warp + i] for i in who]
        for mode, want in {
            "all": all(cast),
            "any": any(cast),
            "uni": len(set(cast)) <= 1,
        }.items():
            got = call(
                f"vote.sync.{mode}.pred p, a, b;", "pred b32 -> pred", p, mask, active=active
            )
            assert (got[warp] == want).all()
        ballot = sum(1 << i for i, vote in zip(who, cast, strict=True) if vote)
        got = call("vote.sync.ballot.b32 d, a, b;", "pred b32 -> b32", p, mask, active=active)
        assert (got[warp] == ballot).all()


def test_two_groups_of_a_warp_vote_apart() -> None:
    mask = ([0xFFFF] * 16 + [0xFFFF0000] * 16) * WARPS
    p = ([True] * 16 + [False] * 16) * WARPS
    got = call("vote.sync.any.pred p, a, b;", "pred b32 -> pred", p, mask)
    assert [bool(x) for x in got[0]] == [True] * 16 + [False] * 16


@given(a=lanes(st.integers(0, 3)), first=ACTIVE, second=ACTIVE, mask=MASK)
def test_matches_find_equal_members(
    a: list[int], first: list[int], second: list[int], mask: int
) -> None:
    active = first + second
    same = call("match.any.sync.b32 d, a, b;", "b32 b32 -> b32", a, mask, active=active)
    whole, equal = call(
        "match.all.sync.b64 d|p, a, b;", "b64 b32 -> b32 pred", a, mask, active=active
    )
    for warp in range(WARPS):
        who = [i for i in range(32) if active[32 * warp + i] and mask >> i & 1]
        for i in who:
            mine = a[32 * warp + i]
            assert same[warp, i] == sum(1 << j for j in who if a[32 * warp + j] == mine)
            alike = len({a[32 * warp + j] for j in who}) == 1
            assert equal[warp, i] == alike
            assert whole[warp, i] == (sum(1 << j for j in who) if alike else 0)


@pytest.mark.parametrize(
    ("name", "kind"),
    [("add", "u32"), ("add", "s32"), ("min", "u32"), ("min", "s32"), ("max", "u32"), ("max", "s32")]
    + [(name, "b32") for name in ("and", "or", "xor")],
)
@given(a=lanes(st.integers(0, FULL)), first=ACTIVE, second=ACTIVE, mask=MASK)
def test_reductions_fold_executing_members(
    name: str, kind: str, a: list[int], first: list[int], second: list[int], mask: int
) -> None:
    active = first + second
    numbers = np.array(a, np.uint32).view(DTYPES[kind])
    got = call(
        f"redux.sync.{name}.{kind} d, a, b;", f"{kind} b32 -> {kind}", numbers, mask, active=active
    )
    for warp in range(WARPS):
        who = [i for i in range(32) if active[32 * warp + i] and mask >> i & 1]
        cast = [int(numbers[32 * warp + i]) for i in who]
        if not cast:
            continue
        want = {
            "add": sum,
            "min": min,
            "max": max,
            "and": lambda xs: math.prod([1]) and int(np.bitwise_and.reduce(np.array(xs))),
            "or": lambda xs: int(np.bitwise_or.reduce(np.array(xs))),
            "xor": lambda xs: int(np.bitwise_xor.reduce(np.array(xs))),
        }[name](cast)
        assert (got[warp].view(np.uint32) == np.uint32(want & FULL)).all()


@pytest.mark.parametrize("name", ["min", "max"])
def test_float_reductions_ignore_nans_unless_told(name: str) -> None:
    nan = float("nan")
    a = [nan] * 31 + [-2.0] + [nan] * 32
    kinds = "f32 -> f32"
    got = call(f"redux.sync.{name}.f32 d, a, -1;", kinds, a, FULL)
    assert (got[0] == -2).all() and (got[1].view(np.uint32) == 0x7FFFFFFF).all()
    got = call(f"redux.sync.{name}.abs.f32 d, a, -1;", kinds, a, FULL)
    assert (got[0] == 2).all()
    got = call(f"redux.sync.{name}.NaN.f32 d, a, -1;", kinds, a, FULL)
    assert (got.view(np.uint32) == 0x7FFFFFFF).all()
    zeros = [0.0, -0.0] * 32
    got = call(f"redux.sync.{name}.f32 d, a, -1;", kinds, zeros, FULL)
    assert (np.signbit(got) == (name == "min")).all()


@given(first=ACTIVE, second=ACTIVE, mask=MASK)
def test_one_executing_member_is_elected_and_always_the_same(
    first: list[int], second: list[int], mask: int
) -> None:
    active = first + second
    leader, elected = call("elect.sync d|p, a;", "b32 -> b32 pred", mask, active=active)
    for warp in range(WARPS):
        who = [i for i in range(32) if active[32 * warp + i] and mask >> i & 1]
        if who:
            assert [i for i in range(32) if elected[warp, i]] == [who[0]]
            assert (leader[warp] == who[0]).all()


def test_elect_takes_a_sink_for_the_lane() -> None:
    leader, elected = call("elect.sync _|p, -1;", " -> pred", FULL)
    assert (leader == 0).all()
    assert [int(x) for x in elected.sum(axis=1)] == [1] * WARPS


@given(first=ACTIVE, second=ACTIVE)
def test_activemask_has_a_bit_for_each_executing_lane(first: list[int], second: list[int]) -> None:
    got = call("activemask.b32 d;", "-> b32", active=first + second)
    for warp, active in enumerate((first, second)):
        assert (got[warp] == sum(1 << i for i in range(32) if active[i])).all()
