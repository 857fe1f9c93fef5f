"""The page docs/validation/h200.md: our Hopper kernel beside others, the simulator beside it."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from fa4kernel.bench.fit import CONSTANTS, POINTS
from fa4kernel.bench.markdown import table
from fa4kernel.bench.measure import BASELINES, PAUSE_S, ROUNDS, RUNS
from fa4kernel.bench.points import VARIANTS, standard
from fa4kernel.bench.predict import Compared

PAGE, PICTURE = "docs/validation/h200.md", "docs/validation/h200.png"

#: Wanted of the simulator, and of the kernel at head dim 128 and these lengths.
MEAN, WORST, RATIO = 0.05, 0.10, 1.0
LENGTHS = (4096, 8192, 16_384)


def page(
    measured: dict[str, Any], compared: Sequence[Compared], said: str, sections: Sequence[str] = ()
) -> str:
    """The page.

    Args:
        measured: as stored.
        compared: every point with the simulator's answer.
        said: when and on what the page was written.
        sections: of `fa4kernel.bench.timelines_page` and `outputs_page`.
    """
    about = measured["about"]
    parts = [
        "# Held against an H200\n\nOur Hopper kernel (`fa4kernel.hopper`) on a GPU that exists, "
        "beside others; and the simulator's prediction of it.\n\n"
        "Written by `fa4kernel bench --write` from the "
        f"stored measurement; {said}. Don't edit it; run the command.\n",
        table(
            ("", ""),
            [
                ("device", f"{about['device']}, {about['architecture']}"),
                ("driver, CUDA", f"{about['driver']}, {about['cuda']}"),
                ("PyTorch", measured["torch"]),
                ("date", about["date"]),
                ("points", str(len(compared))),
            ],
        ),
        _how(measured["empty_ms"]),
        _verdicts(compared),
        _speed(compared),
        _variants(compared),
        *sections,
        _all(compared),
    ]
    return "\n".join(parts)


def errors(compared: Iterable[Compared]) -> tuple[float, float]:
    """Mean and largest error, without sign."""
    found = [abs(each.error) for each in compared]
    return statistics.mean(found), max(found)


def predicted(compared: Iterable[Compared]) -> list[Compared]:
    """Those on which nothing was fitted."""
    return [each for each in compared if each.point.name not in POINTS]


def ratios(compared: Iterable[Compared]) -> dict[str, float]:
    """Our speed by the best of the others', where others were measured."""
    return {each.point.name: best_ms(each) / each.measured_ms for each in compared if others(each)}


def others(each: Compared) -> dict[str, float]:
    """Milliseconds of the others."""
    return {name: each.row[name]["ms"] for name in BASELINES if each.row.get(name)}


def best_ms(each: Compared) -> float:
    """The fastest of the others."""
    return min(others(each).values())


def _how(empty_ms: float) -> str:
    return f"""
## How it was measured

- bf16, standard normal numbers. "d128 causal 4096 b8 h16" is head dim 128, causal, 4096 tokens
  in each of 8 sequences, 16 heads; h32/4 are 32 query heads on 4 K/V heads. The standard points
  have 32,768 tokens and heads × head dim = 2048, as the published figures of FlashAttention.
- Each run is timed by itself between two events of the driver. Everybody has {ROUNDS} turns of
  {RUNS} runs behind some that don't count and a pause of {PAUSE_S} s, in an order that turns
  around; the table has medians. Clocks were left as found. The GPU slows down under load, so
  the mean clock over our runs stands beside them, read from the multiprocessors' own counters.
- Others are started by PyTorch: cuDNN and FlashAttention-2 are its backends of
  `scaled_dot_product_attention`, FlashAttention-4 is the package `flash-attn-4` (4.0.0b27),
  whose path for Hopper this is. With few or short sequences they wait for the host rather than
  the GPU: compare those of 32,768 tokens only.
- The simulator gets the problem, the design and the clock. Its constants are published or measured
  by [microbenchmarks](../benchmarks_h200.md), but for two that were fitted on six of these points
  ([decision 21](../decisions/0021-beside-wgmma.md), `python -m fa4kernel.bench.fit`):
  {", ".join(f"`{name}`" for name in CONSTANTS)}. The six are marked below and count in no error.
- The simulator's time has that of starting a kernel in it: {empty_ms * 1e3:.1f} µs, measured as
  what an empty one of the same size takes between the same two events.
- Points with 80 and with 96 keys were measured later the same day than the others, without these
  beside them, after a fault of our kernel was found by their misses (tiles whose length is no power
  of two were rounded number by number). Six other points measured again then took 2.1 % fewer to
  1.3 % more cycles.

To measure again, where there is a GPU: `fa4kernel bench --points all -o measured.json`.
"""


