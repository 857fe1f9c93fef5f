"""``fa4sim run``: how long a problem takes, and what holds it back."""

from __future__ import annotations

from typing import Any

import click

from fa4sim.cli import options
from fa4sim.cli.describe import (
    design_words,
    problem_words,
    report_facts,
    report_words,
    setup_facts,
)
from fa4sim.cli.errors import hazard_facts, hazardous, refusals
from fa4sim.cli.output import note, print_json, say, shows_progress
from fa4sim.simulate import Run, simulate
from fa4sim.specs.idle import idle_settings, idle_words


@click.command(
    epilog=options.examples(
        "fa4sim run",
        "fa4sim run --batch 1 --heads 32 --kv-heads 8 --seqlen-q 16384 --causal",
        "fa4sim run --set kv_stages=2 --set exp2_period=0 --json",
        "fa4sim run --machine b300 --set machine.clock_hz=1.7e9",
        "fa4sim run --seqlens lengths.csv --causal",
        "fa4sim run --heads 1 --seqlen-q 512 --break drop_arrival:S_full",
    )
)
@options.problem_options()
@options.machine_option()
@options.set_option()
@options.seed_option()
@click.option("--exact", is_flag=True, help="Simulate every CTA, not one per class of work (slow).")
@options.break_option()
@options.json_option()
def run(as_json: bool, seed: int, exact: bool, **given: Any) -> None:
    """Simulate a GPU: time, units, waits, bottleneck.

    Without options it runs batch 4, 16 heads, 8192 × 8192, head dim 128, bf16 with the design
    the kernel itself would choose on a B200.

    TFLOP/s count the work as published figures do: a causal mask is half of queries x keys,
    whatever their numbers. Where it lets through something else, the report says what that gives
    (tflops_visible in --json).

    A hazard on the way (two things that must not happen together) ends with exit code 3 after the
    report, a deadlock with exit code 3 and who waits for what.
    """
    request = options.Request.of(given)
    setup = request.build()
    if exact and shows_progress():
        note("simulating every CTA; this can take minutes (Ctrl-C stops it)")
    with refusals():
        result = simulate(
            setup.problem, setup.design, setup.machine, seed=seed, exact=exact, on_hazard="record"
        )
    idle = idle_settings(request.set_names, [setup])
    facts = {**run_facts(result, setup), "idle": idle}
    if not as_json:
        say(f"{setup.machine.name}: {problem_words(setup.problem)}")
        say(f"design: {design_words(setup.design)}")
        say(f"{idle_words(idle)}\n" if idle else "")
        say(report_words(result.report, setup.machine, setup.problem))
    if result.hazards:
        raise hazardous(result.hazards, facts)
    if as_json:
        print_json(facts)


def run_facts(result: Run, setup: options.Setup) -> dict[str, Any]:
    """A run as plain data: the report's figures, hazards, and what was run."""
    return {
        **report_facts(result.report),
        "hazards": hazard_facts(result.hazards),
        **setup_facts(setup),
    }
