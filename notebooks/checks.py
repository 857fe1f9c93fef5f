"""Checks of the exercises: each says what is right, or what the answer would lead to.

Every check returns an :class:`Answer`. What is right is not stored here; it comes out of the
simulator or the reference, so it stays right when they change.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from fa4sim import B200, Design, Fault, Machine, Problem, simulate
from fa4sim.analysis import steady_state
from fa4sim.numerics import LARGEST
from fa4sim.pipelines.fa4.barriers import BarrierSpec, barrier_table
from fa4sim.specs import FRAGMENT

#: The running example: one CTA with a pair of Q tiles, eight K/V blocks.
EXAMPLE = Problem(seqlen_q=256, seqlen_k=1024)


@dataclass(frozen=True, repr=False)
class Answer:
    """Whether an answer is right, and what there is to say about it."""

    right: bool
    message: str

    def __repr__(self) -> str:
        return f"{'✓ Right.' if self.right else '✗ Not yet.'} {self.message}"


UNANSWERED = Answer(False, "There is no answer here so far: replace the None (or the return None).")


def _wrong(message: str) -> Answer:
    return Answer(False, message)


def _raised(error: Exception) -> Answer:
    return _wrong(f"Your function raised {type(error).__name__}: {error}")


def _not_offered(given: object, choices: Collection[Any]) -> Answer | None:
    """What to say to somebody whose answer is none of the numbers to choose from; None if it is."""
    if isinstance(given, str):
        return _wrong(f"{given!r} is text; give the number without quotes.")
    if _no_number(given) or given not in choices:
        return _wrong(f"{given!r} is not among {', '.join(map(str, choices))}.")
    return None


def _no_number(given: object) -> bool:
    return isinstance(given, bool) or not isinstance(given, int | float | np.number)


def _several(given: Any) -> Answer | None:
    """What to say to somebody who returns an array or a list instead of a number; None if not."""
    return _wrong(f"Return one number, not {given!r}.") if np.ndim(given) else None


# -- 01: the life of a tile ------------------------------------------------------------------------


def check_slot(slot_of: Callable[[str, int, int, int], int | None]) -> Answer:
    """Exercise 1.1: ``slot_of(tensor, block, blocks, kv_stages)`` is the tile's ring slot."""
    for blocks, stages in ((8, 3), (8, 2), (6, 3)):
        truth = _slots(blocks, stages)
        try:
            given = {key: slot_of(*key, blocks, stages) for key in truth}
        except Exception as error:
            return _raised(error)
        if all(value is None for value in given.values()):
            return UNANSWERED
        if wrong := next(filter(None, map(_several, given.values())), None):
            return wrong
        if given != truth:
            return _wrong(_slot_message(given, truth, blocks, stages))
    return Answer(
        True, "The simulator put every K and V tile where you say, for rings of 2 and 3 slots."
    )


@cache
def _slots(blocks: int, stages: int) -> dict[tuple[str, int], int]:
    """Where the simulator put each tile."""
    problem = replace(EXAMPLE, seqlen_k=128 * blocks)
    run = simulate(problem, Design.for_problem(problem, B200, kv_stages=stages), scope="cta")
    rows = run.trace.expand().life.where(tensor=("K", "V"), space="smem").rows()
    return {(str(row["tensor"]), int(row["block"])): int(row["stage"]) for row in rows}


def _slot_message(
    given: dict[tuple[str, int], Any], truth: dict[tuple[str, int], int], blocks: int, stages: int
) -> str:
    by_rule = {
        "blocks": {(t, b): b % stages for t, b in truth},
        "always 8": {(t, b): (2 * (7 - b) + (t == "V")) % stages for t, b in truth},
        "forward": {(t, b): (2 * b + (t == "V")) % stages for t, b in truth},
        "K alone": {(t, b): (blocks - 1 - b) % stages for t, b in truth},
        "V first": {(t, b): (2 * (blocks - 1 - b) + (t == "K")) % stages for t, b in truth},
        "always 3": {(t, b): (2 * (blocks - 1 - b) + (t == "V")) % 3 for t, b in truth},
        "not round": {(t, b): 2 * (blocks - 1 - b) + (t == "V") for t, b in truth},
    }
    messages = {
        "blocks": "You number the blocks; number the loads. Blocks come from the last one down, "
        "and each of them brings two tiles, K and then V, so V needs a slot of its own.",
        "always 8": f"This is right for 8 blocks, but here there are {blocks}: use blocks.",
        "forward": f"You count the blocks upwards, but they are processed from the last one down: "
        f"K of block {blocks - 1} is the first tile to be loaded.",
        "K alone": "K and V of a block share the ring, so each block takes two slots, not one.",
        "V first": "Within a block K comes before V: scores are needed before anything is summed.",
        "always 3": f"This is right for 3 slots, but the ring here has {stages}: use kv_stages.",
        "not round": "You number the loads, but a ring comes round again: take the number modulo "
        "kv_stages.",
    }
    for rule, slots in by_rule.items():
        if given == slots:
            return messages[rule]
    wrong = next(key for key in truth if given[key] != truth[key])
    return (
        f"{wrong[0]} of block {wrong[1]}, of {blocks} blocks in {stages} slots: you say "
        f"{given[wrong]!r}, the simulator put it into slot {truth[wrong]}. Write down the order of "
        "loading (K of the last block, V of the last block, K of the one before, …) and count."
    )


