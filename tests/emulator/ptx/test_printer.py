"""Instructions written back, and texts with one instruction changed."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fa4kernel.emulator.ptx.module import Instruction, PtxError
from fa4kernel.emulator.ptx.parser import parse
from fa4kernel.emulator.ptx.printer import instruction_text, replace_instruction
from tests.emulator.ptx.snippets import entry_text

TEXT = entry_text(
    """    mov.b64 %rd1, {%r1, 0x4000}; /* ; */ L: @!%p1 bra.uni L;   // again; or not
    {
        .reg .pred P1, P2;
        elect.sync _|P1, -1;
        and.pred P2, P1, !P1;
    @P2 cp.async.bulk.tensor.2d.shared::cta.global [%r1 + 16],
            [%rd1, {%r2, -4}],   // the box
            [%r3+-8];
    }
    add.f32 %r1, %r2, 0f3F800000; mov.f64 %rd2, 1.5; mov.b32 %r5, %tid.x; ret;
"""
)
COUNT = len(parse(TEXT).entry().instructions)


def instructions(text: str) -> list[Instruction]:
    return list(parse(text).entry().instructions)


@given(st.integers(0, COUNT - 1))
def test_deleting_one_instruction_leaves_the_others_where_they_are(index: int) -> None:
    before = instructions(TEXT)
    after = instructions(replace_instruction(TEXT, before[index], None))
    assert [(i.text, i.line) for i in after] == [
        (i.text, i.line) for n, i in enumerate(before) if n != index
    ]


@given(st.integers(0, COUNT - 1))
def test_an_instruction_written_back_means_the_same(index: int) -> None:
    before = instructions(TEXT)
    text = replace_instruction(TEXT, before[index], instruction_text(before[index]))
    assert text.count("\n") == TEXT.count("\n")
    for old, new in zip(before, instructions(text), strict=True):
        assert replace(old, text="", column=0) == replace(new, text="", column=0)


def test_labels_and_comments_stay_when_a_branch_goes() -> None:
    text = replace_instruction(TEXT, instructions(TEXT)[1], "bar.sync 0;")
    assert "/* ; */ L: bar.sync 0;   // again; or not" in text
    assert parse(text).entry().labels == {"L": 1}


def test_calls_are_written_with_their_parentheses() -> None:
    text = ".func f(.param .b32 x) { ret; } .entry e() { .param .b32 p; call.uni f, (p); ret; }"
    (call, _) = instructions(text)
    assert instruction_text(call) == "call.uni f, (p);"


def test_an_instruction_of_another_text_is_refused() -> None:
    first, second, *_ = instructions(TEXT)
    changed = replace_instruction(TEXT, first, "ret;")
    for stale in (first, second):
        with pytest.raises(PtxError, match="does not have this"):
            replace_instruction(changed, stale, None)


def test_a_replacement_may_not_move_what_follows() -> None:
    first, _, _, _, copy, *_ = instructions(TEXT)
    with pytest.raises(PtxError, match="more lines"):
        replace_instruction(TEXT, first, "ret;\nret;")
    text = replace_instruction(TEXT, copy, "exit;\nexit;")
    assert instructions(text)[-1].line == instructions(TEXT)[-1].line
