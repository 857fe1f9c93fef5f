"""Checks of the exercises about the pipeline as a whole and the whole GPU."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
from checks import UNANSWERED, Answer, _no_number, _not_offered, _raised, _several, _wrong
from lab import SLICE_SMS, kernel_lab, serving_lab

from fa4sim import B200, Design, Machine, Problem, simulate
from fa4sim.analysis import steady_state

#: The example with twice the queries, and longer: a pair of CTAs.
PAIR = Problem(seqlen_q=512, seqlen_k=4096)

# -- 05: the pipeline as a whole -------------------------------------------------------------------

#: One block of one Q tile in rough numbers, with nothing beside it.
BLOCK_CYCLES = {"load K": 300, "load V": 300, "QK": 512, "softmax": 1300, "PV": 512}
BLOCK_AFTER: dict[str, tuple[str, ...]] = {
    "load K": (), "load V": (), "QK": ("load K",), "softmax": ("QK",),
    "PV": ("softmax", "load V"),
}  # fmt: skip


def _graphs() -> list[tuple[dict[str, int], dict[str, tuple[str, ...]]]]:
    """The block, two steps that meet, and a few graphs drawn at random, in no special order."""
    rng = np.random.default_rng(5)
    graphs = [
        (BLOCK_CYCLES, BLOCK_AFTER),
        ({"a": 5, "b": 7, "c": 1}, {"a": (), "b": (), "c": ("a", "b")}),
    ]
    for _ in range(6):
        names = [f"op{i}" for i in range(8)]
        after = {
            name: tuple(other for other in names[:i] if rng.random() < 0.4)
            for i, name in enumerate(names)
        }
        order = [str(name) for name in rng.permutation(names)]
        graphs.append((
            {name: int(rng.integers(1, 100)) for name in order}, {n: after[n] for n in order}
        ))  # fmt: skip
    return graphs


def _longest(cycles: Mapping[str, int], after: Mapping[str, Sequence[str]]) -> int:
    done: dict[str, int] = {}

    def end(name: str) -> int:
        if name not in done:
            done[name] = cycles[name] + max(map(end, after[name]), default=0)
        return done[name]

    return max(map(end, cycles))


def check_longest(longest: Callable[[dict[str, int], dict[str, tuple[str, ...]]], Any]) -> Answer:
    """Exercise 5.1: the least time in which all steps can be done, if nothing else is in the way.

    ``longest(cycles, after)``: cycles by step, and the steps that must be done before each.
    """
    for cycles, after in _graphs():
        try:
            given = longest(dict(cycles), dict(after))
        except RecursionError:
            return _wrong("Your function calls itself without end; a step without any step before "
                          "it must end the chain.")  # fmt: skip
        except Exception as error:
            return _raised(error)
        if given is None:
            return UNANSWERED
        if wrong := _several(given):
            return wrong
        truth = _longest(cycles, after)
        if given != truth:
            return _wrong(_longest_message(given, truth, cycles, after))
    return Answer(
        True,
        f"A block of one Q tile takes {_longest(BLOCK_CYCLES, BLOCK_AFTER):,} cycles this way, "
        "however many units there are: shortening a step off the chain would change nothing. (In "
        "the kernel it takes less, since loads run ahead; that takes one step off the chain.)",
    )


def _longest_message(
    given: Any, truth: int, cycles: Mapping[str, int], after: Mapping[str, Sequence[str]]
) -> str:
    if given == sum(cycles.values()):
        return (
            "You add everything up, as if only one thing could happen at a time. Steps that don't "
            "wait for each other may run side by side: only the longest chain counts."
        )
    if given == max(cycles.values()):
        return "That is the longest single step. It cannot begin before those that it waits for."
    last = list(cycles)[-1]
    if given == _longest({n: cycles[n] for n in _before(last, after)}, after):
        return f"You stop at {last!r}, the last of the list; any step may be the one to end last."
    one_step = max(cycles[n] + max((cycles[b] for b in after[n]), default=0) for n in cycles)
    if given == one_step:
        return "You look one step back. The step before has steps before it, too: go all the way."
    return (
        f"cycles={dict(cycles)}, after={dict(after)}: you say {given!r}, it is {truth:,}. A step "
        "ends its own cycles after the *latest* of those it waits for has ended."
    )


def _before(name: str, after: Mapping[str, Sequence[str]]) -> set[str]:
    return {name}.union(*(_before(other, after) for other in after[name]))


#: Units of an SM that might be built twice as fast, and the constants that say so.
DOUBLED: dict[str, dict[str, float]] = {
    "tensor": {"tensor_flops_per_cycle_16bit": 2 * B200.tensor_flops_per_cycle_16bit},
    "mufu": {"mufu_cycles_per_warp": B200.mufu_cycles_per_warp / 2},
    "fma": {
        name: getattr(B200, name) / 2
        for name in ("fma_cycles_per_warp", "fma_packed_cycles_per_warp",
                     "exp2_polynomial_fma_cycles_per_warp")
    },
    "smem": {"smem_bytes_per_cycle": 2 * B200.smem_bytes_per_cycle},
}  # fmt: skip


@cache
def block_cycles(problem: Problem, machine: Machine | None = None, doubled: tuple[str, ...] = ()
                 ) -> float:  # fmt: skip
    """Cycles per K/V block of B200's design for ``problem``, on a B200 with units twice as fast."""
    constants: dict[str, Any] = {}
    for unit in doubled:
        constants.update(DOUBLED[unit])
    better = B200.with_constants(**constants) if constants else B200
    design = Design.for_problem(problem, B200)
    return steady_state(simulate(problem, design, machine or better, scope="cta").trace).period


