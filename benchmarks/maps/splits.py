"""How many parts the keys of a decode step should be cut into, by length and batch."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.maps.pictures import heat_maps
from benchmarks.maps.section import Section, table
from benchmarks.maps.stored import Row, left_out, one, values
from fa4sim import B200, Problem, design_for

KV_HEADS, HEADS = 4, 32


def chosen(batch: int, keys: int) -> int:
    """The kernel's own number of splits."""
    problem = Problem(batch=batch, heads=HEADS, kv_heads=KV_HEADS, seqlen_q=1, seqlen_k=keys,
                      num_splits=0)  # fmt: skip
    return int(design_for(problem, B200).num_splits)


def section(rows: Sequence[Row]) -> Section:
    """The fastest number of splits, what it buys, and what the kernel's own choice loses."""
    batches, lengths = values(rows, "batch"), values(rows, "seqlen_k")
    counts = [count for count in values(rows, "num_splits") if count]
    best: list[list[int]] = []
    gains: list[list[float | None]] = []
    lost: list[tuple[float, int, int]] = []
    body = []
    for batch in batches:
        times = {
            (n, c): row["time_us"]
            for n in lengths
            for c in (0, *counts)
            if (row := one(rows, batch=batch, seqlen_k=n, num_splits=c)) is not None
        }
        fastest = {n: min((c for c in counts if (n, c) in times), key=lambda c: times[n, c])
                   for n in lengths}  # fmt: skip
        best.append([fastest[n] for n in lengths])
        gains.append([times[n, 1] / times[n, fastest[n]] for n in lengths])
        lost += [(times[n, 0] / times[n, fastest[n]] - 1, batch, n) for n in lengths]
        body.append((
            f"batch {batch}",
            *(f"{fastest[n]} / {chosen(batch, n)} / {times[n, 0] / times[n, fastest[n]] - 1:+.0%}"
              for n in lengths),
        ))  # fmt: skip
    name = "fastest number of splits, and times as fast as one"
    cells = [
        [f"{count}\n{gain:.1f}×" for count, gain in zip(*pair, strict=True)]
        for pair in zip(best, gains, strict=True)
    ]
    most = max(gain for line in gains for gain in line if gain is not None)
    loss, batch, keys = max(lost)
    return Section(
        "How many splits, by length and batch",
        f"A decode step: one new token for each sequence, {HEADS} query heads on {KV_HEADS} K/V "
        f"heads of d = 128, bf16, on {B200.sms} SMs. The {HEADS // KV_HEADS} query heads of a K/V "
        "head are packed into one tile, so without splits there are as many CTAs as batch times "
        "K/V heads. Splitting the keys makes more; a second kernel then combines their results. In "
        "every cell: the fastest number of splits, and how many times as fast it is as none.",
        heat_maps({name: gains}, lengths, batches, "Splitting the keys of a decode step",
                  "keys", "batch", cells={name: cells}, tall=0.5),
        f"The fastest number of splits by length and batch, up to {most:.1f} times as fast as none",
        f"What splitting buys is a GPU that is full: up to {most:.1f} times at batch 1, nothing "
        "worth having once batch times K/V heads are nearly as many as SMs. The published figure "
        "is up to 4.37 times (Modal, 2026-06-11; its shape is not given), with shapes of pull "
        "request 1940 [beside the simulator](validation/inference.md#headline-ratios). "
        "Short sequences want fewer, since each part costs its own start, its end, and work in the "
        "second kernel. Tried were "
        f"{', '.join(map(str, counts))}. Fastest / the kernel's own choice (`num_splits=0`) / what "
        f"that loses, at most {loss:.0%} (batch {batch}, {keys:,} keys):\n\n"
        + table(("keys", *(f"{n:,}" for n in lengths)), body)
        + "".join(f"\n\nLeft out: {text}." for text in left_out(rows)),
    )  # fmt: skip
