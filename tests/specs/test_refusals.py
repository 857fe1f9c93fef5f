"""Designs, machines and faults that cannot be: what the refusal quotes, and what it advises."""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fa4sim.specs import (
    B200,
    FAULT_KINDS,
    SCHEDULERS,
    Design,
    Fault,
    Machine,
    Problem,
    design_for,
    machine_named,
)

FIELDS = [spec.name for spec in dataclasses.fields(Design)]
PROBLEM = Problem(seqlen_q=1024)


def refused(words, call, *arguments, **named):
    with pytest.raises(ValueError) as caught:
        call(*arguments, **named)
    message = str(caught.value)
    for part in (words,) if isinstance(words, str) else words:
        assert part in message, message
    return message


def design_of(problem=PROBLEM, machine=B200, **changes):
    return Design.for_problem(problem, machine, **changes)


# -- one field by itself -----------------------------------------------------------------------

WHOLE = (
    *("tile_m", "tile_n", "q_stages", "cta_group", "kv_stages", "head_dim_padded"),
    *("head_dim_v_padded", "registers_softmax", "registers_correction", "registers_other"),
    *("exp2_period", "exp2_emulated", "exp2_first_fragment", "exp2_degree", "p_first_columns"),
    "max_offset",
    "num_splits",
    "softmax_overhead_slots",
)
FLAGS = (
    *("uneven_kv_ring", "overlap_o_q", "one_m_block", "pack_gqa", "p_store_early"),
    "dependent_launch",
)
WORDS = {
    "q_load": "tma, cp_async",
    "kv_load": "tma, cp_async",
    "page_pointers": "transposed, naive, looped",
    "epilogue": "tma, correction",
    "scheduler": ", ".join(SCHEDULERS),
}


def test_every_field_is_among_those_tested_here():
    assert {*WHOLE, *FLAGS, *WORDS, "rescale_threshold", "faults"} == set(FIELDS)


@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.parametrize("value", ["abc", "3", 3.5, math.nan, True, None, [3], 10**400, -(10**400)])
def test_a_count_is_a_whole_number_in_its_range(name, value):
    for call in (Design, design_of):
        refused((f"{name}=", " must be "), call, **{name: value})


@pytest.mark.parametrize(
    "name, good, bad, words",
    [
        ("tile_m", [128], [0, 64, 256], "must be 128"),
        ("tile_n", [128], [0, -128, 32, 96, 256], "must be one of 64, 128"),
        ("q_stages", [1, 2], [0, 3, -1], "must be one of 1, 2"),
        ("cta_group", [1, 2], [0, 4], "must be one of 1, 2"),
        ("kv_stages", [2, 32], [1, 0, -3, 33], "must be 2 to 32: between PV of one block and QK"),
        ("head_dim_padded", [16, 192], [0, 8, 100, 208], "must be a multiple of 16 from 16 to 192"),
        ("registers_softmax", [24, 256], [0, 16, 100, 264], "a multiple of 8 from 24 to 256"),
        ("registers_correction", [24, 256], [25], "a multiple of 8 from 24 to 256"),
        ("registers_other", [24, 256], [-72], "a multiple of 8 from 24 to 256"),
        ("exp2_period", [0, 4, 32], [-1, 33], "must be 0 to 32"),
        ("exp2_emulated", [0, 16], [-1, 33], "must be 0 to 32"),
        ("exp2_first_fragment", [0, 3], [-1, 4], "must be 0 to 3: a row has 4 fragments"),
        ("exp2_degree", [1, 5], [0, 6], "must be one of 1, 2, 3, 4, 5"),
        ("p_first_columns", [32, 128], [0, 16, 100, 160], "a multiple of 32 from 32 to 128"),
        ("max_offset", [0, 8], [-1, 128], "must be 0 to 127"),
        ("num_splits", [1, 256], [0, -1, 257], "must be 1 to 256: the kernel that combines"),
        ("softmax_overhead_slots", [0, 38, 1000], [-1, 1001], "must be 0 to 1000"),
        ("rescale_threshold", [0, 0.5, 8], [-1, -1e-9], "must be 0 or more"),
        ("rescale_threshold", [], [math.nan, math.inf, "q", True, None], "must be a finite number"),
    ],
)
def test_ranges(name, good, bad, words):
    for value in good:
        assert getattr(Design(**{name: value}), name) == value
    for value in bad:
        message = refused(words, Design, **{name: value})
        shown = float(value) if name == "rescale_threshold" and words.endswith("more") else value
        assert message.startswith(f"{name}={shown!r} ")


