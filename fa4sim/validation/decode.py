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

#: Assumptions by name: constants that differ from the machine's.
ASSUMPTIONS: dict[str, dict[str, float]] = {
    "as chosen": {},
    "HBM gives 5.4 TB/s, the least measured by TMA": {"hbm_bytes_per_second": 5.4e12},
    "HBM gives 7.2 TB/s, the most": {"hbm_bytes_per_second": 7.2e12},
    "a launch takes 5 µs more": {"launch_seconds": B200.launch_seconds + 5e-6},
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

{_ruled_out()}

{_trust(outcomes)}"""


def _two_tiles(outcomes: dict[Any, Outcome]) -> str:
    first = published()["decode"][0]
    blocks = first["problem"]["seqlen_k"] // 128
    cycles = [
        time * 1e-6 * B200.clock_hz / blocks
        for time in (first["published_us"], outcomes["decode", first["name"]].time_us)
    ]
    return f"""With two Q tiles a step is held by their chain, as in prefill, though the second \
tile is padding: {cycles[1]:,.0f} cycles per block simulated, {cycles[0]:,.0f} published (at \
{B200.clock_hz / 1e9:.2f} GHz). The kernel simulated is nine months younger than the one of pull \
request 1999; what that one reached in prefill isn't published. Issue 2461 shows what the compiler \
alone can do: 1,280 against 1,542 TFLOP/s. No assumption brings both steps with two Q tiles near: \
what helps the older makes the younger too slow."""


def _one_tile(outcomes: dict[Any, Outcome]) -> str:
    row = published()["decode"][1]
    ctas = row["problem"]["batch"] * row["problem"]["kv_heads"]
    blocks = row["problem"]["seqlen_k"] // 128
    share = 2 * 128 * 256 * ctas / B200.hbm_bytes_per_second * B200.clock_hz
    known = row["published_us"] * 1e-6 * B200.clock_hz / blocks
    alone = block_cycles(outcomes["assume", "as chosen", "alone"], {})
    return f"""With one Q tile the chain of scores, softmax and products takes {alone:,.0f} cycles \
a block, HBM's share of {ctas} CTAs {share:,.0f}, and published are {known:,.0f}. So in the \
simulation HBM holds the step, and nothing that is not HBM matters. Pull request 2817 (2026-08-26, \
after the version simulated) computes a block's scores beside the softmax of the block before and \
reports up to 16 %; pull request 2551 tries the same for such a bubble. Where HBM is the limit, \
that gains nothing. A chain of {known:,.0f} cycles would explain the time as well as HBM at \
{2 * 128 * 256 * ctas * blocks / row["published_us"] / 1e6:.2f} TB/s does, and the table shows \
what lengthens it: a slower MUFU, and hand-offs and TMEM loads, which fit the forward times as \
well as interference does. No one of them is enough."""


def _ruled_out() -> str:
    rates = [
        h200_value(f"page_boxes_{heads}_heads_{order}_page_128_bytes_per_second") / 1e12
        for heads in (1, 4, 32)
        for order in ("ordered", "random")
    ]
    return f"""Ruled out by measuring on an H200 \
([benchmarks_h200.md](../benchmarks_h200.md)): how far apart the rows of a head lie, whether pages \
are in order, how many translations of addresses that needs, and that some SMs get less of HBM \
than others while each has as much to do. 128 CTAs bring 8 GiB by TMA, each its own head, in pages \
of 128, with 1, 4 and 32 heads (rows in one piece, 1 KiB and 8 KiB apart), in order and at random: \
{min(rates):.2f} to {max(rates):.2f} TB/s, the slowest CTA included. \
The launch is ruled out by the table."""


def _trust(outcomes: dict[Any, Outcome]) -> str:
    errors = [
        relative_error(row["published_us"], outcomes["decode", row["name"]].time_us)
        for row in published()["decode"]
    ]
    return f"""How far to trust a decode step: where CTAs fill the GPU and keys come by TMA, the \
simulation was {min(errors):.0%} to {max(errors):.0%} too fast, so take it for the best that can \
be. Ratios between two steps that HBM holds are safer than either time. Where few CTAs work, a \
step is as long as its chain, for which nothing is published."""
