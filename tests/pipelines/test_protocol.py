"""Every role does what its program says, as often as the kernel's protocol says."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import pairwise

import pytest

from fa4sim.pipelines.fa4.barriers import barrier_table, parties_of
from fa4sim.pipelines.fa4.program import program
from fa4sim.pipelines.fa4.role import Role
from fa4sim.specs import B200, Design, Problem
from tests.pipelines.cases import CASES, run_cluster, tiles_of


@pytest.mark.parametrize("name", CASES)
def test_every_warp_follows_its_program_to_the_letter(name: str) -> None:
    problem, changes = CASES[name]
    design = Design.for_problem(problem, B200, **changes)
    tiles = tiles_of(problem, design, 3)
    cluster = run_cluster(problem, design, tiles, log=True)
    assert not cluster.core.hazards
    done = defaultdict(list)
    for warp, what, barrier, stage in cluster.core.log or []:
        done[warp].append((what, barrier, stage))
    for agent in cluster.agents:
        assert isinstance(agent, Role)
        wanted = list(
            program(
                design,
                agent.role,
                [tile.blocks for tile in tiles],
                lane=agent.warp % 4,
                leader=agent.home.rank == 0,
            )
        )
        assert done[agent.key] == wanted, agent.key


@pytest.mark.parametrize("blocks", [1, 2, 3, 17])
@pytest.mark.parametrize("pair", [False, True])
def test_a_tile_of_t_blocks_makes_the_events_of_the_kernels_protocol(
    blocks: int, pair: bool
) -> None:
    problem = Problem(seqlen_q=512, seqlen_k=128 * blocks)
    design = Design.for_problem(problem, B200, cta_group=2 if pair else 1)
    tiles = tiles_of(problem, design, 2)
    cluster = run_cluster(problem, design, tiles)
    count = len(tiles)
    stages = range(design.q_stages)
    for cta in cluster.ctas:
        for s in stages:
            done = {name: bars[s].completions for name, bars in cta.barriers.items()
                    if len(bars) > s}  # fmt: skip
            assert done["S_full"] == count * blocks
            assert done["O_full"] == count
            assert done["softmax_stats_empty"] == count * (blocks + 1)
            assert done["O_epi_full"] == count
            assert done["O_epi_empty"] == count
            assert done["load_Q_empty"] == count
            for warp in range(4):
                assert cta.barriers[f"SoftmaxStatsW{4 * s + warp}"][0].completions == count * (
                    blocks + 1
                )
        slots = sum(bar.completions for bar in cta.barriers["load_KV_empty"])
        assert slots == count * 2 * blocks
        assert cta.barriers["TmemPtr"][0].completions == 2
    leader = cluster.leader.barriers
    for s in stages:
        assert leader["load_Q_full"][s].completions == count
        # One more "O is free" by the correction than there are PVs: it is left dangling.
        assert leader["P_full_O_rescaled"][s].completions == count * blocks
        assert leader["P_full_O_rescaled"][s].pending == 128 * design.cta_group
        assert leader["P_full_lastsplit"][s].completions == count * blocks
    assert sum(bar.completions for bar in leader["load_KV_full"]) == count * 2 * blocks
    spans = cluster.core.trace.span
    per_cta = len(spans.where(role="tensor", cta=0))
    assert per_cta == count * 3 * blocks * design.q_stages  # QK, and PV in two runs
    assert len(spans.where(role="tma", op="load K", cta=0)) == count * blocks


@pytest.mark.parametrize("name", CASES)
def test_arrivals_per_phase_are_the_barriers_counts(name: str) -> None:
    problem, changes = CASES[name]
    design = Design.for_problem(problem, B200, **changes)
    cluster = run_cluster(problem, design, tiles_of(problem, design, 3))
    arrive = cluster.core.trace.arrive
    made: Counter[tuple[int, str, int, int]] = Counter()
    for row in arrive.rows():
        key = (row["cta"], row["barrier"], row["stage"], row["phase"])
        made[key] += row["count"]  # type: ignore[index,assignment]
    table = barrier_table(design)
    for (cta, barrier, stage, phase), count in made.items():
        spec = table[barrier]
        state = cluster.ctas[cta].barriers[barrier][stage]
        if phase < state.completions:
            assert count == spec.count, (barrier, stage, phase)


def test_the_bytes_of_a_phase_are_those_of_its_tile() -> None:
    problem = Problem(seqlen_q=512, seqlen_k=512)
    for cta_group, q_bytes, kv_bytes in ((1, 32768, 32768), (2, 65536, 32768)):
        design = Design.for_problem(problem, B200, cta_group=cta_group)
        arrive = run_cluster(problem, design, tiles_of(problem, design, 1)).core.trace.arrive
        assert set(arrive.where(barrier="load_Q_full")["tx_bytes"]) == {q_bytes}
        assert set(arrive.where(barrier="load_KV_full")["tx_bytes"]) == {kv_bytes}
    uneven = Problem(seqlen_q=512, head_dim=192, head_dim_v=128)
    design = Design.for_problem(uneven, B200, cta_group=1)
    arrive = run_cluster(uneven, design, tiles_of(uneven, design, 1)).core.trace.arrive
    assert set(arrive.where(barrier="load_KV_full")["tx_bytes"]) == {49152, 32768}


def test_the_table_has_the_kernels_counts() -> None:
    one, pair = barrier_table(Design()), barrier_table(Design(cta_group=2, kv_stages=6))
    assert one["P_full_O_rescaled"].count == 256 and pair["P_full_O_rescaled"].count == 512
    assert one["P_full_lastsplit"].count == 4 and pair["P_full_lastsplit"].count == 8
    assert one["TmemPtr"].count == 416
    assert barrier_table(Design(q_stages=1))["TmemPtr"].count == 288
    assert one["softmax_stats_empty"].count == 128
    assert one["O_epi_empty"].count == 32 and one["O_epi_full"].count == 128
    assert pair["tmem_dealloc"].used and not one["tmem_dealloc"].used
    assert [one[f"SoftmaxStatsW{i}"].number for i in range(8)] == list(range(3, 11))
    assert barrier_table(Design(scheduler="dynamic"))["clc_empty"].count == 512


@pytest.mark.parametrize("name", CASES)
def test_a_barrier_expects_as_many_arrivals_as_its_parties_make(name: str) -> None:
    problem, changes = CASES[name]
    design = Design.for_problem(problem, B200, **changes)
    for spec in barrier_table(design).values():
        if spec.used:
            for stage in range(spec.stages):
                assert sum(parties_of(spec, stage).values()) == spec.count, spec.name
        else:
            assert spec.why or not spec.parties or spec.name in OPTIONAL, spec.name


#: Barriers that only some designs have.
OPTIONAL = {
    *("P_full_lastsplit", "O_epi_full", "O_epi_empty", "load_epi_full", "load_epi_empty"),
    *("tmem_dealloc", "clc_full", "clc_empty", "work_info_full", "work_info_empty", "Epilogue"),
}


def test_a_single_m_block_guards_q_like_a_persistent_cta() -> None:
    # flash_fwd_sm100.py: is_persistent holds when all queries fit one m-block, causal or not.
    for rows, guarded in ((256, True), (512, False)):
        problem = Problem(seqlen_q=rows, head_dim=192, head_dim_v=128, causal=True)
        design = Design.for_problem(problem, B200)
        assert design.scheduler == "lpt"
        assert barrier_table(design)["load_epi_full"].used is guarded


def test_the_load_warp_fetches_the_next_tile_before_it_waits_for_o_to_leave() -> None:
    problem, changes = CASES["uneven ring, dynamic"]
    design = Design.for_problem(problem, B200, **changes)
    waits = [name for what, name, _ in program(design, "load", [2, 2]) if what == "wait"]
    assert waits[waits.index("clc_full") + 1] == "load_epi_full"


def test_the_load_warp_ends_by_waiting_for_every_slot_and_arming_q_once_more() -> None:
    # As the emulated kernel does it (flash-attn-4 4.0.0b27), also with fewer tiles than slots.
    problem = Problem(seqlen_q=256, seqlen_k=128, head_dim=64)
    design = Design.for_problem(problem, B200)
    operations = list(program(design, "load", [1]))
    last = design.q_stages - 1
    assert operations[-2:] == [("wait", "load_Q_empty", last), ("arrive", "load_Q_full", last)]
    drained = [stage for _, _, stage in operations[-2 - design.kv_stages : -2]]
    assert drained == [(2 + i) % design.kv_stages for i in range(design.kv_stages)]
    cluster = run_cluster(problem, design, tiles_of(problem, design, 1))
    full = cluster.leader.barriers["load_Q_full"]
    assert [(bar.completions, bar.pending, bar.tx_pending) for bar in full] == [
        (1, 1, 0), (1, 0, design.q_tile_bytes(problem)),
    ]  # fmt: skip


def test_of_four_warps_that_copy_q_only_the_first_waits_for_slots_of_k_and_v() -> None:
    # issue_kv_for_this_warp of ``load``, flash_fwd_sm100.py: what TMA brings is one warp's.
    problem, changes = CASES["odd group, one Q tile"]
    design = Design.for_problem(problem, B200, **changes)
    assert (design.q_load, design.kv_load, design.q_stages) == ("cp_async", "tma", 1)
    of_q = [("wait", "load_Q_empty", 0), ("arrive", "load_Q_full", 0)]
    programs = [list(program(design, "load", [6, 6], lane=lane)) for lane in range(4)]
    assert programs[1] == programs[2] == programs[3] == [*of_q, *of_q, of_q[0]]
    assert [op for op in programs[0] if "Q" in op[1]] == programs[1]
    assert len([op for op in programs[0] if op[:2] == ("arrive", "load_KV_full")]) == 2 * 2 * 6


def test_a_copying_warp_is_not_held_back_by_the_ring() -> None:
    problem, changes = CASES["odd group, one Q tile"]
    design = Design.for_problem(problem, B200, **changes)
    cluster = run_cluster(problem, design, tiles_of(problem, design, 2))
    first, *others = (agent for agent in cluster.agents if agent.role == "load")
    assert len(others) == 3
    rows = list(cluster.core.trace.wait.rows())
    barriers = {
        agent.warp: {str(row["on"]) for row in rows if int(row["warp"]) == agent.warp}
        for agent in (first, *others)
    }
    assert "load_KV_empty" in barriers[first.warp]
    assert all("load_KV_empty" not in barriers[agent.warp] for agent in others)
    assert cluster.leader.barriers["load_Q_full"][0].completions == 2


def test_the_mma_warps_of_a_pair_free_tmem_when_both_ctas_are_done() -> None:
    problem = Problem(seqlen_q=512, seqlen_k=256)
    design = Design.for_problem(problem, B200)
    assert design.cta_group == 2
    for leader in (True, False):
        operations = list(program(design, "mma", [2], leader=leader))
        assert operations[-2:] == [("arrive", "tmem_dealloc", 0), ("wait", "tmem_dealloc", 0)]
    cluster = run_cluster(problem, design, tiles_of(problem, design, 1))
    assert [cta.barriers["tmem_dealloc"][0].completions for cta in cluster.ctas] == [1, 1]


def test_the_uneven_ring_waits_for_the_neighbour_behind_the_arrival_on_every_even_wrap() -> None:
    problem = Problem(seqlen_q=512, seqlen_k=1024, head_dim=192, head_dim_v=128)
    design = Design.for_problem(problem, B200, cta_group=1)
    operations = list(program(design, "load", [8]))
    neighbours = [
        number
        for number, (one, two) in enumerate(pairwise(operations))
        if one == ("arrive", "load_KV_full", 0) and two == ("wait", "load_KV_empty", 1)
        and operations[number + 2] != ("arrive", "load_KV_full", 1)
    ]  # fmt: skip
    assert len(neighbours) == 3  # 16 tiles in three slots: wraps 0, 2 and 4
