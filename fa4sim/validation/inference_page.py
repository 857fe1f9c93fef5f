"""The page on inference, in Markdown."""

from __future__ import annotations

import platform
from datetime import UTC, datetime
from pathlib import Path

import fa4sim
from fa4sim.specs import B200
from fa4sim.validation.decode import decode_section
from fa4sim.validation.errors import relative_error
from fa4sim.validation.inference import (
    BATCHES,
    DECODES,
    FP8_LENGTHS,
    FP8_SHAPES,
    HEADS,
    KEYS,
    KV_HEADS,
    LONG_HEADS,
    LONG_KEYS,
    QUERIES,
    SPLIT_COUNTS,
    STEP_SPLITS,
    STEPS,
    Inference,
)
from fa4sim.validation.inference_runs import Outcome, published
from fa4sim.validation.markdown import number, signed, table, write_whole
from fa4sim.validation.pages_page import between_markers, pages_section

PAGE = Path("docs/validation/inference.md")

#: Constants of the machine that only inference needs.
NEW = ("cp_async_latency_cycles", "hbm_fetch_bytes", "dependent_launch_seconds")


def write_inference_page(result: Inference, root: Path | None = None) -> Path:
    """Write the page into the repository, whole or not at all; see ``write_page``."""
    return write_whole(PAGE, inference_page(result), root)


def inference_page(result: Inference, written: bool = True) -> str:
    """All sections of the page."""
    sections = [
        _head(result, written), _headlines(result), _fp8_rows(result), _fp8(result),
        _decode(result), _rings(result), _splits(result), _long(result), _steps(result),
        _sensitivity(result), _constants(),
    ]  # fmt: skip
    if result.pages is not None:
        sections.insert(-2, between_markers(pages_section(result.pages)))
    return "\n\n".join(sections) + "\n"


def _head(result: Inference, written: bool) -> str:
    how = f"""Written by `fa4sim validate --inference --write` on {datetime.now(UTC):%Y-%m-%d} in \
{result.wall_s:.0f} s (fa4sim {fa4sim.__version__}, Python {platform.python_version()}). Don't \
edit it; run the command.

"""
    return f"""# Simulated against published: inference on a B200

{how if written else ""}No constant was fitted to anything here: the machine is the one of the \
[forward validation](b200.md), at the 1.85 GHz of the paper's roofline. Times include the launch; \
with split keys also the launch between the two kernels. Constants that only inference needs are \
at the end."""


def _headlines(result: Inference) -> str:
    data = published()["headlines"]
    best, gain = result.best_splits(32)
    most = max(QUERIES, key=lambda queries: result.long_gain(32, queries))
    used = result.outcomes["long", 32, 1, best].hbm / B200.hbm_bytes_per_second
    lone = max(result.long_gain(1, queries) for queries in QUERIES)
    rows = [
        [name, f"up to {a:.2f} ×", f"up to {b:.2f} ×", signed(relative_error(b, a))]
        for name, (a, b) in result.headlines.items()
    ]
    return f"""## Headline ratios

Published: {data["source"]}; {data["shapes"]}. Simulated: the largest of the tables below.

{table(["what", "published", "simulated", "error"], rows, ["what"])}

The largest gain of split keys is that of {most} queries. With one query the heuristic cuts \
{LONG_KEYS:,} keys of 32 heads into {result.outcomes["long", 32, 1, 0].splits} and gains \
{result.long_gain(32, 1):.2f} ×; of the numbers tried {best} gains most, {gain:.2f} ×, with \
{used:.0%} of what HBM gives. With one K/V head gains reach {lone:.0f} ×, but for them nothing is \
published in numbers. The 2.40 × published for pages smaller than a block stands with their \
rows, under \
[pages of any size](#pages-of-any-size)."""


