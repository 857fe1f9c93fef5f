"""What the kernel would choose: tiles, ring, memories, registers, exponentials, scheduler.

The tables are those of FlashAttention-4's forward kernel at flash-attention commit 0251105a.
"""

import dataclasses
import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fa4sim.specs import B200, B300, H200, Design, Problem, design_for

HEAD_DIMS = st.integers(1, 16).map(lambda i: 8 * i)


def chosen(machine=B200, changes=None, **fields):
    return Design.for_problem(Problem(**fields), machine, **(changes or {}))


# -- the ring of K/V slots ---------------------------------------------------------------------

# dtype, Q stages -> K/V stages by head dim, one CTA.
DIMS = (16, 32, 64, 80, 96, 112, 128)
RING = {
    ("bf16", 2): (32, 24, 10, 7, 5, 4, 3),
    ("bf16", 1): (32, 26, 12, 9, 7, 6, 5),
    ("fp16", 2): (32, 24, 10, 7, 5, 4, 3),
    ("fp16", 1): (32, 26, 12, 9, 7, 6, 5),
    ("e4m3", 2): (32, 32, 22, 16, 12, 10, 8),
    ("e4m3", 1): (32, 32, 25, 19, 15, 13, 11),
    ("e5m2", 2): (32, 32, 22, 16, 12, 10, 8),
    ("e5m2", 1): (32, 32, 25, 19, 15, 13, 11),
}


@pytest.mark.parametrize(
    "dtype, q_stages, d, stages",
    [(*key, d, n) for key, row in RING.items() for d, n in zip(DIMS, row, strict=True)],
)
def test_ring_slots_by_head_dim(dtype, q_stages, d, stages):
    design = chosen(
        seqlen_q=128 * q_stages, head_dim=d, dtype=dtype, causal=True, seqlen_k=1024
    )  # causal: never a pair
    assert (design.q_stages, design.cta_group) == (q_stages, 1)
    assert design.kv_stages == stages and not design.uneven_kv_ring


@pytest.mark.parametrize(
    "fields, stages, uneven",
    [
        ({"head_dim": 128}, 6, False),
        ({"head_dim": 128, "dtype": "e4m3"}, 16, False),
        ({"head_dim": 192, "head_dim_v": 128}, 5, False),
        ({"head_dim": 192, "head_dim_v": 128, "dtype": "e4m3"}, 13, False),
        ({"head_dim": 192, "head_dim_v": 128, "causal": True}, 3, True),
        ({"head_dim": 192, "head_dim_v": 128, "seqlen_q": 128}, 3, True),
        ({"head_dim": 192, "head_dim_v": 128, "causal": True, "dtype": "e4m3"}, 6, False),
        ({"head_dim": 192, "head_dim_v": 128, "seqlen_q": 100, "dtype": "e5m2"}, 8, False),
    ],
)
def test_ring_slots_of_pairs_and_of_unequal_head_dims(fields, stages, uneven):
    design = chosen(**{"seqlen_q": 1024, **fields})
    assert (design.kv_stages, design.uneven_kv_ring) == (stages, uneven)