def _verdicts(compared: Sequence[Compared]) -> str:
    mean, worst = errors(predicted(compared))
    found = ratios(compared)
    wanted = [standard(128, causal, n).name for causal in (False, True) for n in LENGTHS]
    slowest = min(wanted, key=lambda name: found[name])
    signs = list(_signs(compared))
    right = sum(ok for *_, ok in signs)
    by_name = {each.point.name: each for each in compared}
    rates = [by_name[name].point.problem.flops / by_name[name].measured_ms / 1e9 for name in wanted]
    rows = [
        (
            f"as fast as the best of the others at d128, {LENGTHS[0]} to {LENGTHS[-1]}",
            f"at least {RATIO:g} ×",
            f"{found[slowest]:.3f} × ({slowest}) to {max(found[n] for n in wanted):.3f} ×; "
            f"{min(rates):.0f} to {max(rates):.0f} TFLOP/s",
            _met(round(found[slowest], 2) >= RATIO),
        ),
        (
            "mean error of the simulator, without the fitted points", f"at most {MEAN:.0%}",
            f"{mean:.1%}", _met(mean <= MEAN),
        ),
        ("largest error", f"at most {WORST:.0%}", f"{worst:.1%}", _met(worst <= WORST)),
        (
            "sign of every variant's effect", "all", f"{right} of {len(signs)}",
            _met(right == len(signs)),
        ),
    ]  # fmt: skip
    return "\n## What was wanted\n\n" + table(("what", "wanted", "found", ""), rows)


def _speed(compared: Sequence[Compared]) -> str:
    rows = []
    for each in compared:
        if not others(each):
            continue
        flops = each.point.problem.flops
        rates = [flops / others(each)[n] / 1e9 if n in others(each) else None for n in BASELINES]
        rows.append(
            (
                each.point.name,
                f"**{flops / each.measured_ms / 1e9:.0f}**",
                *("–" if rate is None else f"{rate:.0f}" for rate in rates),
                f"{best_ms(each) / each.measured_ms:.2f}",
                f"{each.row['ours']['clock_hz'] / 1e9:.2f}",
                f"{each.row['rel_err']:.1e}",
            )
        )
    head = (
        "point", "ours (TFLOP/s)", "cuDNN", "FlashAttention-2", "FlashAttention-4",
        "ours by the best", "clock (GHz)", "error against FlashAttention-2",
    )  # fmt: skip
    return "\n## Our kernel beside others\n\n" + table(head, rows)


def _signs(compared: Sequence[Compared]) -> Iterable[tuple[Compared, float, float, bool]]:
    """Variants with their effect on cycles, measured and simulated, where it is 2 % or more."""
    by_name = {each.point.name: each for each in compared}
    for each in compared:
        if not each.point.variant:
            continue
        base = by_name[standard(each.point.head_dim, each.point.causal, each.point.seqlen).name]
        measured = _cycles(each) / _cycles(base) - 1
        simulated = each.cycles / base.cycles - 1  # starting the kernel cancels, nearly
        if abs(measured) >= 0.02:
            yield each, measured, simulated, measured * simulated > 0


def _cycles(each: Compared) -> float:
    """Measured, in cycles."""
    return each.measured_ms * 1e-3 * float(each.row["ours"]["clock_hz"])


def _variants(compared: Sequence[Compared]) -> str:
    rows = [
        (each.point.name, f"{measured:+.1%}", f"{simulated:+.1%}", "" if ok else "WRONG SIGN")
        for each, measured, simulated, ok in _signs(compared)
    ]
    names = "; ".join(f"*{name}*: `{changes}`" for name, changes in VARIANTS.items())
    return (
        "\n## What changes of the kernel do\n\nMore or fewer cycles than the kernel as it chooses "
        "itself, measured and simulated; effects of less than 2 % are left out. The variants, as "
        f"fields of `fa4kernel.hopper.Config`: {names}.\n\n"
        + table(("variant", "measured", "simulated", ""), rows)
    )


def _all(compared: Sequence[Compared]) -> str:
    rows = [
        (
            each.point.name, f"{each.measured_ms:.3f}", f"{each.simulated_ms:.3f}",
            f"{each.error:+.1%}" + (" **miss**" if abs(each.error) > WORST else "")
            + (" (fitted)" if each.point.name in POINTS else ""),
        )
        for each in compared
    ]  # fmt: skip
    return (
        "\n## Every point\n\n![Simulated against measured time, both on logarithmic scales: points "
        "on the diagonal are right](h200.png)\n\nThe simulator's cycles at the measured clock. "
        f"Misses are errors of more than {WORST:.0%}.\n\n"
        + table(("point", "measured (ms)", "simulated (ms)", "error"), rows)
    )


def draw(compared: Sequence[Compared], target: Path) -> None:
    """The picture: simulated against measured."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 5.4), layout="constrained")
    axes = figure.subplots()
    for variant, marker, label in ((False, "o", "as chosen"), (True, "x", "variants")):
        chosen = [each for each in compared if bool(each.point.variant) == variant]
        x, y = [c.measured_ms for c in chosen], [c.simulated_ms for c in chosen]
        axes.plot(x, y, marker, ms=5, label=label, alpha=0.7)
    ends = [0.01, 25]
    low, high = ([factor * end for end in ends] for factor in (1 - WORST, 1 + WORST))
    axes.plot(ends, ends, "-", color="0.3", lw=1, label="equal")
    axes.fill_between(ends, low, high, color="0.5", alpha=0.2, label=f"within {WORST:.0%}")
    axes.set(xscale="log", yscale="log", xlabel="measured on an H200 (ms)", ylabel="simulated (ms)")
    axes.legend()
    figure.savefig(target, dpi=110, format="png")


def _met(ok: bool) -> str:
    return "met" if ok else "**missed**"