def check_doubled(unit: str | None = None) -> Answer:
    """Exercise 5.2: the unit of which twice the speed buys most, for a pair of CTAs."""
    if unit is None:
        return UNANSWERED
    if not isinstance(unit, str) or unit not in DOUBLED:
        return _wrong(f"{unit!r} is not one of {', '.join(DOUBLED)}; give its name in quotes.")
    now = block_cycles(PAIR)
    gains = {name: now / block_cycles(PAIR, doubled=(name,)) - 1 for name in DOUBLED}
    best = max(gains, key=lambda name: gains[name])
    if unit != best:
        return _wrong(
            f"With {unit} twice as fast a block takes {now / (1 + gains[unit]):,.0f} cycles, not "
            f"{now:,.0f}: {gains[unit]:+.1%} speed. Another unit buys {gains[best]:+.1%}. How much "
            "of the critical path is this unit's work, and how much of that would be left?"
        )
    both = now / block_cycles(PAIR, doubled=("tensor", best)) - 1
    return Answer(
        True,
        f"{unit}: {gains[unit]:+.1%}, and no other buys half of that. Twice as fast is far from "
        f"half the time: the rest of the path stays. With the tensor pipe doubled too it is "
        f"{both:+.1%}, though alone that buys {gains['tensor']:+.1%}.",
    )


# -- 06: a whole GPU -------------------------------------------------------------------------------


def _finish(costs: Sequence[int], sms: int) -> int:
    free = [0] * sms
    for cost in costs:
        heapq.heappush(free, heapq.heappop(free) + cost)
    return max(free)


def _lists() -> list[tuple[list[int], int]]:
    rng = np.random.default_rng(6)
    drawn = [([int(c) for c in rng.integers(1, 50, 30)], sms) for sms in (1, 4, 7)]
    return [([4, 4, 4], 2), ([1, 1, 6], 2), ([3], 5), *drawn]


def check_schedule(finish: Callable[[list[int], int], Any]) -> Answer:
    """Exercise 6.1: when ``costs``, handed out in order to whoever is free first, are all done."""
    for costs, sms in _lists():
        try:
            given = finish(list(costs), sms)
        except Exception as error:
            return _raised(error)
        if given is None:
            return UNANSWERED
        if wrong := _several(given):
            return wrong
        truth = _finish(costs, sms)
        if given != truth:
            return _wrong(_schedule_message(given, truth, costs, sms))
    tiles = [n for _ in range(16) for n in range(1, 17)]
    grid, longest_first = finish(list(tiles), 24), finish(sorted(tiles, reverse=True), 24)
    return Answer(
        True,
        f"256 causal tiles of 1 to 16 units on 24 SMs are done after {grid} units in grid order "
        f"and after {longest_first} longest first; less than {sum(tiles) / 24:.1f} is impossible.",
    )


