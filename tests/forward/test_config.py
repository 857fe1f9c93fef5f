"""What is fixed at compile time: refusals, and sizes that are the simulated design's."""

from __future__ import annotations

import pytest

from fa4kernel.forward.config import FRAGMENT, SMALL_BYTES, TILE, Config, swizzle_bytes
from fa4kernel.forward.design import design_for
from fa4sim.specs import B200, Design, Problem
from tests.forward.cases import ALL

MOST_SHARED_BYTES = 232448


@pytest.mark.parametrize(
    "fields, quoted",
    [
        ({"dtype": "fp8"}, "dtype='fp8': the forward kernel knows bf16, fp16, e4m3, e5m2"),
        ({"dtype": "e4m3", "head_dim": 80}, "head_dim=80: must be a multiple of 32"),
        ({"split": True}, "split=True with scheduler='static_persistent'"),
        ({"split": True, "cta_group": 2}, "split=True with cta_group=2"),
        ({"descale": True}, "descale=True with dtype='bf16': only FP8 is descaled (e4m3, e5m2)"),
        ({"scheduler": "dynamic"}, "scheduler='dynamic'"),
        ({"epilogue": "none"}, "epilogue='none'"),
        ({"q_stages": 3}, "q_stages=3: the forward kernel knows 1, 2"),
        ({"cta_group": 4}, "cta_group=4"),
        ({"head_dim": 72}, "head_dim=72: must be a multiple of 16"),
        ({"head_dim": 0}, "head_dim=0"),
        ({"head_dim_v": 208}, "head_dim_v=208"),
        ({"group": 3, "pack_gqa": True}, "q_load='tma' with pack_gqa=True and group=3"),
        (
            {"group": 3, "pack_gqa": True, "q_load": "cp_async"},
            "epilogue='tma' with pack_gqa=True and group=3",
        ),
        ({"q_load": "threads"}, "q_load='threads': the forward kernel knows tma, cp_async"),
        ({"kv_load": "cp_async"}, "kv_load='cp_async' without pages"),
        (
            {"kv_load": "cp_async", "paged": True, "cta_group": 2},
            "kv_load='cp_async' with cta_group=2",
        ),
    ],
)
def test_refusals_quote_the_value(fields, quoted):
    with pytest.raises(ValueError) as refused:
        Config(**fields)
    assert quoted in str(refused.value)


def test_softcap_is_refused():
    problem = Problem(softcap=5.0)
    with pytest.raises(ValueError, match=r"softcap=5\.0: the forward kernel has none; use 0"):
        Config.of(problem, design_for(problem, B200))


def test_blocks_of_64_keys_are_refused():
    problem = Problem(page_size=64, seqlen_q=1, seqlen_k=300)
    design = design_for(problem, B200, tile_n=64, kv_stages=3)
    assert design.kv_load == "tma", "as if a page were a block"
    with pytest.raises(ValueError, match="tile_n=64: the forward kernel has blocks of 128 keys"):
        Config.of(problem, design)


@pytest.mark.parametrize(
    "problem, left, right",
    [
        ({}, False, False),
        ({"causal": True}, False, True),
        ({"window": (5, None)}, True, False),
        ({"window": (None, 5)}, False, True),
        ({"window": (0, 0)}, True, True),
    ],
)
def test_masks_of_a_problem(problem, left, right):
    made = Problem(seqlen_q=512, **problem)
    cfg = Config.of(made, design_for(made, B200))
    assert (cfg.window_left, cfg.window_right, cfg.masked) == (left, right, left or right)
    assert cfg.causal == made.causal


@pytest.mark.parametrize("case", ALL, ids=lambda case: case.name)
def test_sizes_are_the_designs(case):
    cfg, design, problem = case.config, case.chosen, case.problem
    bytes_of = design.smem_bytes(problem)
    assert cfg.q_bytes == design.q_tile_bytes(problem)
    assert cfg.k_bytes == design.k_tile_bytes(problem)
    assert cfg.v_bytes == design.v_tile_bytes(problem)
    assert cfg.o_bytes == design.o_tile_bytes(problem)
    assert cfg.ring_bytes == bytes_of["ring"]
    assert cfg.shared_bytes == bytes_of["Q"] + bytes_of["O"] + bytes_of["ring"] + SMALL_BYTES
    assert cfg.shared_bytes <= MOST_SHARED_BYTES
    assert cfg.tile_rows == design.work_rows * design.cta_group


@pytest.mark.parametrize("period", [0, 2, 4, 10, 16, 32])
@pytest.mark.parametrize("first", [0, 1, 3])
def test_as_many_exponentials_are_emulated_as_the_simulator_counts(period, first):
    fields = {"exp2_period": period, "exp2_emulated": min(4, period), "exp2_first_fragment": first}
    cfg, design = Config(**fields), Design(**fields)
    for fragment in range(TILE // FRAGMENT):
        mine = sum(cfg.emulated(fragment, column) for column in range(FRAGMENT))
        assert mine == design.emulated_in_fragment(fragment)


@pytest.mark.parametrize("element_bytes", [1, 2, 4])
@pytest.mark.parametrize("columns", range(32, 193, 32))
def test_slabs_divide_a_row_and_are_as_wide_as_can_be(columns, element_bytes):
    width = swizzle_bytes(columns, element_bytes)
    assert element_bytes * columns % width == 0
    assert width == 128 or element_bytes * columns % (2 * width)