@pytest.mark.parametrize("name", FLAGS)
@pytest.mark.parametrize("value", [0, 1, "yes", None])
def test_switches_are_true_or_false(name, value):
    for call in (Design, design_of):
        refused(f"{name}={value!r} must be True or False", call, **{name: value})


@pytest.mark.parametrize("name", WORDS)
@pytest.mark.parametrize("value", ["TMA", "", None, 7, ["tma"]])
def test_choices_have_names(name, value):
    for call in (Design, design_of):
        refused(f"{name}={value!r} must be one of {WORDS[name]}", call, **{name: value})


@pytest.mark.parametrize("value", ["drop_arrival", 5, ("S_full",), [None], None])
def test_faults_are_faults(value):
    refused((f"faults={value!r}", "must be a tuple of Fault"), Design, faults=value)
    fault = Fault("drop_wait", "S_full")
    assert Design(faults=[fault]).faults == (fault,)


def test_an_unknown_field_is_answered_with_those_that_exist():
    for call in (design_of, lambda **named: Design().replace(PROBLEM, B200, **named)):
        message = refused("a design has no field 'kv_slots'", call, kv_slots=3)
        assert all(name in message for name in FIELDS)


@given(st.dictionaries(st.sampled_from(FIELDS), st.integers(-300, 300) | st.floats() | st.text()))
def test_no_value_breaks_anything_but_with_a_refusal_that_names_a_field(changes):
    try:
        design_of(**changes)
    except ValueError as error:
        names = (*FIELDS, "shared memory", "registers", "head dims", "ring", "swap_slots")
        assert any(name in str(error) for name in names)


# -- fields that contradict each other ---------------------------------------------------------


def test_p_is_handed_over_within_its_columns():
    refused(
        "p_first_columns=96 must be one of 32, 64: it is a part of tile_n=64", Design, tile_n=64
    )


def test_the_uneven_ring_has_three_slots():
    refused("has 3 slots, not kv_stages=4", Design, uneven_kv_ring=True, kv_stages=4)


def test_no_more_columns_are_emulated_than_there_are():
    refused(
        "exp2_emulated=8 of every exp2_period=4 columns", Design, exp2_period=4, exp2_emulated=8
    )
    assert Design(exp2_period=0, exp2_emulated=8).emulated_share == 0


def test_registers_that_leave_nothing_name_what_was_set_and_what_remains():
    refused(
        ("registers_softmax=192 (given)", "registers_correction=200 (given)",
         "leave 512 - 2 x 192 - 200 = -72 for registers_other", "lower one of the two"),
        design_of, registers_softmax=192, registers_correction=200,
    )  # fmt: skip
    refused(
        ("registers_softmax=240 (given)", "registers_correction=88 (the kernel's)", "= -56"),
        design_of, registers_softmax=240,
    )  # fmt: skip
    refused(("= 416 for", "give this one too"), design_of, registers_softmax=24,
            registers_correction=48)  # fmt: skip
    fits = design_of(registers_softmax=24, registers_correction=48, registers_other=256)
    assert fits.registers_other == 256


def test_more_registers_than_an_sm_has_are_added_up():
    refused(
        ("2 x 192 (softmax) + 80 (correction) + 64 (other) = 528", "an SM has 512", "take 16 away"),
        design_of, registers_softmax=192, registers_correction=80, registers_other=64,
    )  # fmt: skip


# -- what a design needs of problem and machine ------------------------------------------------


@given(kv=st.integers(2, 32), q=st.sampled_from([1, 2]), d=st.sampled_from([64, 96, 128]))
def test_the_most_slots_that_would_fit_really_are(kv, q, d):
    problem = Problem(seqlen_q=1024, head_dim=d, causal=True)
    try:
        design_of(problem, kv_stages=kv, q_stages=q)
    except ValueError as error:
        message = str(error)
        assert "bytes of shared memory" in message and "a CTA has 232,448" in message
        fits = int(message.split("kv_stages up to ")[1].split(" ")[0])
        assert fits < kv
        design_of(problem, kv_stages=fits, q_stages=q)
        with pytest.raises(ValueError, match="shared memory"):
            design_of(problem, kv_stages=fits + 1, q_stages=q)


