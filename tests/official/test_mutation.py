"""Mutants of the official kernel: enough of them, on problems that execute all they change."""

from __future__ import annotations

import pytest

from fa4kernel.emulator.emulate import decode
from fa4kernel.emulator.mutation.campaign import Options, run
from fa4kernel.emulator.mutation.coverage import never_ran, observe
from fa4kernel.emulator.mutation.evidence import Evidence
from fa4kernel.emulator.mutation.mutants import mutants_of
from fa4kernel.emulator.mutation.trial import attempt, measure
from tests.emulator.mutation import official as problems

pytestmark = [pytest.mark.official, pytest.mark.slow, pytest.mark.usefixtures("official")]

NAMES = ("single", "pair", "causal")


@pytest.mark.parametrize("name", NAMES)
def test_problem_executes_every_synchronisation_instruction(name: str) -> None:
    problem = getattr(problems, name)()
    program = decode(problem.ptx, problem.prepare().launch)
    function = program.context.function
    assert len(mutants_of(function)) >= 400
    assert never_ran(function, observe(program, problem.prepare().launch)) == []


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", NAMES)
def test_most_of_a_sample_is_detected_in_lock_step(name: str) -> None:
    options = Options(schedules=("lockstep",), sample=16, jobs=1)
    campaign = run(f"{problems.__name__}:{name}", options)
    faults = [t for t in campaign.tried if t.outcome.result in ("crashed", "refused")]
    assert faults == []
    assert campaign.detected >= 11


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", NAMES)
def test_wait_that_is_called_needless_orders_no_accesses(name: str) -> None:
    original = measure(getattr(problems, name)(), ("lockstep",))
    evidence = Evidence(original)
    races = ("read-before-write", "overwrite-while", "missing-proxy-fence", "uninitialised-read")
    dropped = [
        mutant
        for mutant in mutants_of(original.program.context.function)
        if (mutant.kind, mutant.change) == ("wait", "dropped")
        and evidence.place(mutant) in evidence.heard.needless
    ]
    assert dropped
    for mutant in dropped:
        outcome = attempt(original, mutant, ("lockstep",))
        assert not any(f"hazard {race}" in outcome.report for race in races), mutant.name
