"""Checks of the exercises about decode steps and split keys."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from checks import UNANSWERED, Answer, _not_offered, _raised, _wrong

from fa4sim import B200, Problem, simulate
from fa4sim.numerics import combine_float64

#: One user of a model with 32 heads on 8 K/V heads, 65,536 tokens in.
USER = Problem(heads=32, kv_heads=8, seqlen_q=1, seqlen_k=65536)

#: Three users of the same model, 16,384 tokens in: 24 work tiles.
USERS = replace(USER, batch=3, seqlen_k=16384)
COUNTS = (1, 2, 4, 6, 8, 12, 24, 48)


def check_combine(combine: Callable[[np.ndarray, np.ndarray], Any]) -> Answer:
    """Exercise 1: ``combine(outs, lses)`` is the output of the whole, from those of its splits."""
    rng = np.random.default_rng(14)
    for splits, shift in ((2, 0.0), (5, 0.0), (3, 800.0)):
        outs = rng.standard_normal((splits, 4))
        lses = rng.standard_normal(splits) + shift
        if splits == 5:  # a split without keys: its output is whatever lay there
            outs[2], lses[2] = 1e6, -np.inf
        with np.errstate(all="ignore"):
            try:
                given = combine(outs.copy(), lses.copy())
            except Exception as error:
                return _raised(error)
        if given is None:
            return UNANSWERED
        try:
            answer = np.asarray(given, dtype=float)
        except (TypeError, ValueError):
            return _wrong(f"Return an array of numbers, not {given!r}.")
        if answer.shape != (4,):
            return _wrong(
                f"For {splits} splits of 4 columns you return shape {answer.shape}, not (4,)."
            )
        truth, _ = combine_float64(outs.reshape(splits, 1, 1, 1, 4), lses.reshape(splits, 1, 1, 1))
        if not np.allclose(answer, truth[0, 0, 0], rtol=1e-9, atol=1e-12):
            return _wrong(_combine_message(answer, outs, lses, shift))
    return Answer(True, "Two splits, one without keys among five, and scores of 800: all combined.")


def _combine_message(answer: np.ndarray, outs: np.ndarray, lses: np.ndarray, shift: float) -> str:
    if shift and not np.isfinite(answer).all():
        return (
            "With log-sum-exps of about 800 you get no number: exp(800) is too large. Subtract the "
            "largest log-sum-exp first; it cancels."
        )
    with np.errstate(all="ignore"):
        weights = np.exp(lses - lses.max())
        wrong = {
            "the mean of the outputs": outs.mean(axis=0),
            "the outputs weighted by their log-sum-exps": (
                (lses[:, None] * outs).sum(axis=0) / lses.sum()
            ),
            "the output of the split that weighs most, without the others": outs[lses.argmax()],
            "the weighted sum, not yet divided by the sum of the weights": weights @ outs,
        }
    for what, value in wrong.items():
        if np.allclose(answer, value, equal_nan=True):
            return (
                f"This is {what}. A split's weight is the sum of its exponentials, exp(lse), as a "
                "part of that of all splits."
            )
    if np.isneginf(lses).any():
        return "One split here has no keys: its lse is -inf, so its output must not count at all."
    return (
        f"For lse {np.round(lses, 2)} the largest column is off by {_off(answer, outs, lses):.2g}."
    )


def _off(answer: np.ndarray, outs: np.ndarray, lses: np.ndarray) -> float:
    weights = np.exp(lses - lses.max())
    return float(np.abs(answer - weights @ outs / weights.sum()).max())


@cache
def time_of(num_splits: int) -> tuple[float, float, int]:
    """µs of :data:`USERS` with so many splits, those of the combine kernel, and CTAs."""
    report = simulate(replace(USERS, num_splits=num_splits)).report
    combining = [kernel for kernel in report.kernels if kernel.name == "combine"]
    micros = sum(B200.seconds(kernel.cycles) for kernel in combining) * 1e6
    return report.time_us, micros, report.ctas


def check_count(num_splits: int | None) -> Answer:
    """Exercise 2: the number of splits with which three users' step is shortest."""
    if num_splits is None:
        return UNANSWERED
    if wrong := _not_offered(num_splits, COUNTS):
        tiles, sms = USERS.batch * USERS.kv_heads, B200.sms
        if isinstance(num_splits, int) and num_splits * tiles > sms:
            return _wrong(
                f"{wrong.message} Besides, {num_splits} splits of {tiles} tiles would make "
                f"{num_splits * tiles:,} CTAs for {sms} SMs: more than one wave."
            )
        return wrong
    best = min(COUNTS, key=lambda n: time_of(n)[0])
    time, combining, ctas = time_of(num_splits)
    if num_splits == best or time <= 1.005 * time_of(best)[0]:
        return Answer(
            True,
            f"{time:.1f} µs with {ctas} CTAs, {combining:.1f} of them to combine; without splits "
            f"{time_of(1)[0]:.1f} µs.",
        )
    if num_splits < best:
        return _wrong(
            f"{num_splits} split{'s' if num_splits > 1 else ''}, {ctas} CTAs for {B200.sms} SMs: "
            f"{time:.1f} µs, and SMs are left without work. How many CTAs does a further one add?"
        )
    return _wrong(
        f"{num_splits} splits make {ctas:,} CTAs for {B200.sms} SMs and take {time:.1f} µs, "
        f"{combining:.1f} of them to combine. More CTAs than SMs bring a second wave, and the "
        "combine kernel goes through the splits one after the other."
    )