def test_shared_memory_is_listed_by_part():
    refused(
        ("needs 265,216 bytes", "Q 65,536", "O 65,536", "ring 131,072", "kv_stages up to 3"),
        design_of, Problem(seqlen_q=1024, causal=True), kv_stages=4,
    )  # fmt: skip
    unequal = Problem(seqlen_q=1024, causal=True, head_dim=192, head_dim_v=128)
    refused("up to 2 would fit (3 with uneven_kv_ring=True)", design_of, unequal, kv_stages=4)


def test_a_ring_without_room_for_two_slots_says_what_takes_the_room():
    unequal = Problem(seqlen_q=1024, causal=True, head_dim=192, head_dim_v=128)
    refused(("gets 1 of the 2 slots", "overlap_o_q=True"), design_of, unequal, overlap_o_q=False)
    small = B200.with_constants(smem_bytes_per_cta=150_000)
    refused(("0 of the 2 ring slots", "q_stages=1"), design_of, PROBLEM, small)


def test_tmem_is_counted_in_columns():
    wide = Design(head_dim_v_padded=192, head_dim_padded=192, kv_stages=2, overlap_o_q=True,
                  p_first_columns=32, tile_n=64)  # fmt: skip
    assert max(a + n for a, n in wide.tmem_map().values()) == 512
    refused(
        ("needs 512 TMEM columns", "an SM has 256", "head_dim_v up to 0"),
        design_of, PROBLEM, B200.with_constants(tmem_columns=256),
    )  # fmt: skip
    refused(
        ("(2 x 128 for S, 2 x 128 for O)", "head_dim_v up to 64"),
        design_of, PROBLEM, B200.with_constants(tmem_columns=384),
    )  # fmt: skip


def test_head_dims_fit_into_the_tiles():
    refused("head dims (128, 128) exceed the design's (64, 128)", design_of, head_dim_padded=64)
    refused(
        ("laid out for head dims (192, 128) only, not (128, 128)", "uneven_kv_ring=False"),
        design_of, uneven_kv_ring=True, kv_stages=3, cta_group=1,
    )  # fmt: skip


@pytest.mark.parametrize(
    "fields, changes, words",
    [
        ({"causal": True}, {"cta_group": 2}, "use cta_group=1 with causal or window"),
        ({"window": (9, 9)}, {"cta_group": 2}, "use cta_group=1 with causal or window"),
        ({"seqlens_q": (999, 9)}, {"cta_group": 2}, "needs TMA for Q and O"),
        ({"heads": 3, "kv_heads": 1}, {"cta_group": 2}, "q_load='cp_async' with epilogue="),
        ({}, {"epilogue": "correction"}, "needs TMA for Q and O"),
    ],
)
def test_pairs_need_tma_and_no_mask(fields, changes, words):
    refused(words, design_of, Problem(**{"seqlen_q": 1024, **fields}), **changes)


def test_a_pair_needs_two_sms():
    lonely = B200.with_constants(sms=1)
    assert design_of(PROBLEM, lonely).cta_group == 1
    refused(
        "cta_group=2 needs 2 SMs and machine 'B200' has 1; use cta_group=1",
        design_of, PROBLEM, lonely, cta_group=2,
    )  # fmt: skip


@pytest.mark.parametrize(
    "fields, changes, words",
    [
        ({}, {"pack_gqa": True}, "heads == kv_heads == 1; use pack_gqa=False"),
        ({"heads": 3, "kv_heads": 1}, {"epilogue": "tma"}, "not 3; use epilogue='correction'"),
        ({"heads": 3, "kv_heads": 1}, {"q_load": "tma"}, "not 3; use q_load='cp_async'"),
        ({"seqlens_q": (9,)}, {"epilogue": "tma"}, "cannot clip variable query lengths"),
        ({"seqlens_q": (9,)}, {"scheduler": "lpt"}, "query lengths; use one of single_tile_"),
        ({"seqlens_q": (9, 257)}, {"scheduler": "static_persistent"}, "the longest has 257; use"),
        ({}, {"scheduler": "single_tile_varlen"}, "use one of single_tile, static_persistent"),
    ],
)  # fmt: skip
def test_heads_and_lengths_decide_who_can_serve_them(fields, changes, words):
    refused(words, design_of, Problem(**fields), **changes)


@pytest.mark.parametrize(
    "dtype, threshold, offset, fits",
    [
        ("bf16", 127.9, 0, True),
        ("bf16", 128, 0, False),
        ("fp16", 15, 0, True),
        ("fp16", 16, 0, False),
        ("fp16", 8, 8, False),
        ("e4m3", 0.75, 8, True),
        ("e4m3", 1, 8, False),
        ("e5m2", 7, 8, True),
        ("e5m2", 8, 8, False),
    ],
)
def test_p_stays_a_number_of_its_format(dtype, threshold, offset, fits):
    problem = Problem(seqlen_q=1024, dtype=dtype)
    changes = {"rescale_threshold": threshold, "max_offset": offset}
    if fits:
        assert design_of(problem, **changes).rescale_threshold == threshold
    else:
        refused((f"max_offset={offset} let P grow to 2^", dtype), design_of, problem, **changes)


