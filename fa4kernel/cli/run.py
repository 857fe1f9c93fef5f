"""``fa4kernel run``: our kernel on random arrays, held against float64."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from fa4kernel import api
from fa4kernel.accuracy import LSE, Accuracy, accuracy, rows_seen
from fa4kernel.cli.facts import counted, deadlock_facts, hazard_facts, hazard_words, serious
from fa4kernel.cli.pages import with_traps
from fa4kernel.compiling import CompilationError
from fa4kernel.descales import NAMES as DESCALES
from fa4kernel.emulator import DeadlockError, EmulationError
from fa4kernel.emulator.emulate import CHECKS
from fa4kernel.emulator.machine.adversary import schedule_of
from fa4kernel.forward.config import Config
from fa4kernel.forward.design import design_for
from fa4sim.cli import options
from fa4sim.cli.check import Inputs, check_size, random_inputs
from fa4sim.cli.describe import design_words, problem_words, setup_facts
from fa4sim.cli.errors import BadInput, CheckFailed, PipelineBroken, refusals
from fa4sim.cli.output import print_json, say
from fa4sim.specs import Machine, Problem

SMALL = {"batch": 1, "heads": 2, "seqlen_q": 512}


@click.command(
    epilog=options.examples(
        "fa4kernel run",
        "fa4kernel run --causal --heads 4 --kv-heads 2 --seqlen-q 300 --seqlen-k 700",
        "fa4kernel run --head-dim 64 --window 128,0 --sink --dtype fp16 --json",
        "fa4kernel run --set cta_group=1 --schedule 7",
        "fa4kernel run --dtype e4m3 --descale",
        "fa4kernel run --page-size 16 --heads 8 --kv-heads 2 --seqlen-q 1 --seqlen-k 1000",
        "fa4kernel run --heads 16 --kv-heads 2 --seqlen-q 1 --seqlen-k 2000 --num-splits 0",
    )
)
@options.problem_options(SMALL)
@options.machine_option()
@options.set_option()
@options.seed_option()
@click.option(
    "--backend",
    type=click.Choice(api.BACKENDS),
    default="auto",
    show_default=True,
    help="A Blackwell GPU, or the emulator; auto takes the GPU if there is one.",
)
@click.option(
    "--schedule",
    default="lockstep",
    show_default=True,
    metavar="NAME",
    help="Of the emulator, see `fa4kernel emulate --help`.",
)
@click.option(
    "--checks",
    type=click.Choice(CHECKS),
    default="default",
    show_default=True,
    help="Of the emulator.",
)
@click.option(
    "--descale",
    is_flag=True,
    help="Multiply FP8 by random factors, 0.5 to 1.5, of each sequence and K/V head.",
)
@options.json_option()
def run(
    as_json: bool, seed: int, backend: str, schedule: str, checks: str, descale: bool, **given: Any
) -> None:
    """Run our forward kernel on random arrays and compare with float64.

    Inputs are standard normal numbers drawn with --seed. The output may be 1.2 times as far off as
    that of PyTorch's flash attention on the same values, one element twice as far, LSE 1e-3; and
    the emulator must have nothing to report but advisories. Of FP8 the comparison is with exact
    attention whose probabilities alone are rounded. Otherwise the exit code is 1, or 3 for a hazard
    or a deadlock. The same command gives the same reports again. Needs the CuTe DSL.
    """
    request = options.Request.of(given, SMALL)
    with refusals():
        setup = request.build()
        check_machine(setup.machine)
        design = design_for(setup.problem, setup.machine, **request.settings.design)
        Config.of(setup.problem, design, descale=descale)  # refuses what the kernel does not do
        schedule_of(schedule)
    setup = options.Setup(setup.problem, design, setup.machine)
    check_size(setup.problem)
    started = time.perf_counter()
    draw = partial(descaled_inputs if descale else random_inputs, setup.problem)
    inputs = draw(seed)
    try:
        with refusals():
            result = run_problem(
                setup.problem, inputs, backend=backend, schedule=schedule, checks=checks,
                machine=setup.machine, design=request.settings.design,
            )  # fmt: skip
    except CompilationError as error:
        raise BadInput(str(error)) from None
    except EmulationError as error:
        error.replay = ""  # a call that nobody here has made: the command itself is the replay
        known = deadlock_facts(error) if isinstance(error, DeadlockError) else {}
        raise PipelineBroken(str(error), {"fault": error.kind, **known}) from None
    out, lse = padded(setup.problem, result.out), padded_lse(setup.problem, result.lse)
    found = accuracy(setup.problem, draw, seed, out, lse)
    found_there = result.emulation.hazards if result.emulation is not None else ()
    hazards = [replace(hazard, replay="") for hazard in found_there]
    facts = {
        "rel_err": found.errors.relative,
        "rel_err_limit": found.limit.relative if found.limit else None,
        "max_abs_err": found.errors.largest,
        "max_abs_err_limit": found.limit.largest if found.limit else None,
        "lse_max_abs_err": found.lse,
        "hazards": [hazard_facts(hazard) for hazard in hazards],
        "wall_s": time.perf_counter() - started,
        "ok": found.ok and not serious(hazards),
        "backend": result.backend,
        "seed": seed,
        **setup_facts(setup),
    }
    if not as_json:
        say(f"{setup.machine.name}: {problem_words(setup.problem)}")
        say(f"design: {design_words(setup.design)}")
        say(f"backend: {result.backend}\n")
        say(accuracy_words(found))
        say(hazard_words(hazards) if hazards else "hazards: none")
        say(f"\n{'ok' if facts['ok'] else 'FAILED'} in {facts['wall_s']:.1f} s")
    if serious(hazards):
        raise PipelineBroken(counted(hazards), facts)
    if not facts["ok"]:
        raise CheckFailed("the output is further off than it may be", facts)
    if as_json:
        print_json(facts)


def check_machine(machine: Machine) -> None:
    """Refuse a GPU that is no Blackwell.

    Raises:
        ValueError: it has no tensor memory.
    """
    if not machine.tmem_columns:
        raise ValueError(
            f"{machine.name} has no tensor memory, and this command runs the Blackwell kernel; "
            "the Hopper one: `fa4kernel trace --backend emulator`, or in Python "
            'fa4kernel.run(q, k, v, architecture="sm_90a", backend="emulator")'
        )


def descaled_inputs(problem: Problem, seed: int) -> Inputs:
    """Random inputs of FP8, with factors from 0.5 to 1.5."""
    assert problem.kv_heads is not None
    shape = len(DESCALES), problem.batch, problem.kv_heads
    factors = np.random.default_rng([seed, *shape]).uniform(0.5, 1.5, shape)
    return replace(random_inputs(problem, seed), descales=factors.astype(np.float32))


def run_problem(problem: Problem, inputs: Inputs, **how: Any) -> api.Result:
    """Our kernel on a problem's values.

    Args:
        problem: what to compute.
        inputs: float32 q (batch, seqlen_q, heads, head_dim), k, v and sink.
        how: see :func:`fa4kernel.api.run`.
    """
    return api.run(**arguments(problem, inputs), **how)


def arguments(problem: Problem, inputs: Inputs) -> dict[str, Any]:
    """The arguments with which :func:`fa4kernel.api.run` computes a problem on these values."""
    given: dict[str, Any] = {"q": inputs.q, "k": inputs.k, "v": inputs.v}
    lengths = [problem.lengths(batch) for batch in range(problem.batch)]
    queries, keys = ([each[side] for each in lengths] for side in (0, 1))
    end_to_end = [("q", queries)] if problem.seqlens_q is not None else []
    if problem.page_size is not None:
        given |= with_traps(problem, inputs)
    elif problem.seqlens_q is not None:
        end_to_end += [("k", keys), ("v", keys)]
    elif problem.seqlens_k is not None:
        given["seqused_k"] = np.array(keys, np.int32)
    for name, those in end_to_end:
        rows = [row[:length] for row, length in zip(given[name], those, strict=True)]
        given[name] = np.concatenate(rows)
        if name != "v":
            given[f"cu_seqlens_{name}"] = np.cumsum([0, *those]).astype(np.int32)
    if inputs.descales is not None:
        given |= dict(zip(DESCALES, inputs.descales, strict=True))
    return given | {
        "causal": problem.causal,
        "window": None if problem.causal else problem.window,
        "softmax_scale": problem.softmax_scale,
        "sink": inputs.sink,
        "num_splits": problem.num_splits,
        "dtype": problem.dtype,
    }


def padded(problem: Problem, out: NDArray[Any]) -> NDArray[Any]:
    """(batch, seqlen_q, heads, head_dim_v), rows beyond a sequence 0."""
    if problem.seqlens_q is None:
        return out
    whole = np.zeros((problem.batch, problem.seqlen_q, *out.shape[1:]), out.dtype)
    whole[rows_seen(problem)] = out
    return whole


def padded_lse(problem: Problem, lse: NDArray[Any]) -> NDArray[Any]:
    """(batch, heads, seqlen_q), rows beyond a sequence -inf."""
    if problem.seqlens_q is None:
        return lse
    whole = np.full((problem.batch, problem.seqlen_q, problem.heads), -np.inf, lse.dtype)
    whole[rows_seen(problem)] = lse.T
    return whole.swapaxes(1, 2)


def accuracy_words(found: Accuracy) -> str:
    """Errors and what they may be, over two lines."""
    limit, errors = found.limit, found.errors
    far = f" (limit {limit.relative:.2e})" if limit else " (no limit: PyTorch is not installed)"
    one = f" (limit {limit.largest:.2e})" if limit else ""
    return (
        f"float64 reference: relative error {errors.relative:.2e}{far}, "
        f"largest {errors.largest:.2e}{one}\nLSE: largest error {found.lse:.1e} (limit {LSE:.0e})"
    )