def _fp8_rows(result: Inference) -> str:
    data = published()["fp8"]
    rows = []
    for i, length in enumerate(data["lengths"]):
        pair = [result.outcomes["2109", length, t].tflops for t in ("bf16", "e4m3")]
        known = [data[t][i] for t in ("bf16", "e4m3")]
        rows.append([
            f"{length:,}", f"{known[0]:,.0f}", f"{pair[0]:,.0f}",
            signed(relative_error(pair[0], known[0])), f"{known[1]:,.0f}", f"{pair[1]:,.0f}",
            signed(relative_error(pair[1], known[1])), f"{known[1] / known[0]:.3f} ×",
            f"{pair[1] / pair[0]:.3f} ×",
        ])  # fmt: skip
    heads = ["length", "bf16 published", "simulated", "error", "e4m3 published", "simulated",
             "error", "gain published", "gain simulated"]  # fmt: skip
    return f"""## FP8 as it came

{data["source"]}: {data["conditions"]}. TFLOP/s. The kernel of that day rescaled from a rise of 4 \
in powers of two on (later it turned out to saturate; see [deviations.md](deviations.md)), which \
is simulated with P not scaled up, as that costs no time.

{table(heads, rows, [])}"""


def _fp8(result: Inference) -> str:
    rows = []
    for d, causal in FP8_SHAPES:
        for length in FP8_LENGTHS:
            wide, narrow = (result.outcomes["fp8", d, causal, length, t] for t in ("bf16", "e4m3"))
            rows.append([
                f"{d}, {'causal' if causal else 'full'}", f"{length:,}", f"{wide.tflops:,.0f}",
                f"{narrow.tflops:,.0f}", f"{result.fp8_gain(d, causal, length):.2f} ×",
                f"{narrow.units['tensor']:.0%}", f"{narrow.units['mufu']:.0%}",
                what_holds(narrow),
            ])  # fmt: skip
    heads = ["head dim, mask", "length", "bf16", "e4m3", "gain", "tensor pipe", "MUFU",
             "what holds e4m3 back"]  # fmt: skip
    words = ["head dim, mask", "what holds e4m3 back"]
    return f"""## What FP8 gains, and what stops it

32,768 tokens in all, the kernel's own design for each dtype; TFLOP/s, and the busy part of two \
units with e4m3. The tensor pipe is twice as fast and K and V are half as long; the exponentials \
are as many, their arithmetic is the same, and O is rescaled whenever a maximum grows (threshold \
0), so a tile of scores takes nearly as long as before.

{table(heads, rows, words)}"""


def what_holds(outcome: Outcome) -> str:
    """The verdict in a few words: what stands before its colon or semicolon."""
    text = outcome.bottleneck.split(";")[0].split(":")[0].strip().rstrip(".")
    return text.removesuffix(" is saturated")


def _decode(result: Inference) -> str:
    rows = []
    for row, outcome, error in result.decode_errors():
        rate = outcome.hbm * outcome.time_us / row["published_us"] / 1e12
        rows.append([
            row["name"], f"{row['published_us']:,}", f"{outcome.time_us:,.0f}", signed(error),
            f"{rate:.2f}", f"{outcome.hbm / 1e12:.2f}", row["note"], row["source"],
        ])  # fmt: skip
    heads = ["step", "published, µs", "simulated", "error", "TB/s published", "simulated", "note",
             "source"]  # fmt: skip
    ctas = [
        [str(n)] + [f"{result.outcomes['ctas', t, n].hbm / 1e12:.2f}" for t in ("bf16", "e4m3")]
        for n in (4, 16, 64, 148)
    ]
    left = "e4m3", 148
    idle = result.outcomes["ctas", *left].hbm < 0.9 * B200.hbm_bytes_per_second
    unused = ", and with FP8 all 148 do not use it up" if idle else ""
    return f"""## Decode steps

One query per sequence. The error is that of throughput: above 0 the simulator is the faster. \
Published bandwidth counts the simulated bytes over the published time. Whether pull request 2104 \
measured one Q tile or two isn't said; see [pages of any size](#pages-of-any-size).

{table(heads, rows, ["step", "note", "source"])}

{decode_section(result.outcomes)}

### By CTAs

How much of HBM a decode step uses, by the CTAs that work on it (65,536 keys each, TB/s; a B200 \
gives {B200.hbm_bytes_per_second / 1e12:.1f}):

{table(["CTAs", "bf16", "e4m3"], ctas, [])}

A CTA with one Q tile computes its scores, softmax and products one after the other, so it draws \
no more than it can work off: few CTAs leave HBM idle whatever the ring holds{unused}."""