#: Memory twice as far away, and room for a longer ring than a real SM has.
FAR = B200.with_constants(
    tma_l2_latency_cycles=2 * B200.tma_l2_latency_cycles, smem_bytes_per_cta=2 * 232_448
)
SLOTS = (2, 3, 4, 5, 6)


@cache
def far_ring(kv_stages: int) -> tuple[float, float]:
    """Cycles per block of the example far from memory, and the MMA warp's share of waiting."""
    design = Design.for_problem(EXAMPLE, FAR, kv_stages=kv_stages)
    run = simulate(EXAMPLE, design, FAR, scope="cta")
    waits = {(wait.role, wait.barrier): wait.share for wait in run.report.waits}
    return steady_state(run.trace).period, waits.get(("mma", "load_KV_full"), 0.0)


def check_slots_needed(kv_stages: int | None) -> Answer:
    """Exercise 1.2: the fewest slots with which a slower memory costs (almost) no time."""
    if kv_stages is None:
        return UNANSWERED
    if wrong := _not_offered(kv_stages, SLOTS):
        return wrong
    best = min(far_ring(n)[0] for n in SLOTS)
    enough = next(n for n in SLOTS if far_ring(n)[0] <= 1.01 * best)
    cycles, share = far_ring(kv_stages)
    if kv_stages < enough:
        return _wrong(
            f"With {kv_stages} slots the MMA warp waits {share:.0%} of its life for load_KV_full, "
            f"and a block takes {cycles:,.0f} cycles; {best:,.0f} are possible. A load is on its "
            "way for longer now: how many loads must be on their way at once?"
        )
    if kv_stages > enough:
        return _wrong(
            f"{kv_stages} slots are enough: {cycles:,.0f} cycles per block. But a slot costs "
            "32 KiB of shared memory; fewer slots do just as well."
        )
    return Answer(
        True,
        f"{enough} slots: {cycles:,.0f} cycles per block, within 1% of the best. The farther the "
        "memory, the more tiles must be on their way at the same time.",
    )


# -- 02: barriers and phases -----------------------------------------------------------------------


def check_parity(wait_parity: Callable[[str, int], int | None]) -> Answer:
    """Exercise 2.1: ``wait_parity(role, n)`` for the n-th use of a slot, n = 0, 1, 2, …"""
    try:
        given = {role: [wait_parity(role, n) for n in range(6)] for role in ("load", "mma")}
    except Exception as error:
        return _raised(error)
    if all(value is None for values in given.values() for value in values):
        return UNANSWERED
    for role, values in given.items():
        if any(np.ndim(value) or value not in (0, 1) for value in values):
            return _wrong(f"A parity is 0 or 1; for {role} you return {values}.")
    for first in ("mma", "load"):
        trouble = play_slot(given["load"], given["mma"], first)
        if trouble:
            return _wrong(
                f"{trouble} (You return {given['load']} for load, {given['mma']} for mma.)"
            )
    return Answer(
        True,
        "Six tiles pass through the slot, whoever runs first. The producer starts with 1, the "
        "consumer with 0, and both flip each time round.",
    )


def play_slot(load: list[int], mma: list[int], first: str) -> str:
    """Pass tiles through one slot with these parities; '' if nothing goes wrong."""
    completions = {"full": 0, "empty": 0}
    done = {"load": 0, "mma": 0}
    slot = -1

    def can_go(role: str) -> bool:
        if done[role] == len(load):
            return False
        parity = (load if role == "load" else mma)[done[role]]
        return completions["empty" if role == "load" else "full"] % 2 != parity

    order = ("load", "mma") if first == "load" else ("mma", "load")
    while role := next((role for role in order if can_go(role)), ""):
        number = done[role]
        if role == "load":
            if number > done["mma"]:
                return (
                    f"load overwrites tile {slot} with tile {number} before mma has read it: its "
                    f"wait number {number} let it pass too early."
                )
            slot = number
            completions["full"] += 1
        else:
            if slot != number:
                found = "an empty slot" if slot < 0 else f"tile {slot}"
                return f"mma wants tile {number} and reads {found}: its wait let it pass too early."
            completions["empty"] += 1
        done[role] += 1
    if done == {"load": len(load), "mma": len(mma)}:
        return ""
    at = {role: number for role, number in done.items() if number < len(load)}
    text = " and ".join(f"{role} stands at its wait number {n}" for role, n in at.items())
    if done["load"] == 0:
        text += ". Nobody has ever arrived on empty, so load must be let through the first time"
    return f"Deadlock: {text}."


_MYSTERY = Fault("drop_arrival", "P_full_O_rescaled", 0, "correction")


def mystery_design() -> Design:
    """Exercise 2.2: the example's design with one thing broken. Run it; don't print it."""
    return replace(Design.for_problem(EXAMPLE, B200), faults=(_MYSTERY,))


def _who(spec: BarrierSpec) -> tuple[str, ...]:
    return (*spec.parties, *spec.waiters)


