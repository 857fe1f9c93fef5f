"""Decode steps under other assumptions: what would explain the published times, and what not.

Each assumption is a constant at an end of its range, or one of the readings of the forward
validation. No one of them is chosen: the table tells how far a prediction can be trusted.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fa4sim.specs import B200, Problem
from fa4sim.specs.measured import h200_value
from fa4sim.validation.errors import relative_error
from fa4sim.validation.inference_runs import Call, Outcome, published
from fa4sim.validation.markdown import signed, table
from fa4sim.validation.readings import READINGS

LAUNCH = "a launch takes 5 µs more"

#: What counts as near to a published time, and as a change that explains nothing.
NEAR, LITTLE = 0.1, 0.02

#: Assumptions by name: constants that differ from the machine's.
ASSUMPTIONS: dict[str, dict[str, float]] = {
    "as chosen": {},
    "HBM gives 5.4 TB/s, the least measured by TMA": {"hbm_bytes_per_second": 5.4e12},
    "HBM gives 7.2 TB/s, the most": {"hbm_bytes_per_second": 7.2e12},
    LAUNCH: {"launch_seconds": B200.launch_seconds + 5e-6},
    "loads take 900 cycles, the end of their range": {
        "tma_l2_latency_cycles": 900, "cp_async_latency_cycles": 900,
    },
    **{f"no interference, {r.name}": r.constants for r in READINGS[1:]},
}  # fmt: skip

#: One CTA with one Q tile: what a block takes when HBM has nobody else to serve.
ALONE = Problem(heads=8, kv_heads=1, seqlen_q=1, seqlen_k=65536)
ALONE_BLOCKS = 65536 // 128


def decode_calls() -> Iterator[tuple[Any, Call]]:
    """Every published decode step under every assumption, and one CTA alone."""
    for name, constants in ASSUMPTIONS.items():
        for row in published()["decode"]:
            yield (
                ("assume", name, row["name"]),
                Call(Problem(**row["problem"]), row["design"], constants),
            )
        yield ("assume", name, "alone"), Call(ALONE, constants=constants)


def block_cycles(outcome: Outcome, constants: dict[str, float]) -> float:
    """Cycles per block of the CTA alone."""
    clock = constants.get("clock_hz", B200.clock_hz)
    return outcome.attention_us * 1e-6 * clock / ALONE_BLOCKS


def decode_section(outcomes: dict[Any, Outcome]) -> str:
    """The part of the page on inference that says what would explain the misses."""
    rows = published()["decode"]
    lines = []
    for name, constants in ASSUMPTIONS.items():
        errors = [
            relative_error(row["published_us"], outcomes["assume", name, row["name"]].time_us)
            for row in rows
        ]
        alone = block_cycles(outcomes["assume", name, "alone"], constants)
        lines.append([name, *(signed(error) for error in errors), f"{alone:,.0f}"])
    heads = ["assumption", *(row["name"] for row in rows), "one CTA alone, cycles per block"]
    return f"""### What would explain them

Errors under other assumptions, and what a block of 128 keys takes a CTA with one Q tile that has \
HBM for itself. Readings of the forward times come from [b200.md](b200.md).

{table(heads, lines, heads[:1])}

{_two_tiles(outcomes)}

{_one_tile(outcomes)}

{_ruled_out(outcomes)}

{_trust(outcomes)}"""


def _two_tiles(outcomes: dict[Any, Outcome]) -> str:
    first = published()["decode"][0]
    blocks = first["problem"]["seqlen_k"] // 128
    cycles = [
        time * 1e-6 * B200.clock_hz / blocks
        for time in (first["published_us"], outcomes["decode", first["name"]].time_us)
    ]
    older, _, younger = errors_by_assumption(outcomes)
    worst = {name: max(abs(older[name]), abs(younger[name])) for name in older}
    best = min(worst, key=lambda name: worst[name])
    left = f"{signed(older[best])} and {signed(younger[best])}"
    near = f"brings both steps with two Q tiles within {NEAR:.0%}"
    verdict = (
        f"No assumption {near}; the nearest, *{best}*, leaves {left}."
        if worst[best] > NEAR
        else f"One assumption {near}, *{best}*: {left}."
    )
    return f"""With two Q tiles a step is held by their chain, as in prefill, though the second \
tile is padding: {cycles[1]:,.0f} cycles per block simulated, {cycles[0]:,.0f} published (at \
{B200.clock_hz / 1e9:.2f} GHz). The kernel simulated is nine months younger than the one of pull \
request 1999; what that one reached in prefill isn't published. Issue 2461 shows what the compiler \
alone can do: 1,280 against 1,542 TFLOP/s. {verdict}"""