def _schedule_message(given: Any, truth: int, costs: Sequence[int], sms: int) -> str:
    case = f"costs={list(costs)}, sms={sms}"
    if given == sum(costs) / sms or given == -(-sum(costs) // sms):
        return f"{case}: you share the cycles out evenly, but a tile can't be cut: it is {truth}."
    if given == max(sum(costs[i::sms]) for i in range(min(sms, len(costs)))):
        return (
            f"{case}: you deal the tiles out in turn, like cards. An SM that got a short tile is "
            f"free earlier and takes the next: it is {truth}, not {given}."
        )
    if list(costs) != sorted(costs, reverse=True) and given == _finish(
        sorted(costs, reverse=True), sms
    ):
        return f"{case}: you sort the list first. Here they are handed out as they stand: {truth}."
    if given == sum(costs):
        return f"{case}: that is one SM doing everything; the {sms} work at the same time."
    return (
        f"{case}: you say {given!r}, it is {truth}. Keep for every SM the time at which it is "
        "free; the next tile goes to the smallest."
    )


#: Heads to choose from in exercise 6.2.
HEADS = range(33, 65)


@cache
def heads_tflops(heads: int) -> float:
    """TFLOP/s of so many heads of 1,024 × 1,024 on a B200."""
    return simulate(Problem(heads=heads, seqlen_q=1024)).report.tflops


def check_heads(heads: int | None = None) -> Answer:
    """Exercise 6.2: the number of heads in one launch that uses the GPU best."""
    if heads is None:
        return UNANSWERED
    if _no_number(heads) or heads not in HEADS:
        return _wrong(f"{heads!r} is not a whole number from {HEADS[0]} to {HEADS[-1]}.")
    pairs = B200.sms // 2
    full = pairs // 2
    mine, best = heads_tflops(heads), heads_tflops(full)
    if heads < full:
        return _wrong(
            f"{heads} heads are {2 * heads} tiles, and {pairs} run at once: {pairs - 2 * heads} "
            f"pairs of SMs have none. {mine:,.0f} TFLOP/s; there is a better number."
        )
    if heads > full:
        return _wrong(
            f"{heads} heads are {2 * heads} tiles. {pairs} run at once, so the last "
            f"{2 * heads - pairs} have a wave of their own: {mine:,.0f} TFLOP/s. There is a number "
            "that needs one wave only, and gives more."
        )
    return Answer(
        True,
        f"{heads} heads fill all {pairs} pairs once: {best:,.0f} TFLOP/s. One head more gives "
        f"{heads_tflops(heads + 1):,.0f}, and even {HEADS[-1]} heads give only "
        f"{heads_tflops(HEADS[-1]):,.0f}.",
    )


# -- 11: the what-if lab ---------------------------------------------------------------------------

_kernel_lab, _serving_lab = cache(kernel_lab), cache(serving_lab)

#: Knobs of exercise 11.1.
TUNED = ("exp2_period", "rescale_threshold", "p_first_columns")


@cache
def tuned_cycles(exp2_period: Any, rescale_threshold: Any, p_first_columns: Any) -> float:
    """Cycles of the example on a B200 with these settings, for 128 queries."""
    return _kernel_lab().ask(
        exp2_period=exp2_period, rescale_threshold=rescale_threshold,
        p_first_columns=p_first_columns,
    ).cycles  # fmt: skip


def check_tuned(
    exp2_period: Any = None, rescale_threshold: Any = None, p_first_columns: Any = None
) -> Answer:
    """Exercise 11.1: settings with which the example is as fast as with any others of the three."""
    given = {"exp2_period": exp2_period, "rescale_threshold": rescale_threshold,
             "p_first_columns": p_first_columns}  # fmt: skip
    if any(value is None for value in given.values()):
        return UNANSWERED
    knobs = {name: _kernel_lab().choices[name] for name in TUNED}
    for name, value in given.items():
        if np.ndim(value) or value not in knobs[name]:
            some = ", ".join(map(repr, knobs[name]))
            return _wrong(f"{name}={value!r} is not on its knob: {some}.")
    all_cycles = [tuned_cycles(*values) for values in itertools.product(*knobs.values())]
    own, best, mine = tuned_cycles("own", "own", "own"), min(all_cycles), tuned_cycles(**given)
    if mine >= own:
        return _wrong(
            f"{mine:,.0f} cycles; the kernel's own settings take {own:,.0f}. Turn one knob at a "
            "time first and note which way it helps."
        )
    if mine > 1.003 * best:
        return _wrong(
            f"{mine:,.0f} cycles, {own / mine - 1:.1%} faster than the kernel's own settings. "
            f"{own / best - 1:.1%} can be had. The knobs influence each other: turn a second one "
            "with the first where it was best."
        )
    return Answer(
        True,
        f"{mine:,.0f} cycles, {own / mine - 1:.1%} faster than the kernel's {own:,.0f}. For one "
        "short CTA, in a model: whether it holds for other shapes and on a real GPU is another "
        "question, and a few per cent may be rhythm.",
    )


#: The step of exercise 11.2.
STEP = {"batch": 2, "keys": 2560, "page_size": 16}


@cache
def step_cycles(num_splits: int) -> float:
    """Cycles of the step in the serving lab."""
    return _serving_lab().ask(**STEP, num_splits=num_splits).cycles


def check_splits(num_splits: int | None = None) -> Answer:
    """Exercise 11.2: the fewest splits with which the step is within 2 % of the fastest."""
    if num_splits is None:
        return UNANSWERED
    counts = [count for count in _serving_lab().choices["num_splits"] if count]
    if wrong := _not_offered(num_splits, counts):
        return wrong
    best = min(map(step_cycles, counts))
    enough = next(count for count in counts if step_cycles(count) <= 1.02 * best)
    tiles = STEP["batch"] * num_splits
    mine = f"{tiles} tiles on {SLICE_SMS} SMs: {step_cycles(num_splits):,.0f} cycles"
    if step_cycles(num_splits) > 1.02 * best:
        return _wrong(
            f"{mine}; {best:,.0f} are possible. How many SMs are at work, and in how many waves?"
        )
    if num_splits > enough:
        return _wrong(f"{mine}, fast enough, but fewer splits do as well.")
    return Answer(
        True,
        f"{mine}, all SMs once. One split more, and some SMs have a second tile.",
    )
