"""One look for every picture: every barrier has its own, in the colour of who arrives there."""

from __future__ import annotations

import pytest

from fa4kernel.hopper.traced import BETWEEN, PHASES
from fa4sim import B200, H200, Problem, simulate
from fa4sim.pipelines.fa3 import barriers as fa3
from fa4sim.pipelines.fa4 import barriers as fa4
from fa4sim.specs import Design, HopperDesign
from fa4sim.views.style import (
    BLUE,
    GREEN,
    OPS,
    ORANGE,
    PURPLE,
    WAITS,
    look_of_op,
    look_of_wait,
    op_group,
    wait_group,
)

DESIGNS = [
    HopperDesign(),
    HopperDesign(consumers=3),
    HopperDesign(specialised=False, ping_pong=False, overlap=False, kv_stages=1),
    Design(),
    Design(scheduler="dynamic"),
    Design(scheduler="dynamic_varlen", epilogue="correction"),
]
OF_ROLE = {"tensor": BLUE, "softmax": ORANGE, "consumer": ORANGE, "correction": GREEN}
#: Its look is that of the Blackwell kernel, where the tensor pipe frees Q.
ELSEWHERE = {"load_Q_empty"}
#: A consumer's own warps meet there once O is in shared memory, as those of the correction do.
OUTPUT = {"Epilogue0", "Epilogue1", "Epilogue2"}


def used_barriers(design):
    """Barriers that a picture of this design may show a wait for."""
    table = (fa3 if isinstance(design, HopperDesign) else fa4).barrier_table(design)
    return [spec for spec in table.values() if spec.used]


@pytest.mark.parametrize("design", DESIGNS)
def test_every_barrier_of_a_kernel_has_a_look_that_no_other_has(design):
    groups = {wait_group(spec.name) for spec in used_barriers(design)}
    assert groups <= set(WAITS)
    looks = {look_of_wait(group) for group in groups | {"tensor", "tma_store"}}
    assert len(looks) == len(groups | {"tensor", "tma_store"})


@pytest.mark.parametrize("design", DESIGNS)
def test_a_wait_has_the_colour_of_who_arrives(design):
    seen = 0
    for spec in used_barriers(design):
        roles = {role.rstrip("0123456789") for role in spec.parties}
        found = look_of_wait(wait_group(spec.name)).colour
        if spec.name in OUTPUT:
            assert found == GREEN
        elif spec.tx_bytes and spec.name.startswith("load_"):
            assert found == PURPLE, f"{spec.name}: bytes complete it"
        elif len(roles) == 1 and roles <= set(OF_ROLE) and spec.name not in {*ELSEWHERE, "Cta"}:
            assert found == OF_ROLE[roles.pop()], spec.name
        else:
            continue
        seen += 1
    assert seen >= 5


def test_the_barriers_of_each_consumer_share_an_entry_of_the_legend():
    assert {wait_group(f"Scheduler{i}") for i in range(3)} == {"Scheduler"}
    assert {wait_group(f"Epilogue{i}") for i in range(3)} == {"Epilogue"}
    assert wait_group("Scheduler") == "Scheduler" and wait_group("S_full") == "S_full"


#: What the stamps of our Hopper kernel tell; a picture shows it above the simulator's.
TRACED = {op for _, op, *_ in (*PHASES, BETWEEN) if op != "wait"}


@pytest.mark.parametrize(
    ("machine", "kernel", "changes", "more"),
    [
        (B200, Design, {}, set()),
        (H200, HopperDesign, {}, set()),
        (H200, HopperDesign, {"o_waited_early": False}, TRACED | {"convert P"}),
    ],
    ids=["Blackwell", "Hopper", "Hopper below a traced kernel"],
)
def test_no_two_operations_of_a_picture_look_the_same(machine, kernel, changes, more):
    """But those that only issue or signal, which are one entry of the legend."""
    problem = Problem(seqlen_q=512, seqlen_k=1024, causal=True)
    design = kernel.for_problem(problem, machine, **changes)
    simulated = {*simulate(problem, design, machine, scope="cta").trace.span.unique("op")}
    assert "convert P" in simulated or "convert P" not in more
    groups = {op_group(op) for op in more | simulated}
    assert groups - {"issue, arrive, loop"} <= set(OPS), "each is in the legend by its own name"
    looks = {group: look_of_op(group) for group in groups if group in OPS}
    assert len(looks) >= 14 and len({*looks.values()}) == len(looks)
