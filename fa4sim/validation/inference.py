"""Inference beside what is published of it: FP8, decode, split keys, batches of many lengths."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from fa4sim.specs import B200, H200, Problem
from fa4sim.validation.bandwidth import InFlight, measured_rings, ring_rate
from fa4sim.validation.decode import decode_calls
from fa4sim.validation.errors import relative_error
from fa4sim.validation.inference_runs import Call, Outcome, Progress, published, run_calls
from fa4sim.validation.pages import Pages, run_pages

#: Sums of tokens, masks, head dims and lengths on which FP8 is held against bf16.
FP8_TOKENS = 32768
FP8_LENGTHS = (1024, 2048, 4096, 8192, 16384)
FP8_SHAPES = ((128, False), (128, True), (64, False), (64, True))

#: A model's heads, and the batches and lengths on which splitting is tried.
HEADS, KV_HEADS = 32, 8
BATCHES = (1, 2, 4, 8, 16, 32)
KEYS = (512, 1024, 4096, 16384, 65536)

#: Pull request 1940's shape: one sequence, these heads, these queries, so many keys.
LONG_KEYS = 131072
QUERIES = (1, 64, 128, 256, 512, 1024, 2048)
LONG_HEADS = (32, 1)
SPLIT_COUNTS = (1, 2, 4, 8, 16, 32, 64, 128, 256)

#: The new constants, varied on two decode steps.
VARIED = ("cp_async_latency_cycles", "dependent_launch_seconds", "hbm_bytes_per_second",
          "tma_l2_latency_cycles")  # fmt: skip
DECODES = {
    "1 × 65,536": Problem(heads=HEADS, kv_heads=KV_HEADS, seqlen_q=1, seqlen_k=65536, num_splits=0),
    "8 × 8,192": Problem(
        batch=8, heads=HEADS, kv_heads=KV_HEADS, seqlen_q=1, seqlen_k=8192, num_splits=0
    ),
}

#: Batches as a server has them: lengths of queries and of keys by sequence.
STEPS: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "64 users decode, 2k each": ((1,) * 64, (2048,) * 64),
    "64 users decode, one of 128k": ((1,) * 64, (2048,) * 63 + (131072,)),
    "a prompt of 2k beside 32 decodes": ((2048,) + (1,) * 32, (2048,) * 33),
    "a chunk of 512 of a prompt of 32k beside 32 decodes": (
        (512,) + (1,) * 32, (32768,) + (4096,) * 32),
    "8 users check 4 drafted tokens, 16k each": ((4,) * 8, (16384,) * 8),
}  # fmt: skip

#: Splits that are asked for there: none, by heuristic, and so many that each sequence gets its own.
STEP_SPLITS = (1, 0, 32)


@dataclass(frozen=True)
class Inference:
    """Everything the page shows, by what the calls were for."""

    outcomes: dict[Any, Outcome]
    rings: tuple[InFlight, ...]
    ring_table: dict[tuple[int, int], float]
    wall_s: float
    pages: Pages | None = None

    # -- what follows ----------------------------------------------------------------------------

    def fp8_gain(self, d: int, causal: bool, length: int) -> float:
        """How many times as fast FP8 is as bf16."""
        wide, narrow = (self.outcomes["fp8", d, causal, length, t] for t in ("bf16", "e4m3"))
        return wide.time_us / narrow.time_us

    def split_gain(self, batch: int, keys: int) -> float:
        """How many times as fast the heuristic's splits are as none."""
        whole, split = (self.outcomes["split", batch, keys, n] for n in (1, 0))
        return whole.time_us / split.time_us

    def long_gain(self, heads: int, queries: int, splits: int = 0) -> float:
        """The same on pull request 1940's shape."""
        whole = self.outcomes["long", heads, queries, 1]
        return whole.time_us / self.outcomes["long", heads, queries, splits].time_us

    def best_splits(self, heads: int) -> tuple[int, float]:
        """The number of splits that gains most with one query, and its gain."""
        gains = {n: self.long_gain(heads, 1, n) for n in SPLIT_COUNTS}
        best = max(gains, key=lambda n: gains[n])
        return best, gains[best]

    @property
    def headlines(self) -> dict[str, tuple[float, float]]:
        """Published and simulated headline ratios."""
        data = published()["headlines"]
        fp8 = max(
            self.fp8_gain(d, causal, length)
            for d, causal in FP8_SHAPES
            for length in FP8_LENGTHS
        )  # fmt: skip
        split = max(
            *(self.long_gain(32, q) for q in QUERIES), self.best_splits(32)[1]
        )  # fmt: skip
        return {"FP8 over bf16": (data["fp8"], fp8), "split keys": (data["split"], split)}

    def decode_errors(self) -> list[tuple[dict[str, Any], Outcome, float]]:
        """Published decode rows with what was simulated, and its error of throughput."""
        rows = []
        for row in published()["decode"]:
            outcome = self.outcomes["decode", row["name"]]
            rows.append((row, outcome, relative_error(row["published_us"], outcome.time_us)))
        return rows

    def to_dict(self) -> dict[str, Any]:
        """The same as plain data."""
        return {
            "headlines": {
                name: {"published": a, "simulated": b} for name, (a, b) in self.headlines.items()
            },
            "decode": [
                {
                    "name": row["name"],
                    "published_us": row["published_us"],
                    "simulated_us": outcome.time_us,
                    "error": error,
                }
                for row, outcome, error in self.decode_errors()
            ],
            "calls": [
                {"call": list(key), **{k: v for k, v in vars(outcome).items() if k != "units"}}
                for key, outcome in self.outcomes.items()
            ],
            "rings": [vars(ring) for ring in self.rings],
            "pages": self.pages.to_dict() if self.pages is not None else None,
            "wall_s": self.wall_s,
        }