def _rings(result: Inference) -> str:
    rows = [
        [
            ring.memory.upper(), str(ring.sms), str(ring.kib), f"{ring.measured:.1f}",
            f"{ring.simulated:.1f}", signed(relative_error(ring.simulated, ring.measured)),
        ]
        for ring in result.rings
    ]  # fmt: skip
    errors = [abs(ring.simulated / ring.measured - 1) for ring in result.rings]
    kibs = sorted({kib for _, kib in result.ring_table})
    b200 = [
        [str(sms), *(f"{result.ring_table[sms, kib]:.1f}" for kib in kibs)]
        for sms in sorted({sms for sms, _ in result.ring_table})
    ]
    heads = ["memory", "SMs", "KiB in flight", "measured", "simulated", "error"]
    least = min((ring.kib for ring in result.rings), default=0)
    one = [ring for ring in result.rings if ring.sms == 1]
    crowd = [ring for ring in result.rings if ring.sms > 1 and ring.kib == least]
    reading = ""
    if one and all(ring.simulated > ring.measured for ring in one):
        reading += " One SM alone waits longer in reality than the sum of both."
    if crowd and all(ring.simulated < ring.measured for ring in crowd):
        reading += " Several SMs with little in flight wait shorter."
    return f"""## Bytes in flight

The TMA engine alone with a ring of 16 KiB stages, bytes per cycle and SM, beside what an H200 \
does (docs/benchmarks_h200.md). The mean error is {sum(errors) / len(errors):.1%}: latency, the \
rate of an SM's path and its share are constants, how they add up is simulated.{reading}

{table(heads, rows, ["memory"])}

The same on a B200 with stages of 32 KiB, from HBM, by SMs at work and KiB in flight:

{table(["SMs", *map(str, kibs)], b200, [])}"""


def _splits(result: Inference) -> str:
    gains, counts = [], []
    for batch in BATCHES:
        of = [result.outcomes["split", batch, keys, 0] for keys in KEYS]
        gains.append([str(batch), *(f"{result.split_gain(batch, keys):.2f} ×" for keys in KEYS)])
        counts.append([
            str(batch),
            *(f"{o.splits}: {o.attention_us:.1f} + {o.combine_us:.1f}" if o.splits > 1 else "1"
              for o in of),
        ])  # fmt: skip
    heads = ["batch", *(f"{keys:,} keys" for keys in KEYS)]
    full = [batch for batch in BATCHES if batch * KV_HEADS >= B200.sms]
    whole = all(result.outcomes["split", b, keys, 0].splits == 1 for b in full for keys in KEYS)
    fills = "Where tiles fill the GPU the heuristic does not split. " if whole else ""
    shortest = all(
        result.split_gain(b, KEYS[0]) <= result.split_gain(b, keys)
        for b in BATCHES
        for keys in KEYS
    )
    least = ": short sequences gain least" if shortest else ""
    return f"""## What splitting the keys buys

Decode, {HEADS} heads on {KV_HEADS}, head dim 128: `num_splits=0` over `num_splits=1`.

{table(heads, gains, [])}

Splits the heuristic chooses, and µs of attention + combine:

{table(heads, counts, [])}

{fills}Where it splits, a second launch \
({B200.launch_seconds * 1e6:.1f} µs) and a kernel that goes through the splits one after the other \
take back a part{least}."""


