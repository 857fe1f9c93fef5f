"""What the Hopper kernel can be, and what it is for a problem."""

from __future__ import annotations

import re

import pytest

from fa4kernel.hopper.config import Config
from fa4kernel.hopper.design import config_for
from fa4sim.specs import Problem


@pytest.mark.parametrize(
    "fields, text",
    [
        ({"dtype": "e4m3"}, "dtype='e4m3'"),
        ({"consumers": 4}, "consumers=4"),
        ({"scheduler": "dynamic"}, "scheduler='dynamic'"),
        ({"head_dim": 192}, "head_dim=192: must be a multiple of 16 from 16 to 128"),
        ({"tile_n": 100}, "tile_n=100"),
        ({"kv_stages": 1}, "kv_stages=1: must be 2 or more"),
        ({"kv_stages": 4}, "kv_stages=4 of 128 keys need"),
        ({"head_dim": 16, "head_dim_v": 16, "tile_n": 48}, "multiples of 1024 bytes"),
    ],
)
def test_a_form_that_there_is_not_is_refused(fields, text):
    with pytest.raises(ValueError, match=re.escape(text)):
        Config(**fields)


def test_shared_memory_adds_up():
    cfg = Config(tile_n=176)
    assert cfg.k_bytes == 176 * 128 * 2 and cfg.q_bytes == 64 * 128 * 2
    assert cfg.shared_bytes == 1024 + 2 * cfg.q_bytes + 2 * (cfg.k_bytes + cfg.v_bytes)


def test_the_choice_for_a_problem():
    full, causal = config_for(Problem()), config_for(Problem(causal=True))
    assert (full.scheduler, causal.scheduler) == ("static_persistent", "lpt")
    assert causal.window_right and not causal.window_left and not full.masked
    small = config_for(Problem(head_dim=64, heads=8, kv_heads=2))
    assert (small.consumers, small.registers, small.group) == (3, (160, 32), 4)
    window = config_for(Problem(window=(100, None)))
    assert window.window_left and not window.window_right
    assert config_for(Problem(head_dim=72)).head_dim == 80


@pytest.mark.parametrize(
    "problem, text",
    [
        (Problem(sink=True), "sink=True: the Hopper kernel has none"),
        (Problem(softcap=3.0), "softcap=3.0: the Hopper kernel has none"),
        (Problem(num_splits=2), "num_splits=2: the Hopper kernel has none"),
        (Problem(seqlens_k=(3,), page_size=16), "page_size=16: the Hopper kernel has none"),
        (Problem(seqlens_q=(3, 4)), "seqlens_q=(3, 4): the Hopper kernel has none"),
    ],
)
def test_what_it_does_not_do_is_refused(problem, text):
    with pytest.raises(ValueError, match=re.escape(text)):
        config_for(problem)


@pytest.mark.parametrize(
    "field, text",
    [
        ({"kv_stages": "3"}, "kv_stages='3' must be a whole number"),
        ({"registers": 240}, "registers=240 must be those of a consumer's thread"),
        ({"registers": (240, "24")}, "registers='24' must be a whole number"),
    ],
)
def test_a_field_of_another_kind_is_refused(field, text):
    with pytest.raises(ValueError, match=re.escape(text)):
        config_for(Problem(), **field)


def test_an_unknown_field_is_refused():
    with pytest.raises(ValueError, match="has no field 'stages'"):
        config_for(Problem(), stages=3)