def check_mystery(
    barrier: str | None = None, role: str | None = None, what: str | None = None
) -> Answer:
    """Exercise 2.2: which barrier is broken, who forgot something, and what.

    ``what`` is "arrival", "wait" or "count".
    """
    if barrier is None or role is None or what is None:
        return UNANSWERED
    for word in (barrier, role, what):
        if not isinstance(word, str):
            return _wrong(f"{word!r} is no name; give the three answers as text, in quotes.")
    table = barrier_table(Design.for_problem(EXAMPLE, B200))
    name = barrier.partition("[")[0]
    if name not in table:
        return _wrong(f"There is no barrier {barrier!r}; the report spells their names out.")
    if what not in ("arrival", "wait", "count"):
        return _wrong(f"what={what!r} must be 'arrival', 'wait' or 'count'.")
    if name != _MYSTERY.barrier:
        return _wrong(
            f"Somebody stands at {name}, but as a victim: its arrivals come from "
            f"{', '.join(sorted(table[name].parties))}, and whoever owes them stands elsewhere. "
            "Follow the circle, and look for the barrier with some arrivals but not all."
        )
    if what == "wait":
        return _wrong(
            "A missing wait lets somebody through too early; it shows as a hazard. Here everybody "
            "stands still."
        )
    if what == "count":
        return _wrong(
            f"With a wrong count nobody would be missing. Here {table[name].count} arrivals are "
            "expected, as they should be, and half of them are missing."
        )
    stage = barrier.removeprefix(name).strip("[]")
    if stage not in ("", str(_MYSTERY.stage)):
        return _wrong(
            f"{name} is right, but of its two stages it isn't {stage}: where does mma stand?"
        )
    if role not in (roles := {who for each in table.values() for who in _who(each)}):
        return _wrong(f"There is no role {role!r}; there are {', '.join(sorted(roles))}.")
    if role != _MYSTERY.role:
        return _wrong(
            f"{name}[0] is right and the kind of fault too, but {role} did its part. Read who is "
            "listed as missing."
        )
    return Answer(
        True,
        f"correction never arrives on {name}[0], so the MMA warp never learns that O is free to be "
        "added to. Softmax did its half; that is why half of the arrivals were there.",
    )


# -- 03: online softmax ----------------------------------------------------------------------------


#: Maxima and sums of two parts: either may have the larger maximum.
MERGES = ((3.0, 5.0, 1.0, 2.0), (1.0, 2.0, 3.0, 5.0), (-4.5, 1.25, 6.0, 3.0), (2.0, 1.0, 2.0, 7.0))


def check_merge(merge: Callable[..., Any]) -> Answer:
    """Exercise 3.1: ``merge(m1, l1, m2, l2)`` joins two partial row sums, in powers of two."""
    given = []
    for case in MERGES:
        try:
            with np.errstate(all="ignore"):
                pair = merge(*case)
        except Exception as error:
            return _raised(error)
        if pair is None:
            return UNANSWERED
        try:
            m, total = (float(value) for value in pair)
        except (TypeError, ValueError):
            return _wrong(f"Return a pair (m, l) of numbers, not {pair!r}.")
        given.append((m, total))
    message = _merge_message(given)
    if message:
        return _wrong(message)
    for case in ((-math.inf, 0.0, 2.0, 3.0), (2.0, 3.0, -math.inf, 0.0)):
        message = _merge_infinite(merge, case)
        if message:
            return _wrong(message)
    if _merge_infinite(merge, (-math.inf, 0.0, -math.inf, 0.0)):
        return _wrong(
            "Two parts that have seen nothing, maximum −inf and sum 0 each, give a NaN: "
            "−inf − (−inf) is not a number. The kernel uses 0 as the reference while the maximum "
            "is −inf (m_safe); return (−inf, 0) there."
        )
    return Answer(
        True,
        "Merging is exact, works in any order, and a part that has seen nothing changes nothing. "
        "This is all that online softmax does, block after block.",
    )


def _merge_message(given: list[tuple[float, float]]) -> str:
    """What is wrong with the results of all :data:`MERGES`; '' if nothing."""

    def all_like(rule: Callable[[float, float, float, float, float], float]) -> bool:
        return all(
            math.isclose(total, rule(*case, max(case[0], case[2])), rel_tol=1e-6)
            for case, (_, total) in zip(MERGES, given, strict=True)
        )

    if all_like(lambda m1, l1, m2, l2, m: l1 + l2):
        return (
            "You add the two sums as they are. Each is relative to its own maximum; bring both to "
            "the new one first."
        )
    if all_like(lambda m1, l1, m2, l2, m: l1 * math.exp(m1 - m) + l2 * math.exp(m2 - m)):
        return "The maxima are in powers of two here, so scale with 2**, not with e."
    if all_like(lambda m1, l1, m2, l2, m: l1 * 2 ** (m1 - m) + l2) or all_like(
        lambda m1, l1, m2, l2, m: l1 + l2 * 2 ** (m2 - m)
    ):
        return (
            "You rescale only one of the two sums. The one with the smaller maximum has to shrink, "
            "and that may be either."
        )
    if all_like(lambda m1, l1, m2, l2, m: l1 * 2 ** (m - m1) + l2 * 2 ** (m - m2)):
        return "The factor is upside down; it is 2**(old maximum − new maximum), at most 1."
    for case, (m, total) in zip(MERGES, given, strict=True):
        m1, l1, m2, l2 = case
        exact = l1 * 2**m1 + l2 * 2**m2
        value = total * 2**m if abs(m) < 200 else math.nan
        if not math.isclose(value, exact, rel_tol=1e-6):
            return (
                f"merge{case} gives {total:.6g} relative to {m:g}, which stands for {value:.6g}; "
                f"the two parts stand for {exact:.6g} together."
            )
        if m != max(m1, m2):
            return (
                f"merge{case} gives the right sum relative to {m:g}, but the new reference should "
                f"be the larger maximum, {max(m1, m2):g}: relative to a smaller one sums grow out "
                "of range."
            )
    return ""


