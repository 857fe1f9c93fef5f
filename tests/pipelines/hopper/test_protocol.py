"""Every role does what its program says, as often as the kernel's protocol says."""

from __future__ import annotations

from collections import Counter, defaultdict

import pytest

from fa4sim.pipelines.fa3.barriers import barrier_table
from fa4sim.pipelines.fa3.program import program
from fa4sim.specs import HopperDesign
from tests.pipelines.hopper.cases import CASES, design_of, run_cluster


@pytest.mark.parametrize("name", CASES)
def test_every_warp_follows_its_program_to_the_letter(name: str) -> None:
    problem, design = design_of(name)
    cluster = run_cluster(problem, design)
    assert not cluster.core.hazards
    done = defaultdict(list)
    for warp, what, barrier, stage in cluster.core.log or []:
        done[warp].append((what, barrier, stage))
    blocks = [tile.blocks for tile in cluster.tiles]
    for agent in cluster.agents:
        wanted = list(program(design, agent.role, blocks, lane=agent.warp % 4))
        assert done[agent.key] == wanted, agent.key


@pytest.mark.parametrize("name", CASES)
def test_arrivals_per_phase_are_the_barriers_counts(name: str) -> None:
    problem, design = design_of(name)
    cluster = run_cluster(problem, design)
    made: Counter[tuple[str, int, int]] = Counter()
    for row in cluster.core.trace.arrive.rows():
        made[row["barrier"], row["stage"], row["phase"]] += row["count"]  # type: ignore[index,assignment]
    for (barrier, stage, phase), count in made.items():
        state = cluster.cta.barriers[barrier][stage]
        if phase < state.completions:
            assert count == cluster.table[barrier].count, (barrier, stage, phase)


@pytest.mark.parametrize("name", CASES)
def test_a_barrier_expects_as_many_arrivals_as_its_parties_make(name: str) -> None:
    _, design = design_of(name)
    for spec in barrier_table(design).values():
        assert spec.used and spec.count == sum(spec.parties.values()), spec.name


def test_the_table_is_that_of_the_kernel() -> None:
    table = barrier_table(HopperDesign(kv_stages=3))
    counts = {name: (spec.stages, spec.count) for name, spec in table.items()}
    assert counts == {
        "load_Q_full": (1, 1), "load_Q_empty": (1, 2), "load_K_full": (3, 1),
        "load_K_empty": (3, 8), "load_V_full": (3, 1), "load_V_empty": (3, 8),
        "Epilogue0": (1, 128), "Epilogue1": (1, 128), "Scheduler0": (1, 256),
        "Scheduler1": (1, 256),
    }  # fmt: skip
    three = barrier_table(HopperDesign(consumers=3, head_dim_v_padded=64, registers_consumer=160))
    assert three["load_K_empty"].count == 12 and three["load_Q_empty"].count == 3
    assert set(three["Scheduler0"].parties) == {"consumer0", "consumer2"}


@pytest.mark.parametrize("blocks", [1, 2, 9])
def test_a_tile_of_t_blocks_makes_the_events_of_the_protocol(blocks: int) -> None:
    problem, design = design_of("full")
    problem = type(problem)(heads=3, seqlen_q=256, seqlen_k=128 * blocks)
    cluster = run_cluster(problem, design, 2)
    done = {
        name: sum(barrier.completions for barrier in stages)
        for name, stages in cluster.cta.barriers.items()
    }
    for name in ("load_K_full", "load_K_empty", "load_V_full", "load_V_empty"):
        assert done[name] == 2 * blocks
    assert done["load_Q_full"] == done["load_Q_empty"] == done["Epilogue0"] == 2
    assert done["Scheduler0"] == done["Scheduler1"] == 2 * blocks
    # The turn that the last consumer passes on at the end is never taken.
    assert cluster.cta.barriers["Scheduler0"][0].pending == 128
    spans = cluster.core.trace.span
    for consumer in range(2):
        for op in ("QK", "PV"):
            assert len(spans.where(role="tensor", op=op, stage=consumer)) == 2 * blocks


def test_the_bytes_of_a_phase_are_those_of_its_tile() -> None:
    problem, design = design_of("unequal head dims")
    arrive = run_cluster(problem, design).core.trace.arrive
    for name, size in (("Q", 128 * 128 * 2), ("K", 128 * 128 * 2), ("V", 128 * 64 * 2)):
        assert set(arrive.where(barrier=f"load_{name}_full")["tx_bytes"]) == {size}


def test_a_role_that_the_design_does_not_have_is_refused() -> None:
    with pytest.raises(ValueError, match=r"no role 'load'; there are consumer0, consumer1"):
        program(design_of("plain")[1], "load", [1])
