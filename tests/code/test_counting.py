"""Counting what warps execute."""

import numpy as np
import pytest

from fa4kernel.code.counting import Work, execute
from fa4kernel.emulator.ptx import parse
from tests.code.kernels import PARTING, parting_launch
from tests.emulator.kernels import COPY, copy_launch, ring, ring_launch


def counts(text, launch):
    """How often each warp executes each instruction, by the instruction's words."""
    found = execute(text, launch).counts
    code = parse(text).entry().instructions
    assert found.shape[0] == len(code)
    return [(each.text, *row) for each, row in zip(code, found.tolist(), strict=True)]


def test_a_ring_of_two_roles_is_counted_turn_by_turn(tmp_path):
    text = ring(tmp_path)
    few, many = (execute(text, ring_launch(turns)).counts for turns in (5, 9))
    produce = [i.text for i in parse(text).entry().instructions].index("and.b32 %r7, %r6, 1;")
    step = (many - few) / 4
    # 13 instructions in the producer's loop, 11 in the consumer's, the branch at its end included.
    assert step.sum(axis=0).tolist() == [13, 11]
    assert set(np.flatnonzero(step[:, 0])) == set(range(produce, produce + 13))
    assert set(np.unique(step)) == {0, 1}


@pytest.mark.parametrize("ctas", [1, 3])
def test_what_other_ctas_execute_is_not_counted(tmp_path, ctas):
    text = ring(tmp_path)
    assert np.array_equal(
        execute(text, ring_launch(5, ctas)).counts, execute(text, ring_launch(5)).counts
    )


def test_a_warp_takes_as_many_turns_as_its_busiest_lane():
    found = {text: (first, second) for text, first, second in counts(PARTING, parting_launch())}
    assert found["add.s32 %r2, %r2, 1;"] == (32, 0)
    assert found["@%p2 bra AGAIN;"] == (32, 0)


def test_both_sides_of_a_parting_count_once():
    found = {text: first for text, first, _ in counts(PARTING, parting_launch())}
    assert found["shl.b32 %r4, %r1, 1;"] == found["xor.b32 %r4, %r1, 1;"] == 1
    assert found["setp.eq.b32 %p4, %r1, 0;"] == 1  # wherever the lanes meet again


def test_an_instruction_whose_guard_is_false_takes_its_slot():
    text = PARTING.replace("setp.eq.b32 %p4, %r1, 0;", "setp.eq.b32 %p4, %r1, 99;")
    found = {text: first for text, first, _ in counts(text, parting_launch())}
    assert found["@%p4 st.global.b32 [%rd1], %r4;"] == 1


def test_copies_are_added_up_with_their_bytes():
    launch, _, _ = copy_launch()
    assert execute(COPY, launch).work == Work(loads=1, loaded=256, stores=1, stored=256)


def test_work_is_subtracted_field_by_field():
    more = Work(mmas=5, flops=70, loads=4, loaded=300, stores=2, stored=90)
    less = Work(mmas=2, flops=30, loads=1, loaded=100, stores=1, stored=40)
    assert more.minus(less) == Work(mmas=3, flops=40, loads=3, loaded=200, stores=1, stored=50)