def _merge_infinite(merge: Callable[..., Any], case: tuple[float, float, float, float]) -> str:
    """What is wrong with merging parts of which one or both have seen nothing; '' if nothing."""
    m1, l1, m2, l2 = case
    try:
        with np.errstate(all="ignore"):
            m, total = (float(value) for value in merge(m1, l1, m2, l2))
    except Exception as error:
        return f"merge{case} raised {type(error).__name__}: {error}"
    if m == max(m1, m2) and math.isclose(total, l1 + l2):  # the part that saw nothing adds 0
        return ""
    return (
        f"merge{case} gives ({m}, {total}). A part with maximum −inf and sum 0 has seen nothing "
        "and must change nothing."
    )


def _is_threshold(given: object) -> bool:
    """Whether it is a whole number for which 2**(8 + given) can be told."""
    return isinstance(given, int | float) and given in range(1001)


def check_thresholds(fp16: int | None = None, e4m3: int | None = None) -> Answer:
    """Exercise 3.2: the largest safe whole threshold for two formats of P.

    ``fp16``: with weights up to 2**threshold. ``e4m3``: with weights up to 2**(8 + threshold),
    since the kernel adds 8 to the exponents of FP8.
    """
    if fp16 is None or e4m3 is None:
        return UNANSWERED
    lines = []
    for name, given, offset, largest in (
        ("fp16", fp16, 0, float(LARGEST["fp16"])),
        ("e4m3", e4m3, 8, E4M3_LARGEST),
    ):
        if not _is_threshold(given):
            return _wrong(f"{name}={given!r}: give a whole number, 0 to 1000.")
        reach, best = 2.0 ** (offset + given), math.floor(math.log2(largest)) - offset
        if reach > largest:
            hint = " Did you forget the offset of 8?" if offset and given == best + offset else ""
            becomes = f"{largest:,.0f}" if name == "e4m3" else "infinite"
            return _wrong(
                f"{name}={given}: a weight may then reach 2**{offset + int(given)} = {reach:,.0f}, "
                f"and the largest {name} number is {largest:,.0f}. It would become {becomes}, and "
                f"the row would be wrong.{hint}"
            )
        if given < best:
            return _wrong(
                f"{name}={given} is safe, but not the largest: 2**{offset + int(given)} = "
                f"{reach:,.0f} leaves room below {largest:,.0f}."
            )
        lines.append(f"{name} {best}")
    return Answer(
        True,
        f"{' and '.join(lines)}. For bf16 and fp16 the kernel stays at 8, well inside; for e4m3 it "
        "uses 0 and so rescales whenever a maximum grows.",
    )


#: The largest finite number of FP8 e4m3.
E4M3_LARGEST = 448.0


# -- 04: MUFU or FMA -------------------------------------------------------------------------------


def check_split(split: Callable[[float], Any]) -> Answer:
    """Exercise 4.1: ``split(x)`` is ``(whole, fraction)`` with a fraction from 0 up to 1."""
    for x in (2.75, 0.0, -0.25, -3.0, -7.6, 5.0, -126.5):
        try:
            given = split(x)
        except Exception as error:
            return _raised(error)
        if given is None:
            return UNANSWERED
        try:
            whole, fraction = (float(value) for value in given)
        except (TypeError, ValueError):
            return _wrong(f"Return a pair (whole, fraction), not {given!r}.")
        if whole != math.floor(whole):
            return _wrong(
                f"split({x}): {whole} is no whole number, so it cannot become exponent bits."
            )
        if not math.isclose(whole + fraction, x, abs_tol=1e-9):
            return _wrong(f"split({x}): {whole} + {fraction} is not {x}, so 2**x comes out wrong.")
        if fraction < 0 and whole == math.ceil(x):
            how = "truncates towards zero" if abs(whole) <= abs(x) else "rounds up"
            return _wrong(
                f"split({x}) gives the fraction {fraction:g}: {how}. The polynomial is fitted on "
                "[0, 1) and knows nothing of negative fractions; exponents in softmax are almost "
                "all negative, so this matters."
            )
        if not 0 <= fraction < 1:
            return _wrong(f"split({x}): the fraction {fraction:g} is outside [0, 1).")
    return Answer(
        True,
        "The whole part goes into the exponent bits, the fraction into the polynomial. The kernel "
        "gets both from one addition that rounds down.",
    )


#: The example with twice the queries, which the kernel gives to a pair of CTAs, and longer.
PAIR = Problem(seqlen_q=512, seqlen_k=4096)
#: A GPU whose MUFU is half as slow again as a B200's.
SLOW_MUFU = B200.with_constants(mufu_cycles_per_warp=1.5 * B200.mufu_cycles_per_warp)
PERIODS = (0, 32, 16, 12, 10, 8, 6, 5, 4)


@cache
def pair_cycles(period: int, machine: Machine) -> float:
    """Cycles per K/V block of a CTA pair with this period of emulated columns."""
    design = Design.for_problem(PAIR, machine, exp2_period=period)
    return steady_state(simulate(PAIR, design, machine, scope="cta").trace).period