@pytest.mark.parametrize(
    "fields, words",
    [
        ({"batch": 10**9}, "batch 1000000000, 1 heads and seqlen_q 1024 make 2,000,000,000 work"),
        ({"heads": 10**6, "causal": True}, "4,000,000 work tiles; at most 1,000,000"),
        ({"seqlen_k": 2**31 - 1}, "16,777,216 K/V blocks over the tiles of a head"),
        ({"seqlen_q": 2**20, "causal": True}, "lower one of them"),
        ({"seqlens_q": (10**9, 10**9), "seqlens_k": (1, 1)}, "work tiles; at most 1,000,000"),
    ],
)
def test_what_would_take_hours_is_refused(fields, words):
    refused(words, design_of, Problem(**{"seqlen_q": 1024, **fields}))


@pytest.mark.parametrize(
    "fields",
    [
        {"seqlen_q": 2**20},
        {"seqlen_q": 2**19, "causal": True},
        {"seqlen_q": 2**20, "window": (4096, 0)},
        {"seqlen_q": 1, "seqlen_k": 2**23},
        {"seqlen_q": 1024, "batch": 500, "heads": 128},
    ],
)
def test_long_problems_are_not_refused(fields):
    assert design_of(Problem(**fields)).work_rows in (128, 256)


def test_a_design_for_one_problem_may_not_do_for_another():
    design = design_of(Problem(seqlen_q=1024, head_dim=64))
    refused("exceed the design's (64, 64)", design.check, PROBLEM, B200)
    refused("shared memory", design.replace, Problem(head_dim=64), B200, kv_stages=32)


# -- faults ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", FAULT_KINDS)
def test_every_kind_of_fault_can_be_described(kind):
    barrier = "load_KV_full" if kind == "swap_slots" else "S_full"
    fault = Fault(kind, barrier, stage=np.int64(1))
    assert fault == Fault(kind, barrier, 1) and type(fault.stage) is int
    assert hash(fault) == hash(Fault(kind, barrier, 1))


@pytest.mark.parametrize(
    "arguments, words",
    [
        (("break", "S_full"), "fault kind='break' must be one of drop_arrival, drop_wait"),
        ((None, "S_full"), "fault kind=None must be one of"),
        ((["drop_wait"], "S_full"), "fault kind=['drop_wait'] must be one of"),
        (("drop_wait", ""), "fault barrier='' must be the name of a barrier"),
        (("drop_wait", 3), "fault barrier=3 must be the name of a barrier"),
        (("drop_wait", "S_full", "0"), "fault stage='0' must be a whole number"),
        (("drop_wait", "S_full", 0.5), "fault stage=0.5 must be a whole number"),
        (("drop_wait", "S_full", True), "fault stage=True must be a whole number"),
        (("drop_wait", "S_full", -1), "fault stage=-1 must be 0 or more; leave it out"),
        (("drop_wait", "S_full", 0, ""), "fault role='' must be the name of a role"),
        (("drop_wait", "S_full", 0, 7), "fault role=7 must be the name of a role"),
        (("count_plus_one", "S_full", 0, "mma"), "not a role; leave role 'mma' out"),
        (("swap_slots", "load_KV_full", 0, "mma"), "concerns the barrier, not a role"),
        (("swap_slots", "S_full"), "its barrier is load_KV_full, not 'S_full'"),
    ],
)  # fmt: skip
def test_faults_that_no_design_could_have(arguments, words):
    refused(words, Fault, *arguments)


def test_slots_are_swapped_within_the_ring():
    swap = Fault("swap_slots", "load_KV_full")
    refused("needs 3 slots or more, not kv_stages=2", design_of, kv_stages=2, faults=(swap,))
    far = Fault("swap_slots", "load_KV_full", 6)
    refused("the ring has slots 0 to 5 in this design, not stage=6", design_of, faults=(far,))


# -- machines ----------------------------------------------------------------------------------

CONSTANTS = [
    spec for spec in dataclasses.fields(Machine) if spec.name not in ("name", "origins")
]  # fmt: skip
COUNTED = {spec.name for spec in CONSTANTS if spec.type == "int"}


