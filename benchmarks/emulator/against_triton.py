"""The official forward kernel in the emulator against tiled attention in Triton's interpreter."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from benchmarks.emulator import reasons
from benchmarks.emulator.problem import NEEDS, SHAPES, Work, absent
from benchmarks.emulator.runs import emulated, interpreted
from benchmarks.speed.measurement import Figure, Measurement, Table
from benchmarks.speed.words import shown
from fa4kernel.official.compile import interpreter, versions

TITLE = "Official FlashAttention-4 in the emulator, against Triton's interpreter"
WORKS = tuple(Work(shape) for shape in SHAPES)
PROCESSES = 2
#: Largest ratios wanted, by what is checked.
WANTED = {"off": 0.5, "default": 1.0}
CHECKS = {"off": "checks off", "default": "default checks"}

HOW = (
    "The official forward kernel (flash-attn-4 {version}, bf16, head dim 128, batch 1), compiled "
    "for `sm_100a`, is run by `emulate` in lock step with {processes} processes, CTA by CTA and "
    "instruction by instruction. The other side is plain tiled attention of our own, written in "
    "Triton and run by its interpreter (`TRITON_INTERPRET=1`), which works at the level of tiles "
    "of 128 × 128; its heads are shared out among as many processes. Both work on the same arrays, "
    "each run in a fresh interpreter with one thread for linear algebra in each process, turn by "
    "turn, {repeats} times, and both outputs are held against float64. Counted is the CPU "
    "time of the busiest process, without imports, and for the emulator with reading and decoding "
    "the PTX: what a person waits for where each process has a core to itself."
)

Row = dict[str, dict[str, float]]


def measure(works: Sequence[Work] = WORKS, repeats: int = 3) -> Measurement:
    """All three in turn for every kernel, `repeats` times."""
    if reason := absent():
        return Measurement(TITLE, f"Not measured. {NEEDS}: {reason}.")
    figures, lines = [], []
    for work in works:
        turns = [_turn(work, number) for number in range(repeats)]
        for checks, wanted in WANTED.items():
            figures.append(_ratio(work, turns, checks, wanted))
        figures.append(_cost(work, turns))
        figures.append(_rate(work, turns))
        lines += [_line(work, turns, side) for side in ("triton", *WANTED)]
    head = ("kernel", "run by", "CPU time", "wall time", "of it decoding", "M/s")
    caption = (
        "Medians. Wall time is as it was, with whatever else the machine did. M/s are millions of "
        "warp instructions per second of CPU time of the busiest process, without decoding; copies "
        "that cost nothing are not counted."
    )
    version = versions(interpreter())["flash-attn-4"]
    how = HOW.format(version=version, processes=PROCESSES, repeats=repeats)
    return Measurement(TITLE, how, tuple(figures), (Table(caption, head, tuple(lines)),))


def _turn(work: Work, number: int) -> Row:
    """Every side once, there and back, so that rising load favours none."""
    sides = {
        "triton": lambda: interpreted(work, PROCESSES),
        "off": lambda: emulated(work, "off", PROCESSES),
        "default": lambda: emulated(work, "default", PROCESSES),
    }
    order = list(sides) if number % 2 else list(reversed(sides))
    return {side: sides[side]() for side in order}


def _whole(run: dict[str, float]) -> float:
    """CPU seconds of a run, with decoding."""
    return run["cpu_s"] + run.get("decode_s", 0.0)


def _ratio(work: Work, turns: Sequence[Row], checks: str, wanted: float) -> Figure:
    values = tuple(_whole(turn[checks]) / _whole(turn["triton"]) for turn in turns)
    what = f"official FA4 ({work.shape}) against Triton's interpreter, {CHECKS[checks]}"
    wall = tuple(turn[checks]["wall_s"] for turn in turns)
    return Figure(what, "x", values, wanted, wall_s=wall, reason=reasons.RATIO)


def _cost(work: Work, turns: Sequence[Row]) -> Figure:
    values = tuple(turn["default"]["cpu_s"] / turn["off"]["cpu_s"] for turn in turns)
    what = f"default checks against none, official FA4 ({work.shape})"
    return Figure(what, "x", values, 2.0, reason=reasons.CHECKS)


def _rate(work: Work, turns: Sequence[Row]) -> Figure:
    values = tuple(turn["off"]["instructions"] / turn["off"]["cpu_s"] / 1e6 for turn in turns)
    what = f"warp instructions, {work.ctas} CTAs ({work.shape}), {PROCESSES} processes"
    return Figure(what, "M/s", values, 8.0, at_least=True, reason=reasons.RATE)


def _line(work: Work, turns: Sequence[Row], side: str) -> tuple[str, ...]:
    runs = [turn[side] for turn in turns]
    name = "Triton's interpreter" if side == "triton" else f"the emulator, {CHECKS[side]}"
    rest = ("", "")
    if side != "triton":
        rate = median(run["instructions"] / run["cpu_s"] / 1e6 for run in runs)
        rest = (shown(median(run["decode_s"] for run in runs), "s"), shown(rate))
    cpu, wall = median(map(_whole, runs)), median(run["wall_s"] for run in runs)
    return (work.words(), name, shown(cpu, "s"), shown(wall, "s"), *rest)