def fragment_cycles(emulated: int, machine: Machine) -> tuple[float, float]:
    """Cycles of MUFU and of FMA units for one warp's 32 columns, ``emulated`` of them on FMA."""
    scale = FRAGMENT / 2 * machine.fma_packed_cycles_per_warp
    mufu = (FRAGMENT - emulated) * machine.mufu_cycles_per_warp
    return mufu, scale + emulated * machine.exp2_polynomial_fma_cycles_per_warp


def check_period(period: int | None) -> Answer:
    """Exercise 4.2: the period with which a CTA pair is fastest if the MUFU is slower."""
    if period is None:
        return UNANSWERED
    if wrong := _not_offered(period, PERIODS):
        return wrong
    cycles = {n: pair_cycles(n, SLOW_MUFU) for n in PERIODS}
    best = min(cycles, key=lambda n: cycles[n])
    design = Design.for_problem(PAIR, SLOW_MUFU, exp2_period=period)
    emulated = design.emulated_in_fragment(design.exp2_first_fragment)
    mufu, fma = fragment_cycles(emulated, SLOW_MUFU)
    balance = (
        f"{emulated} of 32 columns emulated give the MUFU {mufu:,.0f} cycles and the FMA units "
        f"{fma:,.0f}"
    )
    behind = cycles[period] / cycles[best] - 1
    if behind <= 0.02:
        return Answer(
            True,
            f"{balance}, and a block takes {cycles[period]:,.0f} cycles, "
            f"{cycles[0] - cycles[period]:,.0f} fewer than without emulation.",
        )
    more = "MUFU holds" if mufu > fma else "FMA units hold"
    return _wrong(
        f"{balance}: the {more} the fragment up. A block takes {cycles[period]:,.0f} cycles, "
        f"{behind:.1%} more than with the best of these periods."
    )


# -- 07: a kernel in the emulator ------------------------------------------------------------------

#: Sizes m, n and k of the product that the kernel computes: three tiles, five blocks each.
PRODUCT = (384, 128, 320)
ORDERS = ("lockstep", 1, 2)
_TOO_MANY = 49_152


@cache
def _ring() -> tuple[Any, Any]:
    """The example kernel, compiled, and what its text tells."""
    from fa4kernel.emulator import inspect
    from fa4kernel.examples import ring

    compiled = ring.compile_ptx()
    return compiled, inspect(compiled.ptx)[0]


def mystery_kernel(announced: int = _TOO_MANY) -> str:
    """Exercise 7.1: the PTX with one number changed. Run it; don't print it."""
    from fa4kernel.emulator.ptx.printer import replace_instruction

    compiled, kernel = _ring()
    sites = (site for each in kernel.mbarriers if each.family == "full" for site in each.sites)
    expect = next(site.instruction for site in sites if site.way == "expect")
    changed = f"{expect.text.rpartition(',')[0]}, {announced};"
    return replace_instruction(compiled.ptx, expect, changed)


def hasty_kernel(statement: str | None = None) -> str:
    """Exercise 7.2: the PTX with one statement taken out, or another one in its place."""
    from fa4kernel.emulator.ptx.printer import replace_instruction

    compiled, kernel = _ring()
    code = kernel.function.instructions
    wait = next(each for each in code if each.text.startswith("cp.async.bulk.wait_group"))
    return replace_instruction(compiled.ptx, wait, statement)


def _trouble(ptx: str, schedule: str | int) -> str:
    """What is wrong with a run of a version of the example kernel; '' if nothing."""
    from fa4kernel.emulator import DeadlockError, EmulationError, emulate
    from fa4kernel.emulator.tensor.formats import decode
    from fa4kernel.examples import matrices, ring

    m, n, k = PRODUCT
    rng = np.random.default_rng(0)
    a, b = (matrices.matrix(rng.integers(-1, 2, (rows, k))) for rows in (m, n))
    c = matrices.matrix(np.zeros((m, n)))
    launch = _ring()[0].launch(a, b, c, ctas=1)
    try:
        run = emulate(ptx, launch, schedule=schedule, most_steps=50_000)
    except DeadlockError as error:
        if error.hazards:
            return f"{_hazard_words(error.hazards[0])}. In the end nothing can go on"
        stuck = next((w for w in error.waits if w.arrived == w.expected), error.waits[0])
        return f"nothing can go on. {stuck.who} {'; '.join(s.strip() for s in stuck.lines()[1:3])}"
    except EmulationError as error:
        return str(error).splitlines()[0]
    if run.hazards:
        return _hazard_words(run.hazards[0])
    wrong = int((decode(c, "bf16") != ring.reference(a, b)).sum())
    return f"{wrong:,} numbers of C are wrong" if wrong else ""


def _hazard_words(hazard: Any) -> str:
    """A hazard in one line, the parties without their instructions."""
    first = f"{hazard.first.who}, then " if hazard.first is not None else ""
    return f"{hazard.kind}: {hazard.message} ({first}{hazard.second.who})"