def test_the_uneven_ring_interlocks_large_and_small_tiles():
    problem = Problem(seqlen_q=1024, head_dim=192, head_dim_v=128, causal=True)
    slots = Design.for_problem(problem, B200).ring_slots(problem)
    row = 128 * problem.element_bytes  # bytes of one column of 128 keys
    even = [(offset // row, size // row) for (offset, size), _ in slots]
    odd = [(offset // row, size // row) for _, (offset, size) in slots]
    assert even == [(0, 192), (192, 128), (320, 192)]  # K V K
    assert odd == [(0, 128), (128, 192), (320, 128)]  # V K V
    # Within a wrap nothing overlaps; the K of an odd wrap's slot 1 lies over slot 0's K.
    for layout in (even, odd):
        assert all(a + n <= b for (a, n), (b, _) in itertools.pairwise(layout))


@given(d=HEAD_DIMS, dv=HEAD_DIMS, q=st.sampled_from([1, 2]), fp8=st.booleans())
def test_an_even_ring_has_equal_slots_side_by_side(d, dv, q, fp8):
    if fp8:
        d, dv = 16 * -(-d // 16), 16 * -(-dv // 16)
    problem = Problem(seqlen_q=128 * q, head_dim=d, head_dim_v=dv, dtype="e4m3" if fp8 else "bf16")
    design = Design.for_problem(problem, B200)
    slots = design.ring_slots(problem)
    size = max(design.k_tile_bytes(problem), design.v_tile_bytes(problem))
    assert slots == [((i * size, size),) * 2 for i in range(design.kv_stages)]


def test_changing_the_tile_or_the_stages_makes_the_ring_follow():
    fields = {"seqlen_q": 1024, "causal": True}
    assert chosen(**fields, changes={"tile_n": 64}).kv_stages == 6
    assert chosen(**fields, changes={"q_stages": 1}).kv_stages == 5
    assert chosen(**fields, changes={"overlap_o_q": True}).kv_stages == 5
    assert chosen(**fields, changes={"kv_stages": 2}).kv_stages == 2
    unequal = {**fields, "head_dim": 192, "head_dim_v": 128}
    assert not chosen(**unequal, changes={"kv_stages": 2}).uneven_kv_ring
    assert chosen(**unequal, changes={"kv_stages": 3}).uneven_kv_ring


# -- shared memory and TMEM --------------------------------------------------------------------


def test_the_worked_example_of_shared_memory():
    problem = Problem(seqlen_q=1024, causal=True)
    smem = Design.for_problem(problem, B200).smem_bytes(problem)
    assert (smem["Q"], smem["O"], smem["ring"]) == (64 << 10, 64 << 10, 96 << 10)
    assert smem["statistics"] == 2 * 128 * 2 * 4
    assert sum(smem.values()) <= 232_448


@given(
    d=HEAD_DIMS, dv=HEAD_DIMS, q=st.sampled_from([1, 200, 5000]), causal=st.booleans(),
    dtype=st.sampled_from(["bf16", "fp16"]), group=st.sampled_from([1, 2, 3, 8]),
)  # fmt: skip
def test_whatever_the_kernel_chooses_fits(d, dv, q, causal, dtype, group):
    problem = Problem(
        heads=group, kv_heads=1, seqlen_q=q, head_dim=d, head_dim_v=dv, causal=causal, dtype=dtype
    )
    for machine in (B200, B300):
        design = Design.for_problem(problem, machine)
        assert sum(design.smem_bytes(problem).values()) <= machine.smem_bytes_per_cta
        # One more slot would exceed what the formula budgets for Q, O and the ring.
        fixed = design.smem_bytes(problem)["Q"] + design.smem_bytes(problem)["O"]
        slot = max(design.k_tile_bytes(problem), design.v_tile_bytes(problem))
        full = fixed + (design.kv_stages + 1) * slot > 224 * 1024
        assert full or design.kv_stages == 32
        lanes = 2 * design.registers_softmax + design.registers_correction + design.registers_other
        assert lanes <= 512


def test_o_shares_q_s_memory_at_head_dim_192():
    problem = Problem(seqlen_q=1024, head_dim=192, head_dim_v=128)
    design = Design.for_problem(problem, B200)
    smem = design.smem_bytes(problem)
    assert design.overlap_o_q and smem["O"] == 0 and smem["Q"] == 2 * 128 * 192 * 2
    assert not chosen(seqlen_q=1024).overlap_o_q


def test_a_pair_holds_half_of_each_k_and_v_tile_and_all_of_q():
    problem = Problem(seqlen_q=1024)
    one, pair = (Design.for_problem(problem, B200, cta_group=c) for c in (1, 2))
    assert 2 * pair.k_tile_bytes(problem) == one.k_tile_bytes(problem) == 128 * 128 * 2
    assert 2 * pair.v_tile_bytes(problem) == one.v_tile_bytes(problem)
    assert pair.q_tile_bytes(problem) == one.q_tile_bytes(problem)
    assert pair.o_tile_bytes(problem) == one.o_tile_bytes(problem)


def test_fp8_gives_sixteen_bit_output():
    problem = Problem(seqlen_q=1024, dtype="e4m3", causal=True)
    design = Design.for_problem(problem, B200)
    assert design.q_tile_bytes(problem) == 128 * 128
    assert design.o_tile_bytes(problem) == 128 * 128 * 2


@pytest.mark.parametrize(
    "d, dv, o1", [(128, 128, 384), (64, 64, 320), (96, 96, 352), (192, 128, 384)]
)
def test_the_map_of_tmem(d, dv, o1):
    columns = chosen(seqlen_q=1024, head_dim=d, head_dim_v=dv).tmem_map()
    assert columns == {
        "S0": (0, 128), "P0": (64, 64), "O0": (256, dv),
        "S1": (128, 128), "P1": (192, 64), "O1": (o1, dv),
    }  # fmt: skip


def test_p_of_fp8_needs_half_the_columns():
    columns = chosen(seqlen_q=1024, dtype="e4m3").tmem_map(element_bytes=1)
    assert columns["P0"] == (64, 32) and columns["P1"] == (192, 32)


@given(dv=HEAD_DIMS, q=st.sampled_from([1, 2]), n=st.sampled_from([64, 128]))
def test_in_tmem_only_p_overlaps_and_only_its_own_s(dv, q, n):
    design = Design(q_stages=q, tile_n=n, p_first_columns=32, head_dim_v_padded=16 * -(-dv // 16))
    owner = np.full(512, "", dtype=object)
    for name, (first, width) in sorted(design.tmem_map().items()):
        for column in range(first, first + width):
            assert owner[column] in ("", f"P{name[1]}"), (name, column)
            owner[column] = name
        assert first + width <= 512


# -- registers and exponentials ----------------------------------------------------------------

LONG = {"seqlen_q": 4096}
D192 = {"head_dim": 192, "head_dim_v": 128}
CAUSAL = {"causal": True}
FP8 = {"dtype": "e4m3"}

# fields, machine -> softmax, correction, other registers; exp2 period, first fragment
TABLE_A = [
    ({"head_dim": 64}, B200, (200, 64, 48), (16, 1)),
    ({"head_dim": 80, **CAUSAL}, B200, (200, 64, 48), (16, 1)),
    ({"head_dim": 96}, B200, (192, 80, 48), (16, 1)),
    ({"head_dim": 112, **CAUSAL}, B200, (192, 80, 48), (16, 1)),
    ({}, B200, (176, 88, 72), (10, 1)),
    (CAUSAL, B200, (192, 72, 56), (16, 1)),
    ({"window": (512, 0)}, B200, (192, 80, 48), (16, 1)),
    (D192, B200, (184, 80, 64), (16, 0)),
    ({**D192, **CAUSAL}, B200, (192, 72, 56), (32, 1)),
    ({**D192, "window": (512, 0)}, B200, (192, 80, 48), (0, 1)),
    ({**D192, "seqlen_q": 256}, B200, (192, 80, 48), (0, 1)),
    ({}, B300, (176, 80, 80), (0, 0)),
    (CAUSAL, B300, (176, 64, 96), (0, 0)),
    (D192, B300, (176, 64, 96), (0, 0)),
    ({**D192, **CAUSAL}, B300, (176, 72, 88), (0, 0)),
    ({"head_dim": 64}, B300, (200, 64, 48), (0, 1)),
    (FP8, B200, (160, 72, 120), (10, 1)),
    ({**FP8, **CAUSAL}, B200, (192, 72, 56), (8, 1)),
    ({**FP8, "head_dim": 64}, B200, (168, 96, 80), (16, 1)),
    ({"heads": 2, "kv_heads": 1, "head_dim": 96}, B200, (192, 80, 48), (10, 1)),
    ({"heads": 2, "kv_heads": 1}, B200, (176, 88, 72), (10, 1)),
    ({"heads": 2, "kv_heads": 1, "head_dim": 64}, B200, (200, 64, 48), (16, 1)),
    ({"heads": 2, "kv_heads": 1, **CAUSAL}, B200, (192, 72, 56), (16, 1)),
    ({"heads": 2, "kv_heads": 1, "seqlens_q": (4096,)}, B200, (192, 80, 48), (32, 1)),
]


@pytest.mark.parametrize("fields, machine, registers, exp2", TABLE_A, ids=str)
def test_registers_and_exponentials_of_the_kernel_s_table(fields, machine, registers, exp2):
    if "seqlens_q" not in fields:
        fields = {**LONG, **fields}
    design = chosen(machine, **fields)
    got = (design.registers_softmax, design.registers_correction, design.registers_other)
    assert got == registers
    assert design.exp2_period == exp2[0]
    if exp2[0]:
        assert design.exp2_first_fragment == exp2[1]
    assert (design.exp2_emulated, design.exp2_degree) == (4, 3)


@pytest.mark.parametrize("fields, machine", [row[:2] for row in TABLE_A], ids=str)
def test_registers_fill_the_register_file(fields, machine):
    design = chosen(machine, **({**LONG, **fields} if "seqlens_q" not in fields else fields))
    used = 2 * design.registers_softmax + design.registers_correction + design.registers_other
    assert used == 512


# fields, machine -> emulated per eligible fragment, eligible fragments, share of the row
SHARES = [
    ({"head_dim": 64}, B200, 8, 2, 0.125),
    ({"head_dim": 96, "window": (300, 0)}, B200, 8, 2, 0.125),
    ({}, B200, 12, 2, 0.1875),
    (CAUSAL, B200, 8, 2, 0.125),
    (D192, B200, 8, 3, 0.1875),
    ({**D192, **CAUSAL}, B200, 4, 2, 0.0625),
    ({**FP8, **CAUSAL}, B200, 16, 2, 0.25),
    ({**D192, "window": (300, 0)}, B200, 0, 0, 0.0),
    ({}, B300, 0, 0, 0.0),
    ({"heads": 2, "kv_heads": 1, "seqlens_q": (4096,)}, B200, 4, 2, 0.0625),
    ({"heads": 2, "kv_heads": 1, "head_dim": 96}, B200, 12, 2, 0.1875),
]


@pytest.mark.parametrize("fields, machine, each, fragments, share", SHARES, ids=str)
def test_how_many_exponentials_run_as_polynomials(fields, machine, each, fragments, share):
    design = chosen(machine, **({**LONG, **fields} if "seqlens_q" not in fields else fields))
    counts = [design.emulated_in_fragment(f) for f in range(4)]
    assert sorted(counts, reverse=True) == [each] * fragments + [0] * (4 - fragments)
    assert counts[3] == 0, "the last fragment of a row never is emulated"
    assert design.emulated_share == share


@given(
    period=st.integers(1, 32), emulated=st.integers(0, 32), first=st.integers(0, 3),
    n=st.sampled_from([64, 128]),
)  # fmt: skip
def test_pairs_of_columns_are_emulated_by_their_place_in_the_period(period, emulated, first, n):
    emulated = min(emulated, period)
    design = Design(
        exp2_period=period, exp2_emulated=emulated, exp2_first_fragment=first, tile_n=n,
        p_first_columns=32,
    )  # fmt: skip
    columns = 0
    for fragment in range(n // 32):
        here = [
            k
            for k in range(32)
            if k // 2 * 2 % period >= period - emulated and first <= fragment < n // 32 - 1
        ]
        assert design.emulated_in_fragment(fragment) == len(here)
        columns += len(here)
    assert design.emulated_share == columns / n


def test_blocks_of_64_keys_leave_no_fragment_to_emulate():
    design = chosen(seqlen_q=1024, causal=True, changes={"tile_n": 64})
    assert design.exp2_period == 16 and design.emulated_share == 0
    assert design.p_first_columns == 32


# -- what is chosen when -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "fields, q_stages",
    [
        ({"seqlen_q": 128}, 1),
        ({"seqlen_q": 129}, 2),
        ({"seqlen_q": 16, "heads": 8, "kv_heads": 1}, 1),
        ({"seqlen_q": 17, "heads": 8, "kv_heads": 1}, 2),
        ({"seqlens_q": (128, 3)}, 1),
        ({"seqlens_q": (129, 3)}, 2),
    ],
)
def test_a_second_q_tile_is_for_more_than_128_rows(fields, q_stages):
    assert chosen(**fields, seqlen_k=512).q_stages == q_stages


@pytest.mark.parametrize(
    "fields, pair",
    [
        ({}, True),
        (D192, True),
        ({"dtype": "e4m3"}, True),
        ({"head_dim": 120, "head_dim_v": 120}, True),
        ({"seqlen_q": 257}, True),
        ({"seqlen_q": 256}, False),
        ({"seqlen_q": 129, "heads": 2, "kv_heads": 1}, True),
        ({"seqlen_q": 128, "heads": 2, "kv_heads": 1}, False),
        ({"heads": 6, "kv_heads": 2}, False),
        ({"causal": True}, False),
        ({"window": (99, 99)}, False),
        ({"head_dim": 112}, False),
        ({"head_dim": 128, "head_dim_v": 64}, False),
        ({"head_dim": 64}, False),
        ({"seqlens_q": (1024,)}, False),
        ({"seqlens_k": (1024,)}, True),
    ],
    ids=str,
)
def test_a_pair_is_for_long_unmasked_problems_of_128_columns_of_v(fields, pair):
    assert chosen(**{"seqlen_q": 1024, **fields}).cta_group == (2 if pair else 1)


@pytest.mark.parametrize(
    "fields, scheduler",
    [
        ({}, "static_persistent"),
        ({"causal": True}, "lpt"),
        ({"window": (9, 9)}, "lpt"),
        ({"seqlens_k": (5, 6)}, "static_persistent"),
        ({"seqlens_q": (5, 600)}, "single_tile_varlen"),
        ({"seqlens_q": (5, 600), "causal": True}, "single_tile_varlen"),
        ({"seqlens_q": (5, 256)}, "static_persistent"),
        ({"seqlens_q": (5, 6), "causal": True}, "static_persistent"),
        ({"seqlens_q": (5, 129), "heads": 2, "kv_heads": 1}, "single_tile_varlen"),
    ],
    ids=str,
)
def test_the_scheduler_follows_the_mask_and_the_lengths(fields, scheduler):
    assert chosen(**fields).scheduler == scheduler


@pytest.mark.parametrize(
    "fields, pack, q_load, epilogue",
    [
        ({}, False, "tma", "tma"),
        ({"heads": 4, "kv_heads": 4}, False, "tma", "tma"),
        ({"heads": 8, "kv_heads": 2}, True, "tma", "tma"),
        ({"heads": 6, "kv_heads": 2}, True, "cp_async", "correction"),
        ({"heads": 256, "kv_heads": 1}, True, "cp_async", "correction"),
        ({"seqlens_q": (300, 5)}, False, "tma", "correction"),
        ({"seqlens_q": (300, 5), "heads": 6, "kv_heads": 2}, True, "cp_async", "correction"),
        ({"seqlens_k": (300, 5)}, False, "tma", "tma"),
    ],
    ids=str,
)
def test_who_moves_q_and_o(fields, pack, q_load, epilogue):
    design = chosen(**fields)
    assert (design.pack_gqa, design.q_load, design.epilogue) == (pack, q_load, epilogue)


def test_grouped_heads_need_not_be_packed():
    design = chosen(seqlen_q=1024, heads=6, kv_heads=2, changes={"pack_gqa": False})
    assert (design.q_load, design.epilogue, design.cta_group) == ("tma", "tma", 2)


def test_fp8_rescales_always_and_scales_p_up():
    fp8, bf16 = chosen(dtype="e5m2"), chosen()
    assert (fp8.rescale_threshold, fp8.max_offset) == (0, 8)
    assert (bf16.rescale_threshold, bf16.max_offset) == (8, 0)


@given(d=HEAD_DIMS, dv=HEAD_DIMS)
def test_head_dims_are_padded_to_steps_of_sixteen(d, dv):
    design = chosen(head_dim=d, head_dim_v=dv)
    for padded, plain in ((design.head_dim_padded, d), (design.head_dim_v_padded, dv)):
        assert padded % 16 == 0 and 0 <= padded - plain < 16


def test_rows_of_a_work_tile():
    assert Design(q_stages=2).work_rows == 256 and Design(q_stages=1).work_rows == 128
    assert Design().threads == 512


# -- designs as values -------------------------------------------------------------------------


def test_designs_are_values():
    design = chosen(seqlen_q=1024)
    again = Design(**dataclasses.asdict(design))
    assert again == design and hash(again) == hash(design)
    assert design.replace(Problem(seqlen_q=1024), B200, kv_stages=4).kv_stages == 4
    assert Design(kv_stages=np.int64(4), pack_gqa=np.False_, rescale_threshold=2) == Design(
        kv_stages=4, rescale_threshold=2.0
    )
    assert type(Design(tile_n=128.0).tile_n) is int


def test_what_is_changed_is_kept():
    changes = {
        "kv_stages": 4, "registers_softmax": 168, "registers_correction": 96, "exp2_period": 8,
        "exp2_degree": 5, "rescale_threshold": 2.0, "p_first_columns": 64, "p_store_early": False,
    }  # fmt: skip
    design = chosen(seqlen_q=1024, changes=changes)
    assert {name: getattr(design, name) for name in changes} == changes
    assert design.registers_other == 512 - 2 * 168 - 96


def test_a_short_period_emulates_no_more_columns_than_it_has():
    assert chosen(changes={"exp2_period": 2}).exp2_emulated == 2
    assert chosen(changes={"exp2_period": 2, "exp2_emulated": 1}).exp2_emulated == 1


# -- pages -------------------------------------------------------------------------------------


def test_pages_of_a_block_come_by_tma_and_others_by_cp_async():
    for page in (1, 8, 64, 127, 256):
        assert chosen(page_size=page).kv_load == "cp_async"
    assert chosen(page_size=128).kv_load == chosen().kv_load == "tma"
    assert chosen(page_size=64, changes={"tile_n": 64}).kv_load == "tma"
    assert chosen(page_size=128, changes={"tile_n": 64}).kv_load == "cp_async"
    assert chosen(page_size=1).page_pointers == "transposed"


@pytest.mark.parametrize(
    "fields, registers",
    [
        ({}, (184, 64, 80)),
        ({"causal": True}, (184, 64, 80)),
        ({"head_dim": 64}, (184, 64, 80)),
        ({"dtype": "e4m3"}, (184, 64, 80)),
        ({"dtype": "e4m3", "head_dim": 64}, (152, 96, 112)),
        ({"head_dim": 192, "head_dim_v": 128, "causal": True}, (184, 64, 80)),
    ],
)
def test_load_warps_that_copy_row_by_row_get_more_registers(fields, registers):
    design = chosen(**fields, seqlen_q=2048, page_size=16)
    assert registers == (
        design.registers_softmax, design.registers_correction, design.registers_other
    )  # fmt: skip
    whole = chosen(**fields, seqlen_q=2048, changes={"cta_group": 1})
    pages = chosen(**fields, seqlen_q=2048, page_size=128, changes={"cta_group": 1})
    assert pages == whole and design.kv_stages == whole.kv_stages
    assert (design.exp2_period, design.exp2_first_fragment) == (
        whole.exp2_period, whole.exp2_first_fragment
    )  # fmt: skip


def test_pairs_take_pages_of_128_and_no_others():
    assert chosen(seqlen_q=2048, page_size=128).cta_group == 2
    assert chosen(seqlen_q=2048, page_size=64).cta_group == 1
    assert chosen(seqlen_q=2048, page_size=64, changes={"tile_n": 64}).cta_group == 1
    with pytest.raises(ValueError, match="cta_group=2 needs K and V by TMA"):
        chosen(seqlen_q=2048, page_size=64, changes={"cta_group": 2})


@pytest.mark.parametrize(
    "fields, changes, words",
    [
        ({}, {"kv_load": "cp_async"}, "there is none; give the problem a page_size"),
        ({"page_size": 16}, {"kv_load": "tma"}, "page_size=16 is not tile_n=128"),
        ({"page_size": 16, "head_dim": 72}, {}, r"head dims \(72, 72\) must be multiples of 16"),
        ({"page_size": 16}, {"scheduler": "dynamic"}, "scheduler='dynamic' needs K and V by TMA"),
        ({"page_size": 16}, {"page_pointers": "fast"}, "must be one of transposed, naive, looped"),
    ],
)
def test_what_pages_cannot_be_combined_with(fields, changes, words):
    with pytest.raises(ValueError, match=words):
        chosen(**fields, changes=changes)
    with pytest.raises(ValueError, match="K and V are modelled in one piece"):
        design_for(Problem(page_size=128), H200)
