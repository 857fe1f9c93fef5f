"""Tile orders against index arithmetic: from a tile's number alone to its coordinates.

The kernel's schedulers know nothing but a running number and decode it by division; the simulator
lists all tiles in order. Both must say the same.
"""

import itertools
from collections import Counter

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fa4sim import B200, Design, Problem
from fa4sim.pipelines.fa4.gpu import make_plan
from fa4sim.schedulers import heads_in_l2, lpt_section, padding_clusters, tile_order
from fa4sim.specs import SCHEDULERS

BLOCKS = st.integers(1, 7)
HEADS = st.integers(1, 7)
BATCH = st.integers(1, 4)
MIB = 1024 * 1024


def decode_plain(number, blocks, heads):
    """Block fastest, then head, then batch."""
    head_and_batch, block = divmod(number, blocks)
    batch, head = divmod(head_and_batch, heads)
    return block, head, batch


def decode_lpt(number, blocks, heads, batch, section):
    """Sections of heads; in a section all heads of the last block come first."""
    which, within = divmod(number, section * blocks)
    whole_sections, left_over = divmod(heads * batch, section)
    width = section if which < whole_sections else left_over
    block, pair = divmod(within, width)
    b, h = divmod(which * section + pair, heads)
    return blocks - 1 - block, h, b


def decode_varlen(number, m_blocks, heads, sections, reverse):
    """Find the sequence by running sums, then decode inside it."""
    b = 0
    while number >= m_blocks[b] * heads:
        number -= m_blocks[b] * heads
        b += 1
    blocks = m_blocks[b]
    if not reverse:
        head, block = divmod(number, blocks)
        return block, head, b
    which, within = divmod(number, sections[b] * blocks)
    width = min(sections[b], heads - which * sections[b])
    block, head = divmod(within, width)
    return blocks - 1 - block, which * sections[b] + head, b


@given(blocks=BLOCKS, heads=HEADS, batch=BATCH)
def test_the_plain_order_has_the_block_fastest(blocks, heads, batch):
    wanted = [decode_plain(i, blocks, heads) for i in range(blocks * heads * batch)]
    for scheduler in ("single_tile", "static_persistent"):
        assert tile_order(scheduler, [blocks] * batch, heads) == wanted


@given(blocks=BLOCKS, heads=HEADS, batch=BATCH, section=st.sampled_from([1, 2, 4, 8, 16]))
def test_longest_first_with_a_last_section_of_its_own_width(blocks, heads, batch, section):
    tiles = blocks * heads * batch
    wanted = [decode_lpt(i, blocks, heads, batch, section) for i in range(tiles)]
    assert tile_order("lpt", [blocks] * batch, heads, section=section) == wanted


@given(
    m_blocks=st.lists(st.integers(0, 5), min_size=1, max_size=5), heads=HEADS,
    per=st.lists(st.sampled_from([1, 2, 4, 8, 16]), min_size=5, max_size=5),
    reverse=st.booleans(),
)  # fmt: skip
def test_variable_lengths_are_taken_sequence_by_sequence(m_blocks, heads, per, reverse):
    sections = [min(count, heads) for count in per[: len(m_blocks)]]
    wanted = [
        decode_varlen(i, m_blocks, heads, sections, reverse) for i in range(sum(m_blocks) * heads)
    ]
    got = tile_order(
        "single_tile_varlen", m_blocks, heads, reverse=reverse, heads_per_section=sections
    )
    assert got == wanted


@given(blocks=BLOCKS, heads=HEADS, batch=BATCH, reverse=st.booleans())
def test_cluster_launch_control_hands_out_the_raw_grid(blocks, heads, batch, reverse):
    wanted = []
    for number in range(blocks * heads * batch):
        block, head, b = decode_plain(number, blocks, heads)
        wanted.append((blocks - 1 - block if reverse else block, head, b))
    assert tile_order("dynamic", [blocks] * batch, heads, reverse=reverse) == wanted


