"""Models that know nothing of the pipeline, fitted on the same rows: what a simulator must beat.

Each has as many constants as the simulator has fitted ones, or fewer, and each reproduces its
fitted rows about as well. Where one of them does as well on the others, simulating buys nothing
but the explanation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from fa4sim.specs import Problem
from fa4sim.validation.published import Row

Model = Callable[[Problem], float]


def mean_keys(problem: Problem) -> float:
    """Keys a query looks at, on average."""
    assert problem.seqlen_k is not None
    return problem.flops / (
        2 * problem.batch * problem.heads * problem.seqlen_q * (problem.head_dim + problem.dim_v)
    )


def roofline(rows: Sequence[Row]) -> Model:
    """The time of the busiest unit alone, times one constant.

    Tensor pipe and MUFU at their rates, bytes at HBM's: ``max`` of the three, by the whole chip.
    """

    def bound(row_machine: Row, problem: Problem) -> float:
        machine = row_machine.machine
        rate = machine.sms * machine.clock_hz
        pairs = mean_keys(problem) * problem.batch * problem.heads * problem.seqlen_q
        tensor = problem.flops / (machine.tensor_flops_per_cycle_16bit * rate)
        mufu = pairs / (128 / machine.mufu_cycles_per_warp * rate)
        elements = problem.batch * (
            problem.seqlen_q * problem.heads * (problem.head_dim + problem.dim_v)
            + (problem.seqlen_k or 0) * (problem.kv_heads or 0) * (problem.head_dim + problem.dim_v)
        )
        hbm = elements * problem.element_bytes / machine.hbm_bytes_per_second
        return problem.flops / max(tensor, mufu, hbm) / 1e12

    ratios = [row.published / bound(row, row.problem) for row in rows]
    factor = math.exp(sum(math.log(ratio) for ratio in ratios) / len(ratios))
    return lambda problem: factor * bound(rows[0], problem)


def quadratic(rows: Sequence[Row]) -> Model:
    """A quadratic in log2 of the mean keys per query, through the fitted rows.

    The mean keys per query tell full from causal rows, which have the same length.
    """
    x = [math.log2(mean_keys(row.problem)) for row in rows]
    curve = np.polyfit(x, [row.published for row in rows], 2)
    return lambda problem: float(np.polyval(curve, math.log2(mean_keys(problem))))


def per_block(rows: Sequence[Row]) -> Model:
    """Cycles per K/V block and cycles per tile of Q, for the fitted rows, and the launch.

    A tile is 256 queries of one head, its blocks are 128 keys each; SMs share them evenly. The
    launch is the machine's: the published rows all have as many tiles, which leaves nothing to
    tell a constant time from one per tile.
    """

    def counts(row: Row, problem: Problem) -> tuple[float, float]:
        sms, clock = row.machine.sms, row.machine.clock_hz
        tiles = problem.batch * problem.heads * math.ceil(problem.seqlen_q / 256)
        per_tile = sum(_blocks(problem, m) for m in range(math.ceil(problem.seqlen_q / 256)))
        blocks = problem.batch * problem.heads * per_tile
        return blocks / sms / clock, tiles / sms / clock

    launch = rows[0].machine.launch_seconds
    table = np.array([counts(row, row.problem) for row in rows])
    seconds = np.array([row.problem.flops / row.published / 1e12 for row in rows])
    # Rows weigh alike: each equation is divided by its own time.
    wanted = (seconds - launch) / seconds
    solved, *_ = np.linalg.lstsq(table / seconds[:, None], wanted, rcond=None)

    def model(problem: Problem) -> float:
        kernel = float(np.dot(counts(rows[0], problem), solved))
        return problem.flops / (kernel + launch) / 1e12

    return model


def _blocks(problem: Problem, m_block: int) -> int:
    """Blocks of 128 keys that a tile of 256 queries looks at."""
    keys = problem.seqlen_k or 0
    if problem.causal:
        keys = min(keys, 256 * (m_block + 1) + keys - problem.seqlen_q)
    return max(1, math.ceil(keys / 128))


#: Name to the function that fits it.
NULL_MODELS: dict[str, Callable[[Sequence[Row]], Model]] = {
    "roofline × constant": roofline,
    "quadratic in log₂ of keys per query": quadratic,
    "per block + per tile": per_block,
}
