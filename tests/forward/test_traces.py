"""What an emulated run of our kernel is called: as in the simulator."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

pytest.importorskip("cutlass", reason="needs the CuTe DSL: pip install 'fa4sim[kernel]'")

import fa4kernel
from fa4kernel.cli.run import run_problem
from fa4kernel.forward.barrier_table import named_table, table
from fa4kernel.forward.config import Config
from fa4sim import B200, Problem, simulate
from fa4sim.cli.check import random_inputs
from fa4sim.pipelines.fa4.barriers import barrier_table, parties_of
from fa4sim.views.aligned import align

PROBLEMS = {
    "full": Problem(seqlen_q=256, seqlen_k=384),
    "causal": Problem(seqlen_q=300, heads=2, causal=True, head_dim=64),
    "pair": Problem(seqlen_q=512, seqlen_k=256),
}


@pytest.fixture(scope="module", params=PROBLEMS.values(), ids=PROBLEMS)
def runs(request):
    """The problem, the kernel's result and its trace, the simulator's trace."""
    problem = request.param
    rng = np.random.default_rng(0)
    q, k, v = (
        rng.standard_normal((1, rows, problem.heads, problem.head_dim)).astype(np.float32)
        for rows in (problem.seqlen_q, problem.seqlen_k, problem.seqlen_k)
    )
    result = fa4kernel.run(
        q, k, v, causal=problem.causal, dtype="bf16", backend="emulator", trace=True
    )
    assert not result.emulation.hazards
    return problem, result, result.emulation.trace, simulate(problem, result.design, B200).trace


def test_roles_are_the_simulators(runs):
    _, _, kernel, simulator = runs
    units = {"tma", "tma_store", "tensor", "idle"}
    assert set(kernel.span.unique("role")) - units == set(simulator.span.unique("role")) - units


def test_barriers_are_the_simulators_and_so_are_those_who_arrive(runs):
    _, result, kernel, _ = runs
    specs = barrier_table(result.design)
    for row in kernel.arrive.rows():
        if row["barrier"].startswith(("CTA barrier", "cluster")):  # of the start
            continue
        spec = specs[row["barrier"]]
        parties = {*parties_of(spec, row["stage"]), *(spec.waiters if spec.kind == "named" else ())}
        assert row["by"] in parties | {"tma"} or (row["by"], *parties) == ("mma", "peer_mma")


def test_the_same_mmas_are_issued_in_the_same_order(runs):
    _, _, kernel, simulator = runs
    found = align(simulator, kernel)
    assert len(found.issues) >= 8 and not found.missing


def test_every_block_is_loaded_and_lives_as_often(runs):
    _, _, kernel, simulator = runs
    for name in "KV":
        lives, expected = (
            Counter((row["tile"], row["block"])
                    for row in trace.expand().life.where(tensor=name).rows())
            for trace in (kernel, simulator)
        )  # fmt: skip
        assert lives == expected
        loads = {(row["tile"], row["block"]) for row in kernel.span.where(op=f"load {name}").rows()}
        assert loads == set(expected)


def test_tiles_that_threads_copy_live_where_and_as_often_as_the_simulators():
    problem = Problem(heads=4, kv_heads=1, seqlen_q=1, seqlens_k=(700,), page_size=16)
    inputs = random_inputs(problem, 0)
    result = run_problem(problem, inputs, backend="emulator", trace=True)
    simulator = simulate(problem, result.design, B200).trace
    kernel = result.emulation.trace
    assert set(kernel.span.where(role="cp_async").unique("op")) == {"load K", "load V"}
    for name in "KV":
        rows = [sorted(trace.expand().life.where(tensor=name).rows(), key=lambda row: row["birth"])
                for trace in (kernel, simulator)]  # fmt: skip
        lives, expected = ([(r["slot"], r["tile"], r["block"]) for r in each] for each in rows)
        assert lives == expected and len(lives) == 6
        for row in rows[0]:
            assert row["birth"] < row["first_use"] < row["last_use"] <= row["death"]


def test_softmax_works_on_every_block_once(runs):
    _, _, kernel, simulator = runs
    steps, expected = (
        {(row["role"], row["warp"], row["tile"], row["block"])
         for row in trace.expand().span.where(op="exp2").rows()}
        for trace in (kernel, simulator)
    )  # fmt: skip
    assert steps == expected


def test_labels_name_every_barrier_of_the_table():
    from fa4kernel.forward.labels import labels

    for cfg in (Config(), Config(cta_group=2, epilogue="tma"), Config(q_stages=1)):
        found = labels(cfg, [])
        assert len(found.barriers) == sum(stages for stages, _ in table(cfg).values())
        assert set(found.named.values()) == set(named_table(cfg))