def check_announcement(barrier: str | None = None, announced: int | None = None) -> Answer:
    """Exercise 7.1: at which barrier a number is wrong, and how many bytes to announce there."""
    if barrier is None or announced is None:
        return UNANSWERED
    if not isinstance(barrier, str):
        return _wrong(f"{barrier!r} is no name; give the name of the barrier as text, in quotes.")
    if not isinstance(announced, int) or isinstance(announced, bool):
        return _wrong(f"announced={announced!r}: give a whole number of bytes.")
    name = barrier.partition("[")[0]
    names = {each.family for each in _ring()[1].mbarriers}
    if name not in names:
        return _wrong(f"There is no barrier {barrier!r}; the report tells of {sorted(names)}.")
    if name != "full":
        return _wrong(
            f"Somebody may stand at {name}, but as a victim: arrivals are missing there, and who "
            "owes them stands elsewhere. Look for a barrier at which all arrivals have come, and "
            "whose phase is not complete all the same."
        )
    trouble = _trouble(mystery_kernel(announced), "lockstep")
    if trouble:
        return _wrong(
            f"full is right. But with {announced:,} bytes announced: {trouble}. How many bytes do "
            "the two tiles of a slot have?"
        )
    return Answer(
        True,
        f"{announced:,} bytes are what lands: a tile of A and one of B, 128 × 64 numbers of two "
        "bytes each. All arrivals had come, but a phase waits for its bytes as well.",
    )


def check_repair(statement: str | None = None) -> Answer:
    """Exercise 7.2: the statement of PTX that is missing, tried out in some orders of events."""
    from fa4kernel.emulator.ptx.module import PtxError

    if statement is None:
        return UNANSWERED
    if not isinstance(statement, str) or "\n" in statement:
        return _wrong(f"{statement!r}: give one line of PTX as text, in quotes.")
    try:
        for schedule in ORDERS:
            trouble = _trouble(hasty_kernel(statement), schedule)
            if trouble:
                hint = _repair_hint(statement)
                return _wrong(f"With it, under schedule {schedule!r}: {trouble}.{hint}")
    except PtxError as error:
        return _wrong(f"The emulator refuses it. {error}")
    more = "" if ".read" in statement else (
        " Yours waits even until C has been written; that the tile has been read is enough (.read)."
    )  # fmt: skip
    return Answer(
        True,
        f"Nothing to report under {len(ORDERS)} schedules. The thread that issued the stores waits "
        f"until they have read the tile; then the other warps learn it at their barrier.{more}",
    )


def _repair_hint(statement: str) -> str:
    """What a statement does instead of what is wanted."""
    hints = {
        "bar": " Only one of the four epilogue warps passes this place; the others don't come.",
        "fence": " A fence orders what this thread did before; it does not wait for a copy.",
        "cp.async.bulk.commit": " A commit closes a group of copies; it does not wait for it.",
        "cp.async.bulk.wait": " Its number says how many groups may still be under way.",
        "nanosleep": " Time is no order: nothing says that the copy is faster.",
    }
    return next((hint for start, hint in hints.items() if statement.startswith(start)), "")


# -- 08: the real kernel ---------------------------------------------------------------------------

_BLOCKS = (1, 2, 3)


def check_pair(arrivals: int | None = None, announced: int | None = None) -> Answer:
    """Exercise 8.1: of a pair, arrivals at P_full_O_rescaled, bytes of K at load_KV_full."""
    if arrivals is None or announced is None:
        return UNANSWERED
    for said in (arrivals, announced):
        if _no_number(said):
            return _wrong(f"{said!r} is no number; give two whole numbers, without quotes.")
    from fa4kernel.forward.barrier_table import table
    from fa4kernel.forward.config import Config

    cfg = Config(cta_group=2)
    _, right = table(cfg)["P_full_O_rescaled"]
    if arrivals != right:
        return _wrong(
            f"{arrivals:,} arrivals: the leader's MMA warp works for both CTAs, so it must hear of "
            "all rows, and of each from two threads."
        )
    bytes_ = cfg.k_bytes * cfg.cta_group
    if announced != bytes_:
        return _wrong(
            f"{announced:,} bytes: a CTA loads {cfg.k_rows} of the 128 keys, of 128 numbers of two "
            "bytes. Whose bytes does the leader's barrier count?"
        )
    return Answer(
        True,
        f"{right} threads: softmax and correction of both CTAs. {bytes_:,} bytes: two halves of "
        f"{cfg.k_bytes:,}, one landing in each CTA, both counted at the leader.",
    )


@cache
def _real_order(blocks: int) -> tuple[str, ...]:
    """MMAs of one tile in the order in which the compiled kernel issues them."""
    from workbench import Workbench

    from fa4sim.views.aligned import issue_times

    bench = Workbench(Problem(seqlen_q=256, seqlen_k=128 * blocks))
    times = issue_times(bench.told(bench.run(trace=True).run.trace), 0)
    return tuple(f"{op}{stage}" for op, _, _, stage in sorted(times, key=lambda key: times[key]))


def check_order(mma_order: Callable[[int], Any]) -> Answer:
    """Exercise 8.2: the MMAs of a tile in the order of issue."""
    for blocks in _BLOCKS:
        try:
            said = mma_order(blocks)
        except Exception as error:
            return _wrong(f"mma_order({blocks}) raised {type(error).__name__}: {error}")
        if said is None:
            return UNANSWERED
        real = _real_order(blocks)
        if not isinstance(said, (list, tuple)) or not all(isinstance(name, str) for name in said):
            return _wrong(f"mma_order({blocks}) gave {said!r}; give a list of names like 'QK0'.")
        for i, (mine, true) in enumerate(zip(said, real, strict=False)):
            if mine != true:
                before = " ".join(real[max(0, i - 2) : i]) or "the beginning"
                return _wrong(
                    f"With {blocks} blocks, after {before}, you say {mine}; the kernel issues "
                    f"{true}. Which of the two has what it needs earlier?"
                )
        if len(said) != len(real):
            return _wrong(
                f"With {blocks} blocks you name {len(said)} MMAs; the kernel issues {len(real)}: "
                "for every block two products in each stage."
            )
    return Answer(
        True,
        "As the compiled kernel does with 1, 2 and 3 blocks. QK of the next block stands behind PV "
        "of the same stage, so while softmax of one stage works, the tensor core has the other's.",
    )