@pytest.mark.parametrize("name", [spec.name for spec in CONSTANTS])
@pytest.mark.parametrize("value", [math.nan, math.inf, -1, "5", None, True, [1]])
def test_constants_are_finite_numbers_and_not_negative(name, value):
    message = refused(f"machine 'B200': {name}=", B200.with_constants, **{name: value})
    assert "must be" in message
    refused(f"{name}=", dataclasses.replace, B200, **{name: value})


@pytest.mark.parametrize("name", sorted(COUNTED))
def test_what_is_counted_is_whole(name):
    refused(f"{name}=2.5 must be", B200.with_constants, **{name: 2.5})
    kept = getattr(B200.with_constants(**{name: float(getattr(B200, name))}), name)
    assert kept == getattr(B200, name) and type(kept) is int


@pytest.mark.parametrize(
    "name",
    ["sms", "clock_hz", "tensor_flops_per_cycle_16bit", "mufu_cycles_per_warp", "l2_bytes",
     "tma_bytes_per_cycle", "hbm_bytes_per_second", "smem_bytes_per_cta", "registers_per_sm"],
)  # fmt: skip
def test_rates_and_sizes_are_positive(name):
    refused((f"{name}=0", "must be positive"), B200.with_constants, **{name: 0})


@pytest.mark.parametrize("name", ["mbarrier_resume_cycles", "launch_seconds", "share_burst_bytes"])
def test_latencies_may_be_nothing(name):
    assert getattr(B200.with_constants(**{name: 0}), name) == 0


def test_a_maximum_takes_two_or_three_operands():
    for count in (1, 4, 2.5):
        refused(f"max_operands_per_instruction={count}", B200.with_constants,
                max_operands_per_instruction=count)  # fmt: skip
    assert B200.with_constants(max_operands_per_instruction=2).max_operands_per_instruction == 2


def test_nothing_gets_faster_beside_an_mma():
    refused("beside_mma_factor=0.9 must be 1", B200.with_constants, beside_mma_factor=0.9)


def test_an_unknown_constant_is_answered_with_those_that_exist():
    message = refused("machine 'B200' has no constant 'cores'", B200.with_constants, cores=1)
    assert all(spec.name in message for spec in CONSTANTS)


def test_a_changed_constant_says_so():
    machine = B200.with_constants(clock_hz=1e9, sms=np.int64(4))
    assert machine.origins["clock_hz"].source == "changed by hand"
    assert machine.origins["l2_bytes"] == B200.origins["l2_bytes"]
    assert (machine.sms, machine.seconds(10**9)) == (4, 1.0)
    assert machine.hbm_bytes_per_cycle == B200.hbm_bytes_per_second / 1e9


def test_origins_belong_to_constants():
    stray = {**B200.origins, "cores": B200.origins["sms"]}
    refused("there is an origin for 'cores'", dataclasses.replace, B200, origins=stray)
    refused("name='' must be", dataclasses.replace, B200, name="")


@pytest.mark.parametrize(
    "name, value",
    [("hbm_bytes_per_second", 1e-300), ("clock_hz", 1e300), ("mufu_cycles_per_warp", 1e300),
     ("tma_bytes_per_cycle", 1e-300), ("sms", 10**9), ("launch_seconds", 1e9),
     ("mbarrier_resume_cycles", 10**12)],
)  # fmt: skip
def test_constants_beyond_any_gpu_are_refused(name, value):
    refused((f"{name}=", "must be", "no GPU"), B200.with_constants, **{name: value})


def test_a_compute_capability_is_one_the_kernel_tells_apart():
    refused("compute_capability=80 must be one of 90, 100, 103", B200.with_constants,
            compute_capability=80)  # fmt: skip
    refused("wgmma_queue_steps=0 must be positive with compute_capability=90",
            B200.with_constants, compute_capability=90)  # fmt: skip


def test_something_else_than_a_problem_or_a_machine_is_refused():
    refused("machine=5 must be", machine_named, name=5)
    for problem, machine in ((None, B200), (PROBLEM, None)):
        for call in (Design.for_problem, Design().check):
            with pytest.raises(ValueError, match=r"=None must be a fa4sim\."):
                call(problem, machine)


@pytest.mark.parametrize("machine", ["b200", None, 3, object()])
def test_a_design_for_something_else_than_a_machine_is_refused(machine):
    refused((f"machine={machine!r}", "fa4sim.B200"), design_for, PROBLEM, machine)