@given(
    scheduler=st.sampled_from(SCHEDULERS), blocks=BLOCKS, heads=HEADS, batch=BATCH,
    section=st.sampled_from([1, 2, 8]), reverse=st.booleans(),
)  # fmt: skip
def test_every_tile_comes_exactly_once(scheduler, blocks, heads, batch, section, reverse):
    order = tile_order(
        scheduler, [blocks] * batch, heads, section=section, reverse=reverse,
        heads_per_section=[min(section, heads)] * batch,
    )  # fmt: skip
    everything = set(itertools.product(range(blocks), range(heads), range(batch)))
    assert Counter(order) == Counter(everything)


def test_longest_first_needs_equal_lengths_and_a_known_scheduler():
    with pytest.raises(ValueError, match="equal length only"):
        tile_order("lpt", [2, 3], 1)
    with pytest.raises(ValueError, match="scheduler 'fifo' is not known"):
        tile_order("fifo", [2], 1)


# -- sections ----------------------------------------------------------------------------------


@given(seqlen=st.integers(1, 2**22), per_key=st.sampled_from([64, 128, 512, 640]))
def test_a_section_is_the_largest_power_of_two_of_heads_within_fifty_mebibytes(seqlen, per_key):
    section = lpt_section(seqlen, per_key)
    assert section & (section - 1) == 0
    assert section == 1 or section * seqlen * per_key <= 50 * MIB
    assert 2 * section * seqlen * per_key > 50 * MIB


def test_sections_of_the_published_lengths():
    per_key = (128 + 128) * 2
    sections = {n: lpt_section(n, per_key) for n in (1024, 2048, 4096, 8192, 16384, 32768)}
    assert sections == {1024: 64, 2048: 32, 4096: 16, 8192: 8, 16384: 4, 32768: 2}
    assert lpt_section(4 * 2**20, per_key) == 1
    assert lpt_section(0, per_key) >= 1


@given(blocks=st.integers(0, 5000), heads=HEADS, block_bytes=st.sampled_from([8192, 65536]))
def test_heads_of_a_sequence_that_fit_into_l2_together(blocks, heads, block_bytes):
    most = 50 * MIB // block_bytes
    fitting = [count for count in (16, 8, 4, 2) if blocks * count <= most]
    assert heads_in_l2(blocks, block_bytes, heads) == (min(fitting[0], heads) if fitting else 1)


# -- the grid ----------------------------------------------------------------------------------


