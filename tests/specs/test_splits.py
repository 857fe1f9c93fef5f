"""Split-KV: how many splits the kernel settles on, and what its design is then."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fa4sim.specs import B200, B300, H200, Design, Problem, design_for
from fa4sim.specs.splits import heuristic_splits, keys_loaded

DECODE = {"batch": 1, "heads": 8, "kv_heads": 1, "seqlen_q": 1, "seqlen_k": 65536}
LONG = {"seqlen_q": 1, "seqlen_k": 65536}


def chosen(machine=B200, changes=None, **fields):
    return Design.for_problem(Problem(**fields), machine, **(changes or {}))


def refused(words, call, *arguments, **named):
    with pytest.raises(ValueError) as caught:
        call(*arguments, **named)
    assert words in str(caught.value), caught.value


# -- the number of splits ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "fields, splits",
    [
        ({}, 128),  # 148 SMs for one tile, and the heuristic goes to 128
        ({"batch": 2}, 74),
        ({"batch": 37}, 4),
        ({"batch": 74}, 2),
        ({"batch": 75}, 1),
        ({"batch": 1000}, 1),
        ({"seqlen_k": 512}, 1),  # up to 4 blocks never
        ({"seqlen_k": 513}, 5),
        ({"seqlen_k": 0}, 1),
        ({"seqlen_q": 16}, 128),  # 128 packed rows are one tile
        ({"seqlen_q": 17}, 128),  # and so are 256, of two stages
        ({"seqlen_q": 33}, 74),
        ({"kv_heads": 8}, 18),
        ({"causal": True}, 128),
        ({"window": (255, 256)}, 5),
    ],
)
def test_the_heuristic_fills_the_sms_once(fields, splits):
    assert chosen(**{**DECODE, "num_splits": 0, **fields}).num_splits == splits


@given(tiles=st.integers(0, 500), sms=st.integers(1, 200), blocks=st.integers(0, 3000))
def test_the_heuristic_never_asks_for_more_ctas_than_sms_nor_for_empty_splits(tiles, sms, blocks):
    splits = heuristic_splits(tiles, sms, blocks)
    assert 1 <= splits <= 128
    if splits > 1:
        assert splits * tiles <= sms and splits <= blocks and blocks > 4
        more = splits + 1
        assert more * tiles > sms or more > blocks or more > 128  # and it is as many as that allows


@pytest.mark.parametrize("splits", [1, 2, 7, 256])
def test_a_number_that_is_asked_for_is_taken(splits):
    assert chosen(**DECODE, num_splits=splits).num_splits == splits
    assert chosen(**DECODE, changes={"num_splits": splits}).num_splits == splits


def test_nothing_is_split_unless_it_is_asked_for():
    assert Problem(**DECODE).num_splits == 1 and chosen(**DECODE).num_splits == 1


@given(
    left=st.none() | st.integers(0, 3000), right=st.none() | st.integers(0, 3000),
    keys=st.integers(1, 5000),
)  # fmt: skip
def test_a_window_limits_the_keys_that_count_but_a_side_of_0_does_not(left, right, keys):
    problem = Problem(seqlen_k=keys, window=(left, right))
    if problem.window is None:
        assert keys_loaded(problem) == keys
    elif left and right:
        assert keys_loaded(problem) == min(keys, left + right + 129)
    else:
        assert keys_loaded(problem) == keys


# -- unequal head dims -------------------------------------------------------------------------


@pytest.mark.parametrize("dims", [(192, 128), (64, 128), (128, 64)])
@pytest.mark.parametrize("asked", [0, 2, 200])
def test_unequal_head_dims_are_split_from_64_blocks_on_with_tiles_of_64_keys(dims, asked):
    fields = {**DECODE, "head_dim": dims[0], "head_dim_v": dims[1], "num_splits": asked}
    short, long = chosen(**{**fields, "seqlen_k": 8064}), chosen(**{**fields, "seqlen_k": 8065})
    assert (short.num_splits, short.tile_n) == (1, 128)
    assert (long.num_splits, long.tile_n) == (127, 64)  # the heuristic's, whatever was asked for
    given = chosen(**fields, changes={"tile_n": 64, "num_splits": 5})
    assert (given.num_splits, given.tile_n) == (5, 64)


# -- the design --------------------------------------------------------------------------------

DIMS = (16, 32, 64, 80, 96, 112, 128)
RING = {
    ("bf16", 2): (32, 22, 8, 5, 3, 2, 3),
    ("bf16", 1): (32, 25, 11, 8, 6, 5, 5),
    ("e4m3", 2): (32, 32, 18, 12, 8, 6, 6),
    ("e4m3", 1): (32, 32, 23, 17, 13, 11, 10),
}


@pytest.mark.parametrize(
    "dtype, q_stages, d, stages",
    [(*key, d, n) for key, row in RING.items() for d, n in zip(DIMS, row, strict=True)],
)
def test_partial_results_in_float32_cost_ring_slots(dtype, q_stages, d, stages):
    problem = Problem(seqlen_q=128 * q_stages, seqlen_k=4096, head_dim=d, dtype=dtype, num_splits=2)
    design = Design.for_problem(problem, B200)
    assert (design.q_stages, design.kv_stages, design.cta_group) == (q_stages, stages, 1)
    assert design.o_tile_bytes(problem) == 128 * d * 4
    assert design.overlap_o_q == (d == 128)


@pytest.mark.parametrize("q, stages", [(1, 6), (2, 4)])
def test_head_dims_192_and_128_have_an_even_ring_of_half_tiles(q, stages):
    design = chosen(seqlen_q=128 * q, seqlen_k=65536, head_dim=192, head_dim_v=128, num_splits=0)
    assert (design.kv_stages, design.uneven_kv_ring, design.overlap_o_q) == (stages, False, True)
    assert design.p_first_columns == 32


@pytest.mark.parametrize(
    "fields, epilogue, q_load",
    [
        ({}, "tma", "tma"),
        ({"heads": 8, "kv_heads": 2}, "correction", "tma"),
        ({"heads": 6, "kv_heads": 2}, "correction", "cp_async"),
        ({"seqlens_q": (1, 1)}, "correction", "tma"),
    ],
)
@pytest.mark.parametrize("causal", [False, True])
def test_nobody_stays_and_packed_heads_are_stored_by_the_correction_warps(
    fields, epilogue, q_load, causal
):
    design = chosen(**{**LONG, **fields, "num_splits": 4, "causal": causal})
    assert (design.epilogue, design.q_load, design.cta_group) == (epilogue, q_load, 1)
    assert design.scheduler != "static_persistent" and not design.one_m_block
    whole = chosen(**{**LONG, **fields, "causal": causal})
    assert whole.one_m_block


def test_splitting_takes_the_pair_away():
    long = {"seqlen_q": 4096}
    assert chosen(**long).cta_group == 2
    assert chosen(**long, num_splits=2).cta_group == 1
    assert chosen(**long, num_splits=2).scheduler == "single_tile"


@given(
    d=st.integers(1, 16).map(lambda i: 8 * i), dv=st.integers(1, 16).map(lambda i: 8 * i),
    q=st.sampled_from([1, 200, 5000]), group=st.sampled_from([1, 2, 3, 8]), causal=st.booleans(),
    splits=st.sampled_from([0, 2, 9]),
)  # fmt: skip
def test_whatever_is_chosen_fits(d, dv, q, group, causal, splits):
    problem = Problem(
        heads=group, kv_heads=1, seqlen_q=q, seqlen_k=20000, head_dim=d, head_dim_v=dv,
        causal=causal, num_splits=splits,
    )  # fmt: skip
    for machine in (B200, B300):
        design = Design.for_problem(problem, machine)
        assert sum(design.smem_bytes(problem).values()) <= machine.smem_bytes_per_cta


# -- refusals ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"cta_group": 2}, "num_splits=4 with cta_group=2: the kernel splits keys among single"),
        ({"scheduler": "static_persistent"}, "num_splits=4 with scheduler='static_persistent'"),
        ({"one_m_block": True}, "num_splits=4 with one_m_block=True: a CTA that splits keys"),
        (
            {"head_dim_v_padded": 192, "q_stages": 1, "kv_stages": 2},
            "num_splits=4 with head_dim_v_padded=192",
        ),
    ],
)
def test_what_cannot_be_split(changes, words):
    problem = Problem(seqlen_q=4096, num_splits=4)
    refused(words, Design.for_problem, problem, B200, **changes)


def test_packed_heads_cannot_be_stored_by_tma():
    problem = Problem(**DECODE, num_splits=4)
    refused(
        "num_splits=4 with pack_gqa=True and epilogue='tma'",
        Design.for_problem, problem, B200, epilogue="tma",
    )  # fmt: skip
    assert Design.for_problem(problem, B200, pack_gqa=False, epilogue="tma").num_splits == 4


def test_the_uneven_ring_is_not_split():
    problem = Problem(seqlen_k=65536, head_dim=192, head_dim_v=128)
    design = Design.for_problem(problem, B200, cta_group=1, scheduler="single_tile")
    assert design.uneven_kv_ring
    for splits, q in itertools.product((2, 256), (1, 2)):
        refused(
            "uneven_kv_ring=True", design.replace, problem, B200, num_splits=splits, q_stages=q,
            one_m_block=False,
        )  # fmt: skip


def test_hopper_does_not_split():
    for splits in (0, 2):
        refused(
            f"num_splits={splits}: the Hopper kernel does not split",
            design_for, Problem(num_splits=splits), H200,
        )  # fmt: skip