# -- 09: the cross-check ---------------------------------------------------------------------------


@cache
def _crossbench(queries: int = 512, keys: int = 512) -> Any:
    """The kernel of notebook 09."""
    from crossbench import Crossbench

    return Crossbench(Problem(seqlen_q=queries, seqlen_k=keys))


def mystery_design_of_simulator() -> dict[str, Any]:
    """Exercise 9.1: what is changed in the simulator's design. Use it; don't print it."""
    return {"epilogue": "correction"}


def check_simulator(field: str | None = None, value: object = None) -> Answer:
    """Exercise 9.1: which field of the design is wrong, and its value in the kernel."""
    if field is None or value is None:
        return UNANSWERED
    bench = _crossbench()
    if not isinstance(field, str) or field not in vars(bench.design):
        return _wrong(f"A design has no field {field!r}; it has {', '.join(vars(bench.design))}.")
    try:
        verdicts = bench.check(**mystery_design_of_simulator() | {field: value})
    except Exception as error:
        return _wrong(f"{field}={value!r}: {type(error).__name__}: {error}")
    left = [part for part in verdicts.values() if not part.agrees]
    if left:
        return _wrong(f"With {field}={value!r} in the simulator: {left[0].words()}")
    if field not in mystery_design_of_simulator():
        return _wrong(f"{field} is the same in both.")
    return Answer(
        True,
        "All parts agree. The simulator let the correction store O itself, and meet at the barrier "
        "Epilogue before it; in the kernel it hands O to the epilogue warp, which uses the TMA.",
    )


def check_loaded(bytes_loaded: Callable[[int, int], Any]) -> Answer:
    """Exercise 9.2: bytes that TMA loads."""
    for queries, keys in ((256, 256), (512, 512), (300, 200)):
        try:
            said = bytes_loaded(queries, keys)
        except Exception as error:
            return _wrong(f"bytes_loaded({queries}, {keys}): {type(error).__name__}: {error}")
        if said is None:
            return UNANSWERED
        if _no_number(said):
            return _wrong(f"Return a number of bytes, not {said!r}.")
        bench = _crossbench(queries, keys)
        amounts = bench.run.record.amounts["bytes loaded"]
        if said != amounts:
            return _wrong(
                f"{queries} queries, {keys} keys: you say {said:,}, kernel and simulator load "
                f"{amounts:,}. How many tiles are there, how many blocks has each, and what does "
                "a tile of 128 rows take?"
            )
    return Answer(
        True,
        "Every tile loads all of K and V again: more queries, more bytes. In the GPU most of them "
        "come from L2.",
    )


# -- 10: break it ----------------------------------------------------------------------------------

#: The barrier of exercise 10.1 with its wrong count, and the right one.
_BARRIER, _WRONG, _RIGHT = "softmax_stats_empty", 160, 128
#: Keys that exercise 10.2 shows every row too many.
_TOO_MANY_KEYS = 1


@cache
def _bench(causal: bool = False) -> Any:
    """The kernel of notebook 10."""
    from workbench import Workbench

    return Workbench(Problem(seqlen_q=256, seqlen_k=512, causal=causal))


def mystery_forward(barrier: str = _BARRIER, arrivals: int = _WRONG) -> str:
    """Exercise 10.1: the PTX of our kernel with one count changed. Run it; don't print it."""
    return str(_bench().with_count(barrier, arrivals))


def crooked_output() -> Any:
    """Exercise 10.2: O, float32 (1, 256, 1, 128), of a launch with a mask that is a little off."""
    return _bench(causal=True).run(window=(None, _TOO_MANY_KEYS)).out


def check_count(barrier: str | None = None, arrivals: int | None = None) -> Answer:
    """Exercise 10.1: at which barrier a count is wrong, and what it should be."""
    if barrier is None or arrivals is None:
        return UNANSWERED
    name = str(barrier).partition("[")[0]
    counts = _bench().counts()
    if name not in counts:
        return _wrong(f"There is no barrier {barrier!r} in this kernel; it has {[*counts]}.")
    if not isinstance(arrivals, int) or isinstance(arrivals, bool) or arrivals < 1:
        return _wrong(f"arrivals={arrivals!r}: give a whole number, at least 1.")
    if name != _BARRIER:
        return _wrong(
            f"The count of {name} is {counts[name]}, as it should be. Who stands there is a "
            "victim, or waits for one. Look for a barrier at which some have come, and too few."
        )
    trouble = _forward_trouble(mystery_forward(name, arrivals))
    if trouble:
        return _wrong(f"{name} is right. But with {arrivals:,} arrivals: {trouble}.")
    return Answer(
        True,
        f"All {arrivals} threads of the correction arrive when they have read a factor of a row; "
        f"with {_WRONG} a phase waits for threads that don't exist.",
    )