@given(
    lengths=st.lists(st.integers(0, 2000), min_size=1, max_size=8), heads=HEADS,
    tile=st.sampled_from([128, 256]),
)  # fmt: skip
def test_a_variable_length_grid_has_room_for_every_tile(lengths, heads, tile):
    tiles = heads * sum(-(-length // tile) for length in lengths)
    padding = padding_clusters(sum(lengths), tile, len(lengths), heads, tiles)
    # The grid is sized without a look at the lengths: what fits into the worst case.
    assert tiles + padding == heads * ((sum(lengths) + len(lengths) * (tile - 1)) // tile)


def plan_of(machine=B200, changes=None, **fields):
    problem = Problem(**fields)
    return make_plan(problem, Design.for_problem(problem, machine, **(changes or {})), machine)


def coordinates(plan):
    return [(tile.m_block, tile.head, tile.batch) for tile in plan.tiles]


@given(batch=BATCH, heads=HEADS, seqlen=st.integers(1, 3000), sms=st.integers(2, 20))
def test_a_persistent_grid_is_dealt_out_in_strides(batch, heads, seqlen, sms):
    machine = B200.with_constants(sms=sms)
    problem = Problem(batch=batch, heads=heads, seqlen_q=seqlen, head_dim=64)
    plan = make_plan(problem, Design.for_problem(problem, machine), machine)
    rows = 256 if seqlen > 128 else 128
    blocks = -(-seqlen // rows)
    grid = min(sms, blocks * heads * batch)
    assert len(plan.lists) == grid
    for cluster, numbers in enumerate(plan.lists):
        assert numbers == list(range(cluster, len(plan.tiles), grid))
    assert coordinates(plan) == [
        decode_plain(i, blocks, heads) for i in range(blocks * heads * batch)
    ]


def test_a_pair_takes_512_rows_and_two_sms():
    plan = plan_of(batch=2, heads=3, seqlen_q=2048)
    assert plan.clusters == 74 and len(plan.lists) == len(plan.tiles) == 2 * 3 * 4


def test_a_causal_plan_follows_the_sections_of_its_length():
    plan = plan_of(batch=2, heads=5, seqlen_q=8192, causal=True)
    wanted = [decode_lpt(i, 32, 5, 2, 8) for i in range(32 * 5 * 2)]
    assert coordinates(plan) == wanted and plan.lists is None
    blocks = [tile.blocks for tile in plan.tiles]
    for first in (0, 8 * 32):  # both sections start long and end short
        section = blocks[first : first + 8 * 32]
        assert section == sorted(section, reverse=True)


def test_a_packed_grid_counts_heads_of_keys_and_rows_of_the_whole_group():
    plan = plan_of(heads=8, kv_heads=2, seqlen_q=100, seqlen_k=500)
    assert coordinates(plan) == [(0, 0, 0), (0, 1, 0)]  # 400 rows each, one pair's tile
    unpacked = plan_of(heads=8, kv_heads=2, seqlen_q=100, seqlen_k=500, changes={"pack_gqa": False})
    assert len(unpacked.tiles) == 8


def test_a_variable_length_plan_pads_its_grid():
    lengths = (300, 0, 17, 1000)
    plan = plan_of(heads=3, seqlens_q=lengths, causal=True)
    tiles = 3 * (2 + 0 + 1 + 4)
    assert len(plan.tiles) == tiles
    assert plan.padding == 3 * ((sum(lengths) + 4 * 255) // 256) - tiles
    sections = [3, 3, 3, 3]
    wanted = [decode_varlen(i, [2, 0, 1, 4], 3, sections, True) for i in range(tiles)]
    assert coordinates(plan) == wanted


@given(
    lengths=st.lists(st.tuples(st.integers(0, 700), st.integers(0, 700)), min_size=1, max_size=4),
    heads=st.sampled_from([(1, 1), (3, 1), (4, 2)]), causal=st.booleans(),
)  # fmt: skip
def test_the_tiles_of_a_plan_cover_every_row_once(lengths, heads, causal):
    q, k = zip(*lengths, strict=True)
    problem = Problem(
        heads=heads[0], kv_heads=heads[1], seqlens_q=q, seqlens_k=k, causal=causal, head_dim=64
    )
    design = Design.for_problem(problem, B200)
    rows = Counter()
    for tile in make_plan(problem, design, B200).tiles:
        rows[tile.head, tile.batch] += design.work_rows
        assert tile.blocks >= 1
    group = problem.group if design.pack_gqa else 1
    for b, length in enumerate(q):
        for head in range(problem.heads // group):
            assert 0 <= rows[head, b] - length * group < design.work_rows


@given(
    batch=BATCH, heads=st.sampled_from([(1, 1), (5, 5), (4, 2)]),
    mask=st.sampled_from([{}, {"causal": True}, {"window": (211, None)}, {"window": (None, 99)},
                          {"window": (300, 0)}, {"window": (64, 64)}]),
    q=st.integers(1, 3000), k=st.integers(1, 3000),
)  # fmt: skip
@example(batch=3, heads=(5, 5), mask={"causal": True}, q=2561, k=1)  # tiles that see no key
def test_every_block_of_k_and_v_comes_from_hbm_exactly_once(batch, heads, mask, q, k):
    # Who starts together shares what it brings; everybody else finds it in L2.
    try:
        problem = Problem(
            batch=batch, heads=heads[0], kv_heads=heads[1], seqlen_q=q, seqlen_k=k, **mask
        )
    except ValueError:  # a window that shows nobody anything
        return
    design = Design.for_problem(problem, B200, pack_gqa=False)
    brought, seen = Counter(), {}
    for tile in make_plan(problem, design, B200).tiles:
        owner = (tile.head // problem.group, tile.batch)
        brought[owner] += tile.hbm_steps / tile.kv_sharers
        blocks = seen.setdefault(owner, set())
        blocks.update(step.n_block for step in tile.steps if step.n_block >= 0)
    assert {owner: len(blocks) for owner, blocks in seen.items()} == pytest.approx(brought)
