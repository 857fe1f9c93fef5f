"""The official kernel's reports speak in the names that the simulator has."""

from __future__ import annotations

import pytest

from fa4kernel.emulator.emulate import decode
from fa4kernel.emulator.mutation.mutants import mutants_of
from fa4kernel.emulator.mutation.trial import Original, attempt, measure
from fa4kernel.emulator.names import Names
from fa4sim.pipelines.fa4.barriers import barrier_table
from fa4sim.specs import Design
from tests.emulator.mutation import official as problems

pytestmark = [pytest.mark.official, pytest.mark.usefixtures("official")]


def names() -> tuple[Names, Design]:
    problem = problems.single()
    launch = problem.prepare().launch
    context = decode(problem.ptx, launch).context
    design = Design(cta_group=1, kv_stages=3)
    return Names(context.function, context.address_of, launch.block, launch.labels), design


def test_barriers_are_those_of_the_simulator_with_their_counts() -> None:
    found, design = names()
    table = {spec.name: spec for spec in barrier_table(design).values() if spec.used}
    mbarriers = {name for name, spec in table.items() if spec.kind == "mbarrier"}
    families: dict[str, list[int | None]] = {}
    for barrier in found.mbarriers.values():
        families.setdefault(barrier.family, []).append(barrier.count)
    assert mbarriers <= families.keys()
    for name in mbarriers:
        assert families[name] == [table[name].count] * table[name].stages
    for spec in table.values():
        if spec.kind == "named":
            assert found.named_barriers[spec.number].family == spec.name


def test_a_deadlock_names_the_barrier_and_the_role() -> None:
    problem = problems.single()
    program = decode(problem.ptx, problem.prepare().launch)
    mutant = next(
        mutant
        for mutant in mutants_of(program.context.function)
        if (mutant.kind, mutant.change) == ("commit", "dropped")
    )
    outcome = attempt(Original(problem, program, [], 10**6), mutant, ("lockstep",))
    assert outcome.result == "deadlock"
    assert "waits for phase 0 (parity 0) of S_full[0]" in outcome.report
    assert "softmax0" in outcome.report


@pytest.mark.slow
def test_hazards_name_the_slot_or_the_columns() -> None:
    original = measure(problems.single(), ("lockstep",))
    missing = {"sQ[", "sKV[", "S[", "P[", "O["}
    for mutant in mutants_of(original.program.context.function):
        if mutant.change == "dropped" and mutant.kind in ("wait", "tcgen05 wait"):
            report = attempt(original, mutant, ("lockstep",)).report
            missing -= {slot for slot in missing if slot in report.split("\n")[0]}
        if not missing:
            break
    assert not missing