def _one_tile(outcomes: dict[Any, Outcome]) -> str:
    row = published()["decode"][1]
    ctas = row["problem"]["batch"] * row["problem"]["kv_heads"]
    blocks = row["problem"]["seqlen_k"] // 128
    share = 2 * 128 * 256 * ctas / B200.hbm_bytes_per_second * B200.clock_hz
    known = row["published_us"] * 1e-6 * B200.clock_hz / blocks
    chains = {
        name: block_cycles(outcomes["assume", name, "alone"], constants)
        for name, constants in ASSUMPTIONS.items()
    }
    alone = chains["as chosen"]
    errors = errors_by_assumption(outcomes)[1]
    moved = max(
        abs(errors[name] - errors["as chosen"])
        for name, constants in ASSUMPTIONS.items()
        if "hbm_bytes_per_second" not in constants
    )
    held = (
        f"So in the simulation HBM holds the step, and assumptions about anything else move its "
        f"error by {100 * moved:.1f} points at most."
        if alone < share
        else "So in the simulation the chain holds the step, not HBM."
    )
    longer = ", ".join(f"*{n}* {c:,.0f}" for n, c in chains.items() if c > 1.05 * alone)
    enough = [name for name, cycles in chains.items() if cycles >= known]
    lengthened = (
        f" The table shows what lengthens it: {longer}; "
        + (f"enough: {', '.join(enough)}." if enough else "no one of them is enough.")
        if longer
        else ""
    )
    return f"""With one Q tile the chain of scores, softmax and products takes {alone:,.0f} cycles \
a block, HBM's share of {ctas} CTAs {share:,.0f}, and published are {known:,.0f}. {held} \
Pull request 2817 (2026-08-26, \
after the version simulated) computes a block's scores beside the softmax of the block before and \
reports up to 16 %; pull request 2551 tries the same for such a bubble. Where HBM is the limit, \
that gains nothing. A chain of {known:,.0f} cycles would explain the time as well as HBM at \
{2 * 128 * 256 * ctas * blocks / row["published_us"] / 1e6:.2f} TB/s does.{lengthened}"""


def errors_by_assumption(outcomes: dict[Any, Outcome]) -> list[dict[str, float]]:
    """For each published step its error of throughput under every assumption."""
    return [
        {
            name: relative_error(row["published_us"], outcomes["assume", name, row["name"]].time_us)
            for name in ASSUMPTIONS
        }
        for row in published()["decode"]
    ]


def _ruled_out(outcomes: dict[Any, Outcome]) -> str:
    rates = [
        h200_value(f"page_boxes_{heads}_heads_{order}_page_128_bytes_per_second") / 1e12
        for heads in (1, 4, 32)
        for order in ("ordered", "random")
    ]
    moved = max(
        abs(errors[LAUNCH] - errors["as chosen"]) for errors in errors_by_assumption(outcomes)
    )
    launch = (
        f" The launch is ruled out by the table: 5 µs more move no error by more than "
        f"{100 * moved:.1f} points."
        if moved < LITTLE
        else ""
    )
    return f"""Ruled out by measuring on an H200 \
([benchmarks_h200.md](../benchmarks_h200.md)): how far apart the rows of a head lie, whether pages \
are in order, how many translations of addresses that needs, and that some SMs get less of HBM \
than others while each has as much to do. 128 CTAs bring 8 GiB by TMA, each its own head, in pages \
of 128, with 1, 4 and 32 heads (rows in one piece, 1 KiB and 8 KiB apart), in order and at random: \
{min(rates):.2f} to {max(rates):.2f} TB/s, the slowest CTA included.{launch}"""


def _trust(outcomes: dict[Any, Outcome]) -> str:
    errors = [
        relative_error(row["published_us"], outcomes["decode", row["name"]].time_us)
        for row in published()["decode"]
    ]
    off = (
        f"{min(errors):.0%} to {max(errors):.0%} too fast, so take it for the best that can be"
        if min(errors) > 0
        else f"off by {signed(min(errors))} to {signed(max(errors))}"
    )
    return f"""How far to trust a decode step: where CTAs fill the GPU and keys come by TMA, the \
simulation was {off}. Ratios between two steps that HBM holds are safer than either time. Where \
few CTAs work, a step is as long as its chain, for which nothing is published."""
