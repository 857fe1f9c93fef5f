"""K and V from pages: what is read of the table, what loading costs, and that values are right."""

from __future__ import annotations

import dataclasses
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fa4sim import B200, Design, Fault, HazardError, Problem, Run, simulate
from fa4sim.engine.errors import Deadlock
from fa4sim.numerics import gather_pages, round_to, scatter_pages
from fa4sim.pipelines.fa4.barriers import barrier_table, load_warp_ids
from fa4sim.pipelines.fa4.page_table import ENTRY_BYTES, SECTOR, PageTable
from fa4sim.pipelines.fa4.paged_costs import paged_costs, threads_per_row
from fa4sim.report import Report

L1, L2, HBM = 39, 288, 660


# -- the table ---------------------------------------------------------------------------------


def slow_latency(table: PageTable, block: int, first_block: int, turns: list[range]) -> list[int]:
    """Latencies of the turns of ``block``, by remembering every sector that was read."""
    read: set[int] = set()
    fetched: set[int] = set()
    found = []
    for here in range(first_block, block - 1, -1):
        for rows in turns:
            entries = {(here * table.tile_n + r) // table.page_size for r in rows}
            sectors = {e // SECTOR for e in entries}
            lines = {e // table.fetch_entries for e in entries}
            if here == block:
                new, far = sectors - read, lines - fetched
                found.append(table.latencies[2 if far else 1 if new else 0])
            read |= sectors
            fetched |= lines
    return found


@settings(deadline=None)
@given(
    page=st.integers(1, 400), n=st.sampled_from([64, 128]), block=st.integers(0, 40),
    before=st.integers(0, 40), turn=st.sampled_from([8, 16, 64, 128]),
    fetch=st.sampled_from([8, 16, 32]),
)  # fmt: skip
def test_a_read_goes_as_far_as_nobody_has_read_before(page, n, block, before, turn, fetch):
    table = PageTable(page, n, fetch, (L1, L2, HBM))
    turns = [range(r, min(r + turn, n)) for r in range(0, n, turn)]
    got = [
        table.latency(block, rows, first=before == 0, from_hbm=True) for rows in turns
    ]  # fmt: skip
    assert got == slow_latency(table, block, block + before, turns)
    in_l2 = [table.latency(block, rows, first=before == 0, from_hbm=False) for rows in turns]
    assert in_l2 == [min(latency, L2) for latency in got]


@given(page=st.integers(1, 300), block=st.integers(1, 50), turn=st.sampled_from([8, 64, 128]))
def test_reads_repeat_with_the_period(page, block, turn):
    table = PageTable(page, 128, 16, (L1, L2, HBM))
    for rows in (range(r, r + turn) for r in range(0, 128, turn)):
        here, later = (
            table.latency(b, rows, first=False, from_hbm=True)
            for b in (block, block + table.period)
        )
        assert here == later


def test_a_block_without_keys_reads_nothing():
    assert (
        PageTable(1, 128, 16, (L1, L2, HBM)).latency(-1, range(8), first=True, from_hbm=True) == 0
    )


# -- costs -------------------------------------------------------------------------------------


@pytest.mark.parametrize("pointers", ["naive", "transposed", "looped"])
@pytest.mark.parametrize("q", [1, 300])
@pytest.mark.parametrize("dims", [(128, 128), (64, 64), (96, 96), (192, 128), (16, 128)])
@pytest.mark.parametrize("dtype", ["bf16", "e4m3"])
def test_the_warps_copy_every_byte_of_a_tile_once(pointers, q, dims, dtype):
    problem = Problem(
        seqlen_q=q, seqlen_k=4096, head_dim=dims[0], head_dim_v=dims[1], dtype=dtype, page_size=4
    )
    design = Design.for_problem(problem, B200, page_pointers=pointers)
    costs = paged_costs(problem, design, B200)
    warps = len(load_warp_ids(design))
    for tensor, size in (("K", design.k_tile_bytes(problem)), ("V", design.v_tile_bytes(problem))):
        rows = sum(piece.rows for piece in costs.pieces[tensor]) * costs.row_groups * warps
        assert rows == design.tile_n
        assert rows * costs.row_bytes[tensor] == size
    assert [r for rows in costs.table_rows for r in rows] == list(range(design.tile_n))


def test_transposed_pointers_read_an_eighth_of_the_table_and_compute_an_eighth_of_the_addresses():
    for q, threads in ((1, 128), (300, 64)):
        problem = Problem(seqlen_q=q, seqlen_k=4096, page_size=1)
        both = {
            pointers: paged_costs(
                problem, Design.for_problem(problem, B200, page_pointers=pointers), B200
            )
            for pointers in ("naive", "transposed")
        }
        reads = {name: len(costs.table_rows) for name, costs in both.items()}
        assert reads == {"naive": 1024 // threads, "transposed": 128 // threads}
        slots = {
            name: sum(p.group.issue for t in "KV" for p in costs.pieces[t])
            + (2 * costs.pointers.issue if costs.pointers else 0)
            for name, costs in both.items()
        }
        assert slots["transposed"] < 0.6 * slots["naive"]


def test_as_many_threads_share_a_row_as_copy_128_bytes_of_it():
    for dims, dtype, threads in (
        ((128, 128), "bf16", 8), ((64, 64), "bf16", 8), ((96, 96), "bf16", 4),
        ((80, 80), "bf16", 2), ((192, 128), "bf16", 8), ((128, 128), "e4m3", 8),
    ):  # fmt: skip
        problem = Problem(head_dim=dims[0], head_dim_v=dims[1], dtype=dtype, page_size=1)
        assert threads_per_row(problem, Design.for_problem(problem, B200)) == threads


# -- warps and barriers ------------------------------------------------------------------------


def test_load_warps_and_arrivals_by_design():
    for changes, warps in (
        ({"page_size": 1}, (14, 15)),
        ({"page_size": 1, "seqlen_q": 1}, (4, 5, 6, 7)),
        ({"page_size": 128}, (14,)),
        ({"page_size": 128, "seqlen_q": 1}, (14,)),
        ({"heads": 3, "kv_heads": 1, "seqlen_q": 1}, (4, 5, 6, 7)),
        ({"heads": 3, "kv_heads": 1, "page_size": 2}, (14, 15)),
    ):
        design = Design.for_problem(Problem(**{"seqlen_q": 512, **changes}), B200)
        assert load_warp_ids(design) == warps
        full = barrier_table(design)["load_KV_full"]
        by_rows = design.kv_load == "cp_async"
        assert full.count == (32 * len(warps) if by_rows else 1)
        assert bool(full.tx_bytes) != by_rows


def test_copies_take_bytes_in_flight_and_leave_no_gap():
    problem = Problem(batch=2, heads=2, seqlen_q=1, seqlen_k=2048, page_size=1)
    run = simulate(problem, scope="cta")
    spans = run.trace.span
    landed = spans.where(role="cp_async")
    pieces = 2 * 16 * 8  # K and V of 16 blocks, 32 KiB in pieces of 4 KiB
    assert len(landed) == pieces
    (flying,) = {code for code in run.trace.counter.text("name") if "cp_async_bytes" in str(code)}
    counted = run.trace.counter.where(name=str(flying))["value"]
    assert counted.max() <= run.design.kv_stages * 32768 and counted.min() == 0
    for warp in load_warp_ids(run.design):
        rows = [
            (r["start"], r["end"])
            for table in (spans, run.trace.wait)
            for r in table.where(role="load", warp=warp).rows()
        ]
        rows.sort()
        assert all(a[1] == b[0] for a, b in pairwise(rows))


def test_latency_and_rate_bound_a_decode_step():
    problem = Problem(batch=32, heads=32, kv_heads=4, seqlen_q=1, seqlen_k=16384, page_size=8)
    bytes_moved = 2 * problem.batch * problem.kv_heads * problem.seqlen_k * 256
    least = bytes_moved / B200.hbm_bytes_per_second * 1e6
    times = {
        changes: simulate(problem, machine=B200.with_constants(cp_async_latency_cycles=changes))
        for changes in (650, 4000)
    }
    assert least < times[650].report.time_us < times[4000].report.time_us
    # With five slots of 32 KiB and 4,000 cycles no SM can have more than 42 bytes per cycle.
    slow = times[4000].report
    per_sm = bytes_moved / 128 / slow.cycles
    assert per_sm < 5 * 32768 / 4000


def test_small_pages_cost_naive_pointers_dear_and_transposed_ones_nothing():
    def time(page: int, **changes: Any) -> float:
        problem = Problem(
            batch=32, heads=32, kv_heads=4, seqlen_q=1, seqlen_k=16384, page_size=page
        )
        return simulate(problem, Design.for_problem(problem, B200, **changes)).report.time_us

    naive = [time(page, page_pointers="naive", q_stages=2) for page in (1, 8, 32)]
    assert naive[0] > 1.8 * naive[1] > 1.8 * naive[2]
    transposed = [time(page) for page in (1, 8, 32)]
    assert max(transposed) < 1.02 * min(transposed) < 0.5 * naive[0]


def test_hbm_gives_rows_by_cp_async_a_share_of_what_tma_gets():
    def report(page: int) -> Report:
        problem = Problem(
            batch=32, heads=32, kv_heads=4, seqlen_q=1, seqlen_k=32768, page_size=page
        )
        return simulate(problem).report

    rows, tiles = report(8), report(128)
    assert tiles.cycles / rows.cycles == pytest.approx(B200.cp_async_hbm_share, rel=0.01)
    assert rows.units["hbm"] == pytest.approx(tiles.units["hbm"], rel=0.01)
    assert "HBM" in rows.bottleneck
    both = B200.with_constants(cp_async_hbm_share=1.0)
    assert both.hbm_rate("cp_async") == B200.hbm_rate("tma") == B200.hbm_bytes_per_cycle


def test_loops_make_every_row_a_chain_of_its_own():
    problem = Problem(seqlen_q=300, seqlen_k=4096, page_size=32)
    costs = {
        pointers: paged_costs(
            problem, Design.for_problem(problem, B200, page_pointers=pointers), B200
        )
        for pointers in ("naive", "looped")
    }
    for tensor in ("K", "V"):
        assert not any(piece.chain_cycles for piece in costs["naive"].pieces[tensor])
        for piece in costs["looped"].pieces[tensor]:
            # Two copies of 128 bytes each for a row, of which the second waits for the first.
            least = B200.load_l1_latency_cycles + 2 * B200.cp_async_turn_cycles
            assert piece.chain_cycles > piece.rows * least
            assert piece.chain_cycles > piece.group.issue + piece.port_cycles


def test_loops_cost_the_same_for_pages_of_any_size_beside_their_numbers():
    def load(page: int, pointers: str) -> dict[str, int]:
        problem = Problem(heads=2, seqlen_q=1, seqlen_k=2048, page_size=page)
        design = Design.for_problem(problem, B200, page_pointers=pointers, q_stages=2)
        spans = simulate(problem, design, scope="cta").trace.span.where(role="load", warp=14)
        spent: dict[str, int] = {}
        for op, start, end in zip(
            spans.text("op"), spans["start"], spans["end"], strict=True
        ):  # fmt: skip
            spent[str(op)] = spent.get(str(op), 0) + int(end - start)
        return spent

    looped, naive = ({p: load(p, how) for p in (1, 32)} for how in ("looped", "naive"))
    for page in (1, 32):
        for op in ("issue K", "issue V"):
            assert looped[page][op] > 4 * naive[page][op]
        # But for the tensor pipe, which is busy at other moments.
        assert looped[page]["page numbers"] == pytest.approx(naive[page]["page numbers"], rel=0.15)
    assert looped[1]["issue K"] == pytest.approx(looped[32]["issue K"], rel=0.02)


# -- faults ------------------------------------------------------------------------------------


PAGED = Problem(heads=2, seqlen_q=1, seqlen_k=1024, page_size=4)


@pytest.mark.parametrize(
    "fault", [Fault("drop_wait", "load_KV_empty"), Fault("drop_wait", "load_KV_full")]
)
def test_a_wait_left_out_is_a_hazard(fault):
    design = Design.for_problem(PAGED, B200, faults=(fault,))
    with pytest.raises((HazardError, Deadlock)) as caught:
        simulate(PAGED, design)
    assert any(hazard.barrier == fault.barrier for hazard in caught.value.hazards)


@pytest.mark.parametrize(
    "fault", [Fault("drop_arrival", "load_KV_full"), Fault("count_plus_one", "load_KV_full")]
)
def test_an_arrival_that_lacks_is_a_deadlock_that_names_it(fault):
    design = Design.for_problem(PAGED, B200, faults=(fault,))
    with pytest.raises(Deadlock) as caught:
        simulate(PAGED, design)
    assert "load_KV_full" in caught.value.suspects


# -- values ------------------------------------------------------------------------------------


def paged_run(problem: Problem, seed: int, **changes: Any) -> tuple[Run, Run]:
    """A run on pages in random order, some shared, and one on the same rows in one piece."""
    rng = np.random.default_rng(seed)
    assert problem.page_size is not None and problem.seqlen_k is not None
    keys = [problem.lengths(b)[1] for b in range(problem.batch)]
    columns = max(1, -(-max(keys) // problem.page_size))
    pages = problem.batch * columns + 2

    def normal(*shape: int) -> np.ndarray:
        return round_to(rng.standard_normal(shape).astype(np.float32), problem.dtype)

    q = normal(problem.batch, problem.seqlen_q, problem.heads, problem.head_dim)
    k = normal(pages, problem.page_size, problem.kv_heads or 0, problem.head_dim)
    v = normal(pages, problem.page_size, problem.kv_heads or 0, problem.dim_v)
    table = rng.permutation(pages)[: problem.batch * columns].reshape(problem.batch, columns)
    table = table.astype(np.int32)
    table[-1, : columns // 2] = table[0, : columns // 2]  # a shared prefix
    design = Design.for_problem(problem, B200, **changes)
    run = simulate(problem, design, arrays=(q, k, v), page_table=table)
    whole = dataclasses.replace(problem, page_size=None)
    rows = [gather_pages(x, table, keys) for x in (k, v)]
    again = scatter_pages(rows[0], table, keys, problem.page_size, pages)
    assert np.array_equal(gather_pages(again, table, keys), rows[0])
    plain = simulate(
        whole, design.replace(whole, B200, kv_load="tma"), arrays=(q, *rows)
    )  # fmt: skip
    return run, plain


VALUES: dict[str, tuple[Problem, dict[str, Any]]] = {
    "pages of a token": (Problem(heads=2, seqlen_q=40, seqlen_k=300, page_size=1), {}),
    "naive": (
        Problem(heads=2, seqlen_q=300, seqlen_k=333, page_size=7, causal=True),
        {"page_pointers": "naive"},
    ),
    "looped": (
        Problem(heads=2, seqlen_q=300, seqlen_k=333, page_size=7, causal=True),
        {"page_pointers": "looped"},
    ),
    "grouped heads": (
        Problem(batch=2, heads=4, kv_heads=2, seqlen_q=70, seqlen_k=260, page_size=16),
        {},
    ),
    "uneven ring": (
        Problem(seqlen_q=300, seqlen_k=700, head_dim=192, head_dim_v=128, page_size=64),
        {},
    ),
    "pages longer than the keys": (Problem(seqlen_q=1, seqlen_k=90, page_size=500), {}),
    "pages of a block": (Problem(batch=2, heads=1, seqlen_q=300, seqlen_k=300, page_size=128), {}),
    "variable lengths": (
        Problem(heads=2, seqlens_q=(30, 1, 60), seqlens_k=(300, 0, 129), page_size=32),
        {},
    ),
}


@pytest.mark.parametrize("name", VALUES)
def test_pages_in_any_order_compute_what_one_piece_does(name):
    run, plain = paged_run(*VALUES[name][:1], seed=3, **VALUES[name][1])
    assert run.outputs is not None and plain.outputs is not None
    assert np.array_equal(run.outputs.out, plain.outputs.out)
    assert np.array_equal(run.outputs.lse, plain.outputs.lse)
    assert not run.hazards


def test_the_table_is_needed_with_values_and_checked():
    q, kv = np.zeros((1, 1, 2, 128)), np.zeros((3, 4, 2, 128))
    problem = Problem(heads=2, seqlen_q=1, seqlen_k=10, page_size=4)
    table = np.array([[0, 1, 2]], dtype=np.int32)
    simulate(problem, arrays=(q, kv, kv), page_table=table)
    for words, options in (
        ("give page_table= with shape", {}),
        ("page_table\\[0, 2\\] is 3, but there are 3 pages", {"page_table": table + np.int32(1)}),
        ("int32", {"page_table": table.astype(np.int64)}),
        ("needs 3 pages of 4, but page_table has 2", {"page_table": table[:, :2]}),
    ):
        with pytest.raises(ValueError, match=words):
            simulate(problem, arrays=(q, kv, kv), **options)
    with pytest.raises(ValueError, match=r"needs \(3, 4, 2, 128\) \(pages, page_size"):
        simulate(problem, arrays=(q, np.zeros((3, 5, 2, 128)), kv), page_table=table)
    with pytest.raises(ValueError, match="page_table= needs arrays"):
        simulate(problem, page_table=table)
    with pytest.raises(ValueError, match="the problem has page_size=None"):
        whole = dataclasses.replace(problem, page_size=None)
        simulate(whole, arrays=(q, *[np.zeros((1, 10, 2, 128))] * 2), page_table=table)


def test_a_sector_is_eight_entries():
    assert SECTOR * ENTRY_BYTES == 32
