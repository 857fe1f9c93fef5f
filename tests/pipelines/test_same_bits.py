"""8 bits, splits, pages and packed heads: the pipeline has the bits of attention_blockwise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fa4sim import B200, Design, Problem, simulate
from fa4sim.numerics import attention_blockwise, round_to, scatter_pages

CASES: dict[str, tuple[Problem, dict[str, Any]]] = {
    "e4m3, a pair": (Problem(heads=2, seqlen_q=512, seqlen_k=384, dtype="e4m3"), {}),
    "e4m3, causal": (Problem(heads=1, seqlen_q=300, seqlen_k=420, dtype="e4m3", causal=True), {}),
    "e5m2, window, sink": (
        Problem(heads=2, seqlen_q=200, seqlen_k=420, dtype="e5m2", window=(90, 20), sink=True), {},
    ),
    "e4m3, softcap": (Problem(heads=2, seqlen_q=140, seqlen_k=300, dtype="e4m3", softcap=3.0), {}),
    "e4m3, offset 4": (
        Problem(heads=1, seqlen_q=140, seqlen_k=400, dtype="e4m3"),
        {"rescale_threshold": 4.0, "max_offset": 4},
    ),
    "e4m3, heads of 3 packed": (
        Problem(batch=2, heads=6, kv_heads=2, seqlen_q=50, seqlen_k=300, dtype="e4m3"), {},
    ),
    "splits": (Problem(batch=2, heads=8, kv_heads=2, seqlen_q=3, seqlen_k=700, num_splits=3), {}),
    "splits, causal, sink": (
        Problem(heads=2, seqlen_q=300, seqlen_k=600, num_splits=4, causal=True, sink=True), {},
    ),
    "empty splits": (Problem(heads=2, seqlen_q=100, seqlen_k=200, num_splits=8), {}),
    "splits, no keys for some": (
        Problem(heads=2, seqlen_q=600, seqlen_k=100, num_splits=2, causal=True, sink=True), {},
    ),
    "splits, e4m3": (
        Problem(batch=2, heads=8, kv_heads=2, seqlen_q=1, seqlen_k=900, num_splits=5, dtype="e4m3"),
        {},
    ),
    "pages of 16, e4m3": (
        Problem(heads=8, kv_heads=2, seqlen_q=2, seqlen_k=300, dtype="e4m3", page_size=16), {},
    ),
    "pages of 128, splits": (
        Problem(heads=4, kv_heads=2, seqlen_q=2, seqlen_k=700, num_splits=2, page_size=128),
        {},
    ),
}  # fmt: skip


def drawn(problem: Problem, seed: int) -> tuple[list[np.ndarray], np.ndarray | None, list[Any]]:
    """q, k, v of the problem's values; a sink; descales if there are 8 bits."""
    rng = np.random.default_rng(seed)
    batch, kv_heads = problem.batch, problem.kv_heads or problem.heads
    shapes = [
        (batch, problem.seqlen_q, problem.heads, problem.head_dim),
        (batch, problem.seqlen_k or 0, kv_heads, problem.head_dim),
        (batch, problem.seqlen_k or 0, kv_heads, problem.dim_v),
    ]
    arrays = [round_to(rng.standard_normal(s).astype(np.float32), problem.dtype) for s in shapes]
    sink = rng.standard_normal(problem.heads).astype(np.float32) if problem.sink else None
    descales: list[Any] = [None] * 3
    if problem.dtype in ("e4m3", "e5m2"):
        descales = [rng.uniform(0.4, 1.7, (batch, kv_heads)).astype(np.float32) for _ in "qkv"]
    return arrays, sink, descales


@pytest.mark.parametrize("name", CASES)
def test_the_pipeline_gives_the_bits_of_one_thread_in_order(name: str) -> None:
    problem, changes = CASES[name]
    design = Design.for_problem(problem, B200, **changes)
    (q, k, v), sink, descales = drawn(problem, 3)
    given: dict[str, Any] = {"arrays": (q, k, v)}
    if problem.page_size:
        needed = -(-(problem.seqlen_k or 0) // problem.page_size)
        count = problem.batch * needed
        table = np.random.default_rng(4).permutation(count).reshape(-1, needed).astype(np.int32)
        lengths = [problem.seqlen_k or 0] * problem.batch
        pages = (scatter_pages(x, table, lengths, problem.page_size, count) for x in (k, v))
        given = {"arrays": (q, *pages), "page_table": table}
    if descales[0] is not None:
        given["descales"] = descales
    run = simulate(problem, design, sink=sink, **given)
    by_q, by_k, by_v = descales
    out, lse = attention_blockwise(
        q, k, v, q_descale=by_q, k_descale=by_k, v_descale=by_v, sink=sink, dtype=problem.dtype,
        causal=problem.causal, window=problem.window, softcap=problem.softcap,
        q_stage=design.q_stages, pack_gqa=design.pack_gqa, num_splits=design.num_splits,
        threshold=design.rescale_threshold, max_offset=design.max_offset,
        emulation_freq=design.exp2_period, emulation_start=design.exp2_first_fragment,
    )  # fmt: skip
    assert run.outputs is not None
    assert np.array_equal(run.outputs.out, out)
    assert np.array_equal(run.outputs.lse, lse)
