"""Steps, tiles and roles of small kernels, by subtraction."""

import numpy as np
import pytest

from fa4kernel.code.kernels import Kernel
from fa4kernel.code.measure import measure, pipes, slots
from fa4kernel.code.shapes import BLOCK, RISE, SHAPES, TILE_ROWS, Shape, arrays, keys, queries
from fa4kernel.code.units import UNITS
from fa4sim.numerics import from_bits8, from_bits16
from fa4sim.specs import B200, FP8
from tests.code.kernels import EXPONENTIALS, stand_in, stand_in_launch

FULL, CAUSAL = SHAPES["full-128"], SHAPES["causal-128"]


def measured(shape=FULL, persistent=True, **text):
    kernel = Kernel("ours", "a stand-in", stand_in(**text), lambda given: stand_in_launch(
        given, persistent))  # fmt: skip
    return measure(kernel, shape)


def test_a_step_is_what_one_block_more_makes_a_warp_execute():
    found = measured()
    (role,) = found.roles
    # ex2 (8), max, and, setp, bra, add, setp, bra; a false branch falls through to nothing.
    assert role.step == {
        "MUFU": EXPONENTIALS, "maximum": 1, "integer, logic": 4, "branch": 2,
    }  # fmt: skip
    assert role.rescaled == role.step
    assert role.exact and role.even
    assert slots(role.step) == EXPONENTIALS + 7


def test_a_tile_is_what_remains_beside_its_steps():
    found = measured()
    (role,) = found.roles
    assert role.tile == {"conversion": 1, "integer, logic": 2, "branch": 1, "move": 1}
    assert found.persistent


def test_a_cta_with_one_tile_has_its_whole_life_beside_its_steps():
    found = measured(persistent=False)
    (role,) = found.roles
    assert not found.persistent
    assert role.step["MUFU"] == EXPONENTIALS
    assert role.tile == {
        "conversion": 1, "integer, logic": 2, "branch": 2, "move": 3, "parameter": 2,
    }  # fmt: skip


def test_one_instruction_more_in_a_step_is_one_issue_slot_more():
    plain, more = (
        measured(extra=extra).roles[0] for extra in ("", "fma.rn.f32 %f2, %f2, %f2, %f2;")
    )
    assert slots(more.step) - slots(plain.step) == 1
    assert slots(more.tile) == slots(plain.tile)
    assert more.loop is not None and plain.loop is not None
    assert len(more.loop.body) == len(plain.loop.body) + 1


def test_what_only_every_second_block_executes_counts_half_and_is_no_exact_step():
    found = measured(guarded="fma.rn.f32 %f2, %f2, %f2, %f2;")
    assert found.roles[0].step["scalar FMA"] == 0.5
    assert not found.roles[0].exact


def test_pipes_are_busy_for_the_machines_cycles():
    assert pipes({"MUFU": 3, "maximum": 2, "conversion": 1, "branch": 9}) == {
        "MUFU": 3 * B200.mufu_cycles_per_warp,
        "ALU": 2 * B200.alu_cycles_per_warp + B200.convert_cycles_per_warp,
    }


def test_moves_cost_no_slot_and_proxy_fences_two():
    assert slots({"move": 7, "shift left": 3, "jump": 2}) == 0
    assert slots({"proxy fence": 1}) == UNITS["proxy fence"].slots == 2


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_problems_differ_in_lengths_alone_and_fit_the_shape(shape):
    given = arrays(shape, tiles=4, blocks=5, rising=False)
    keys = 5 * BLOCK * shape.splits
    (batch, rows, heads, head_dim), kv_heads = given.q.shape, given.k.shape[2]
    assert (heads, head_dim) == (shape.group * kv_heads, shape.head_dim)
    assert given.o.shape == (batch, rows, heads, shape.head_dim_v)
    assert given.lse.shape == (batch, heads, rows)
    if shape.decode:
        assert (batch * kv_heads, rows) == (4, 1)
    else:
        of_a_cta = rows * shape.group / TILE_ROWS / shape.ctas
        assert (batch, kv_heads) == (1, 1) and 3 < of_a_cta <= 4
    if shape.page_size is None:
        assert given.k.shape == (batch, keys, kv_heads, shape.head_dim)
        assert given.page_table is None
    else:
        table = given.page_table
        assert table.shape == (batch, keys / shape.page_size)
        assert sorted(table.ravel()) == list(range(len(given.k)))
        assert given.k.shape[1] == shape.page_size and (given.seqused_k == keys).all()
    assert given.v.shape == (*given.k.shape[:3], shape.head_dim_v)
    assert (given.descales is not None) == shape.descale
    if shape.splits > 1:
        assert given.partial_o.shape == (shape.splits, *given.o.shape)
        assert given.partial_lse.shape == (shape.splits, *given.lse.shape)


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_scores_rise_from_block_to_block_or_not_at_all(shape):
    blocks = 20 * shape.splits
    decode = from_bits8 if shape.dtype in FP8 else from_bits16
    for rising in (False, True):
        given = arrays(shape, tiles=1, blocks=20, rising=rising)
        q, k = (decode(x, shape.dtype)[..., 0, :] for x in (given.q, given.k))
        first = k.reshape(-1, shape.head_dim)[: blocks * BLOCK]  # of the first sequence
        scores = (q[0, :1] @ first.T)[0] * shape.head_dim**-0.5 * np.log2(np.e)
        by_block = scores.reshape(blocks, BLOCK)
        assert (by_block == by_block[:, :1]).all()
        rise = -np.diff(by_block[:, 0])  # the last keys are processed first
        if rising:
            # FA4 lets 8 pass before it rescales, with FP8 nothing
            assert (rise > (0 if shape.dtype in FP8 else 2 * 8)).all()
            assert RISE > 0
        else:
            assert (rise == 0).all()


def test_sequences_of_varied_lengths_lie_end_to_end():
    shape = Shape("", group=4, varlen=True)
    given = arrays(shape, tiles=2, blocks=5, rising=True)
    assert given.q.shape == (128, 4, 128) and given.k.shape == (5 * BLOCK, 1, 128)
    assert given.o.shape == given.q.shape and given.lse.shape == (4, 128)
    assert given.cu_seqlens_q.tolist() == [0, 128] and given.cu_seqlens_k.tolist() == [0, 640]
    assert (queries(given), keys(given)) == (128, 640)
    assert shape.title.endswith("queries of 4 heads in a tile, varied lengths")
    problem = shape.problem(2, 100, 300)
    assert (problem.seqlens_q, problem.seqlens_k) == ((100, 100), (300, 300))


def test_no_two_shapes_have_one_title():
    assert len({shape.title for shape in SHAPES.values()}) == len(SHAPES)