def _long(result: Inference) -> str:
    rows = [
        [
            f"{queries:,}",
            *(
                f"{result.long_gain(heads, queries):.2f} × "
                f"({result.outcomes['long', heads, queries, 0].splits})"
                for heads in LONG_HEADS
            ),
        ]
        for queries in QUERIES
    ]
    by_count = [
        [str(n), *(f"{result.long_gain(heads, 1, n):.2f} ×" for heads in LONG_HEADS)]
        for n in SPLIT_COUNTS
    ]
    names = [f"{heads} head{'s' if heads > 1 else ''}" for heads in LONG_HEADS]
    return f"""## By queries, and by number of splits

One sequence of {LONG_KEYS:,} keys, K/V heads as many as heads, head dim 128 (the shape of \
flash-attention pull request 1940). Gain over no splits; in brackets the heuristic's number.

{table(["queries", *names], rows, [])}

With one query, splits asked for:

{table(["splits", *names], by_count, [])}"""


def _steps(result: Inference) -> str:
    rows = []
    for name in STEPS:
        of = [result.outcomes["step", name, splits] for splits in STEP_SPLITS]
        rows.append([
            name, *(f"{o.time_us:,.1f}" for o in of), f"{of[0].useful_rows:.1%}",
            what_holds(of[0]), what_holds(of[-1]),
        ])  # fmt: skip
    heads = ["step", "no splits, µs", "by heuristic", f"up to {STEP_SPLITS[-1]}", "useful rows",
             "no splits: held back by", f"up to {STEP_SPLITS[-1]}: held back by"]  # fmt: skip
    words = [heads[0], *heads[-2:]]
    return f"""## Batches as they come

Attention of one layer for a batch of unequal lengths, {HEADS} heads on {KV_HEADS}, causal. The \
heuristic counts tiles, as if all sequences were as long as the longest; only if it splits at all \
does the prepare kernel cut each sequence by its own length. Asking for a number makes it do so. \
*Useful rows* is the part of the rows multiplied that queries fill.

{table(heads, rows, words)}"""


def _sensitivity(result: Inference) -> str:
    rows = []
    for name, end in sorted({(k[2], k[3]) for k in result.outcomes if k[0] == "vary" and k[2]}):
        row = [f"`{name}`", number(getattr(B200, name)), number(end)]
        for step in DECODES:
            given = name == "dependent_launch_seconds"
            base = result.outcomes[("dependent", step) if given else ("vary", step, "", 0.0)]
            row.append(signed(base.time_us / result.outcomes["vary", step, name, end].time_us - 1))
        rows.append(row)
    dependent = ", ".join(
        f"{step}: {result.outcomes['vary', step, '', 0.0].time_us:.1f} to "
        f"{result.outcomes['dependent', step].time_us:.1f} µs"
        for step in DECODES
    )
    return f"""## Sensitivity

Change of speed of two split decode steps ({HEADS} heads on {KV_HEADS}; batch × keys) when a \
constant sits at an end of its range. `dependent_launch_seconds` is varied with the combine kernel \
launched as dependent, which the kernel's own launch does not ask for; it would make {dependent}.

{table(["constant", "chosen", "instead", *DECODES], rows, ["constant"])}"""


def _constants() -> str:
    rows = []
    for name in NEW:
        origin = B200.origins[name]
        rows.append([
            f"`{name}`", origin.kind, number(getattr(B200, name)),
            f"{number(origin.low or 0)} to {number(origin.high or 0)}", origin.source,
        ])  # fmt: skip
    return f"""## Constants that only inference needs

Beside these, measured on an H200: `load_l2_latency_cycles` and `global_atomic_cycles`, for the \
search of a tile in a batch of unequal lengths and the counter that hands tiles out; \
`cp_async_turn_cycles` and `cp_async_hbm_share`, for rows of pages. All others are those of the \
forward validation.

{table(["constant", "kind", "value", "range", "reason"], rows, ["constant", "kind", "reason"])}"""
