"""FP8 against bf16, by length and batch."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.maps.pictures import heat_maps
from benchmarks.maps.section import Section, table
from benchmarks.maps.stored import Row, left_out, one, values

PANELS = {"no mask": False, "causal": True}
#: The batch of the table that says what stops whom.
SHOWN = 4


def gain(rows: Sequence[Row], **settings: object) -> float | None:
    """How many times as fast e4m3 is as bf16."""
    slow, fast = (one(rows, dtype=dtype, **settings) for dtype in ("bf16", "e4m3"))
    return None if slow is None or fast is None else slow["time_us"] / fast["time_us"]


def section(rows: Sequence[Row]) -> Section:
    """The map, and which unit or wait stops each."""
    batches, lengths = values(rows, "batch"), values(rows, "seqlen_q")
    panels = {
        name: [[gain(rows, causal=causal, batch=b, seqlen_q=n) for n in lengths] for b in batches]
        for name, causal in PANELS.items()
    }
    gains = [g for panel in panels.values() for line in panel for g in line if g is not None]
    lines = []
    for causal in PANELS.values():
        for n in lengths:
            slow, fast = (
                one(rows, causal=causal, batch=SHOWN, seqlen_q=n, dtype=d) for d in ("bf16", "e4m3")
            )
            if slow is None or fast is None:
                continue
            lines.append((
                f"{n:,}{', causal' if causal else ''}", f"{slow['tflops']:,.0f}",
                f"{fast['tflops']:,.0f}", f"{slow['time_us'] / fast['time_us']:.2f}",
                verdict(slow), verdict(fast),
            ))  # fmt: skip
    head = ("length", "bf16, TFLOP/s", "e4m3, TFLOP/s", "times as fast", "what holds bf16",
            "what holds e4m3")  # fmt: skip
    return Section(
        "What FP8 buys, by length and batch",
        "e4m3 doubles the rate of the tensor pipe and halves the bytes of Q, K and V. "
        "Exponentials, the rows' maxima and sums, and the rescaling of O take as long as before: "
        "they are done in float32. 16 heads of d = 128, as many keys as queries. In every cell: "
        "how many times as fast as bf16.",
        heat_maps(panels, lengths, batches, "FP8: how many times as fast as bf16",
                  "queries and keys", "batch"),
        f"How many times as fast FP8 is as bf16, {min(gains):.2f} to {max(gains):.2f}",
        f"From {min(gains):.2f} to {max(gains):.2f} times, and never near 2. Published: up to 1.16 "
        "(Modal, 2026-06-11; the shapes are not given); rows of pull request 2109 stand [beside "
        "the simulator](validation/inference.md#fp8-as-it-came). What stops a batch of "
        f"{SHOWN}, by the report of `fa4sim run`:\n\n" + table(head, lines)
        + "".join(f"\n\nLeft out: {text}." for text in left_out(rows)),
    )  # fmt: skip


def verdict(row: Row) -> str:
    """The first words of a report's verdict."""
    return str(row["bottleneck"]).partition(":")[0]