def run_inference(progress: Progress | None = None) -> Inference:
    """Simulate everything that the page on inference shows."""
    started = time.perf_counter()
    outcomes = run_calls(dict(inference_calls()), progress)
    light = replace(H200, clock_hz=1.98e9)
    table = {
        (sms, kib): ring_rate(B200, kib * 1024, sms, from_hbm=True, stage_bytes=32768)
        for sms in (4, 32, 148)
        for kib in (32, 64, 96, 128, 160)
    }
    rings = tuple(measured_rings(light))
    pages = run_pages(progress)
    return Inference(outcomes, rings, table, time.perf_counter() - started, pages)


def inference_calls() -> Iterator[tuple[Any, Call]]:
    """Every call, by what it is for."""
    yield from _fp8_calls()
    for row in published()["decode"]:
        yield ("decode", row["name"]), Call(Problem(**row["problem"]), row["design"])
    yield from decode_calls()
    yield from _split_calls()
    for name, (queries, keys) in STEPS.items():
        for splits in STEP_SPLITS:
            problem = Problem(
                heads=HEADS, kv_heads=KV_HEADS, seqlens_q=queries, seqlens_k=keys, causal=True,
                num_splits=splits,
            )  # fmt: skip
            yield ("step", name, splits), Call(problem)


def _fp8_calls() -> Iterator[tuple[Any, Call]]:
    data = published()["fp8"]
    for length in data["lengths"]:
        for dtype in ("bf16", "e4m3"):
            problem = Problem(
                batch=data["tokens"] // length, seqlen_q=length, dtype=dtype, **data["problem"]
            )
            own = data["design_8bit"] if dtype == "e4m3" else {}
            yield ("2109", length, dtype), Call(problem, {**data["design"], **own})
    for d, causal in FP8_SHAPES:
        for length in FP8_LENGTHS:
            for dtype in ("bf16", "e4m3"):
                problem = Problem(
                    batch=FP8_TOKENS // length, heads=2048 // d, seqlen_q=length, head_dim=d,
                    causal=causal, dtype=dtype,
                )  # fmt: skip
                yield ("fp8", d, causal, length, dtype), Call(problem)


def _split_calls() -> Iterator[tuple[Any, Call]]:
    for batch in BATCHES:
        for keys in KEYS:
            for splits in (1, 0):
                problem = Problem(
                    batch=batch, heads=HEADS, kv_heads=KV_HEADS, seqlen_q=1, seqlen_k=keys,
                    num_splits=splits,
                )  # fmt: skip
                yield ("split", batch, keys, splits), Call(problem)
    for heads in LONG_HEADS:
        for queries in QUERIES:
            counts = {1, 0, *(SPLIT_COUNTS if queries == 1 else ())}
            for splits in sorted(counts):
                problem = Problem(
                    heads=heads, seqlen_q=queries, seqlen_k=LONG_KEYS, num_splits=splits
                )
                yield ("long", heads, queries, splits), Call(problem)
    for dtype in ("bf16", "e4m3"):
        for ctas in (4, 16, 64, 148):
            problem = Problem(
                batch=ctas // 4, heads=HEADS, kv_heads=4, seqlen_q=1, seqlen_k=65536, dtype=dtype
            )
            yield ("ctas", dtype, ctas), Call(problem)
    for step, problem in DECODES.items():
        yield ("vary", step, "", 0.0), Call(problem)
        yield ("dependent", step), Call(problem, {"dependent_launch": True})
        for name in VARIED:
            origin, chosen = B200.origins[name], getattr(B200, name)
            design = {"dependent_launch": True} if name == "dependent_launch_seconds" else {}
            for end in (origin.low, origin.high):
                if end not in (None, chosen):
                    yield ("vary", step, name, end), Call(problem, design, {name: end})