def _forward_trouble(ptx: str) -> str:
    """What is wrong with a run of a version of our kernel; '' if nothing."""
    from fa4kernel.emulator import DeadlockError

    try:
        tried = _bench().run(ptx)
    except DeadlockError as error:
        here = next((w for w in error.waits if w.on.startswith(_BARRIER)), error.waits[0])
        return f"it hangs, {here.role} at {here.on} with {here.arrived} of {here.expected} arrivals"
    if tried.kinds:
        return f"it ends, and the checks report {', '.join(tried.kinds)}"
    return "" if tried.error < 0.01 else f"the error of O is {tried.error:.3f}"


def check_mask(keys_too_many: int | None = None) -> Answer:
    """Exercise 10.2: how many keys too many each row sees."""
    if keys_too_many is None:
        return UNANSWERED
    if not isinstance(keys_too_many, int) or isinstance(keys_too_many, bool):
        return _wrong(f"keys_too_many={keys_too_many!r}: give a whole number, perhaps negative.")
    bench, out = _bench(causal=True), crooked_output()
    guess = bench.attention((None, keys_too_many))
    off = float(np.linalg.norm(out - guess) / np.linalg.norm(guess))
    if off < 0.01:
        return Answer(
            True,
            f"Attention with {keys_too_many} more is {off:.4f} away from this O, as near as bf16 "
            "allows: each row sees one key of the future. A single row shows it best: the one with "
            "the largest error gives much weight to that key.",
        )
    return _wrong(f"Attention with {keys_too_many:+d} keys is {off:.3f} away from this O.")


# -- 15: held against a GPU ------------------------------------------------------------------------

#: Tiles, blocks, cycles of a block, clock; the second leaves most SMs without a tile.
_WAVES = ((4096, 32, 2500.0, 1.7e9), (64, 8, 2600.0, 1.9e9), (133, 4, 3000.0, 1.8e9))


def check_time(milliseconds: Callable[[int, int, float, float], Any]) -> Answer:
    """Exercise 15.1: the time of so many tiles on 132 SMs."""
    from fa4sim import H200

    for tiles, blocks, cycles, clock in _WAVES:
        try:
            said = milliseconds(tiles, blocks, cycles, clock)
        except Exception as error:
            return _raised(error)
        if said is None:
            return UNANSWERED
        if _no_number(said):
            return _wrong(f"Return a number of milliseconds, not {said!r}.")
        one = blocks * cycles / clock * 1e3  # a tile, in ms
        right = -(-tiles // H200.sms) * one
        if not math.isclose(said, right, rel_tol=1e-6):
            hints = {
                tiles / H200.sms * one:
                    "Two SMs cannot share a tile: how many tiles has the SM with the most?",
                tiles // H200.sms * one:
                    "You round down; who computes the tiles that are left?",
                right / 1e3: "Cycles by clock are seconds, and milliseconds are asked for.",
                -(-tiles // B200.sms) * one: "An H200 has 132 SMs; 148 are a B200's.",
                tiles * one: "That is one SM doing everything.",
            }  # fmt: skip
            hint = next(
                (text for ms, text in hints.items() if math.isclose(said, ms, rel_tol=1e-6)),
                "How many tiles has the SM with the most, and how many blocks are those?",
            )
            return _wrong(
                f"{tiles:,} tiles of {blocks} blocks, {cycles:,.0f} cycles each at "
                f"{clock / 1e9:g} GHz: you say {said:.4g} ms, it is {right:.4g} ms. {hint}"
            )
    return Answer(
        True,
        "The SM with the most tiles decides. With 64 tiles half of the SMs have nothing to do, and "
        "133 tiles take as long as 264. What is left out, the start of the kernel and of each "
        "tile, is what the simulator knows too little of.",
    )


def check_beside(beside: Callable[[Any, Any], Any]) -> Answer:
    """Exercise 15.2: the part of two consumers' softmax that computes beside the other's."""
    from fa4kernel.bench.stored_traces import stored_traces
    from fa4kernel.hopper.traced import shared_softmax

    traces = {name: each.trace() for name, each in stored_traces().items()}
    shares = {}
    for name, trace in traces.items():
        spans = trace.span.where(op="softmax")
        if "consumer2" in spans.unique("role"):
            continue  # three are another question
        bars = [
            [
                (int(row["start"]), int(row["end"]))
                for row in spans.where(role=f"consumer{i}").rows()
            ]
            for i in range(2)
        ]
        try:
            said = beside(*bars)
        except Exception as error:
            return _raised(error)
        if said is None:
            return UNANSWERED
        if _no_number(said):
            return _wrong(f"Return a number from 0 to 1, not {said!r}.")
        shares[name] = shared_softmax(trace)
        if not math.isclose(said, shares[name], abs_tol=1e-6):
            hint = (
                "Cycles beside each other are cycles of both: count them for each of the two."
                if math.isclose(2 * said, shares[name], abs_tol=1e-6)
                else "Two bars share what lies between the later start and the earlier end."
            )
            return _wrong(f"{name}: you say {said:.3f}, it is {shares[name]:.3f}. {hint}")
    words = "; ".join(f"{name}: {share:.0%}" for name, share in shares.items())
    return Answer(True, f"{words}. Turns and overlap decide who computes when.")
