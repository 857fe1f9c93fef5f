"""Hopper designs and machines: what fits, what is refused, and where constants come from."""

import dataclasses

import pytest

from fa4sim import B200, H100, H200, Design, HopperDesign, Problem, design_for, simulate
from fa4sim.specs import MACHINES, machine_named
from fa4sim.specs.measured import h200_value


def chosen(changes=None, **fields):
    return HopperDesign.for_problem(Problem(**fields), H200, **(changes or {}))


def test_the_choice_follows_head_dim_and_mask():
    full, causal, small = chosen(), chosen(causal=True), chosen(head_dim=64)
    assert (full.consumers, full.work_rows, full.tile_n, full.kv_stages) == (2, 128, 128, 2)
    assert (full.registers_consumer, full.registers_load, full.threads) == (240, 24, 384)
    assert (small.consumers, small.work_rows, small.registers_consumer) == (3, 192, 160)
    assert (full.scheduler, causal.scheduler) == ("static_persistent", "lpt")
    plain = chosen({"specialised": False})
    assert (plain.overlap, plain.ping_pong, plain.kv_stages, plain.threads) == (
        False, False, 1, 256,
    )  # fmt: skip


def test_shared_memory_is_the_kernels():
    problem = Problem()
    assert sum(chosen().smem_bytes(problem).values()) == 1024 + 32768 + 4 * 32768
    assert sum(chosen({"tile_n": 176}).smem_bytes(problem).values()) == 214016


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"consumers": 4}, "consumers=4 must be 1 to 3"),
        ({"tile_n": 100}, "tile_n=100 must be a multiple of 16"),
        ({"kv_stages": 4}, "kv_stages up to 3 would fit"),
        ({"kv_stages": 1}, "kv_stages=1 must be 2 or more with overlap"),
        ({"consumers": 3}, "it would spill"),
        ({"tile_n": 256}, "kv_stages up to 1 would fit"),
        ({"registers_consumer": 248, "registers_load": 32}, "take 16 away somewhere"),
        ({"consumers": 1, "ping_pong": True}, "needs 2 or 3 consumers"),
        ({"specialised": False, "overlap": True}, "every product is waited for"),
        ({"specialised": False, "kv_stages": 2}, "one slot each"),
        ({"scheduler": "dynamic"}, "scheduler='dynamic'"),
        ({"q_stages": 2}, "a Hopper design has no field 'q_stages'"),
        ({"overlap": 1}, "overlap=1 must be True or False"),
        ({"faults": 3}, "must be a tuple of Fault"),
        ({"head_dim_padded": 64}, "exceed the design's"),
    ],
)
def test_what_no_kernel_could_run_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        chosen(changes)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"dtype": "e4m3"}, "the Hopper kernel knows bf16 and fp16"),
        ({"seqlens_q": (3, 4)}, "query lengths that are all equal"),
        ({"softcap": 10.0}, "has no softcap"),
        ({"sink": True}, "has no sink"),
    ],
)
def test_problems_beyond_the_kernel_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        chosen(**fields)


def test_machine_and_design_must_be_of_a_kind():
    problem = Problem(seqlen_q=256)
    assert isinstance(design_for(problem, H200), HopperDesign)
    assert isinstance(design_for(problem, B200), Design)
    with pytest.raises(ValueError, match="does not run on B200"):
        HopperDesign.for_problem(problem, B200)
    with pytest.raises(ValueError, match=r"must be a fa4sim.HopperDesign on H200"):
        simulate(problem, Design.for_problem(problem, B200), H200)
    with pytest.raises(ValueError, match=r"must be a fa4sim.Design on B200"):
        simulate(problem, HopperDesign(), B200)
    with pytest.raises(ValueError, match="TMEM columns"):
        Design.for_problem(problem, H200)


def test_a_what_if_is_checked_like_a_choice():
    problem, design = Problem(), chosen()
    assert design.replace(problem, H200, ping_pong=False) == dataclasses.replace(
        design, ping_pong=False
    )
    with pytest.raises(ValueError, match="would fit"):
        design.replace(problem, H200, kv_stages=9)


@pytest.mark.parametrize("machine", [H100, H200])
def test_two_constants_of_hopper_are_fitted_at_most(machine):
    kinds = {name: origin.kind for name, origin in machine.origins.items()}
    assert [*kinds.values()].count("fitted") == 2
    fields = {f.name for f in dataclasses.fields(machine)} - {"name", "origins"}
    assert set(kinds) == fields
    for name, origin in machine.origins.items():
        if origin.kind in ("assumed", "fitted"):
            assert origin.low <= getattr(machine, name) <= origin.high


def test_a_wgmmas_latency_is_the_measured_one_however_it_is_divided():
    whole = round(h200_value("wgmma_commit_to_wait_cycles"))
    assert H200.mma_start_cycles + H200.mma_commit_cycles == whole


def test_h100_and_h200_differ_in_clock_and_memories_only():
    different = {
        f.name for f in dataclasses.fields(H100) if getattr(H100, f.name) != getattr(H200, f.name)
    } - {"origins"}
    assert different == {"name", "clock_hz", "l2_bytes", "hbm_bytes_per_second"}
    assert machine_named("h200") is H200 and MACHINES["h100"] is H100


def test_a_hopper_machine_has_a_queue_and_a_blackwell_machine_tensor_memory():
    with pytest.raises(ValueError, match="wgmma_queue_steps=0 must be positive"):
        H200.with_constants(wgmma_queue_steps=0)
    with pytest.raises(ValueError, match="tmem_columns=0 must be positive"):
        B200.with_constants(tmem_columns=0)
    with pytest.raises(ValueError, match=r"beside_mma_issue_factor=0.5 must be 1"):
        H200.with_constants(beside_mma_issue_factor=0.5)
