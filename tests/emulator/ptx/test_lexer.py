"""Where statements begin and end, and on which line they are said to stand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fa4kernel.emulator.ptx.lexer import blank_comments, statements
from fa4kernel.emulator.ptx.module import PtxError


def cut(text: str) -> list[tuple[str, str]]:
    return [(statement.kind, statement.text) for statement in statements(text)]


def test_several_statements_share_a_line_and_one_takes_several() -> None:
    found = list(statements("  ret; L: bar.sync 0;\nmov.b32\n  %r1,\n  1;\nexit;"))
    assert [(s.text.split()[0], s.line, s.column) for s in found] == [
        ("ret;", 1, 3),
        ("L:", 1, 8),
        ("bar.sync", 1, 11),
        ("mov.b32", 2, 1),
        ("exit;", 5, 1),
    ]


def test_a_double_colon_makes_no_label() -> None:
    text = "fence.proxy.async.shared::cta; a: mapa.shared::cluster.u32 x, y, z;"
    assert [kind for kind, _ in cut(text)] == ["instruction", "label", "instruction"]


def test_a_vector_opens_no_block() -> None:
    assert [kind for kind, _ in cut("{ mov.b64 %rd1, {%r1, %r2}; }")] == [
        "open",
        "instruction",
        "close",
    ]


def test_comments_say_nothing_even_with_semicolons_and_braces_in_them() -> None:
    assert cut("ret /* ; { */ ; // exit; }\n/* exit;\n*/ bar.sync 0;") == [
        ("instruction", "ret           ;"),
        ("instruction", "bar.sync 0;"),
    ]


def test_a_string_may_hold_what_looks_like_a_comment() -> None:
    assert cut('.file 1 "http://a/*b"') == [("file", '.file 1 "http://a/*b"')]
    assert cut('.pragma "a; // b"; ret;')[1] == ("instruction", "ret;")


def test_directives_without_a_semicolon_end_by_themselves() -> None:
    kinds = [
        kind
        for kind, _ in cut(".version 8.8 .target sm_90, debug .address_size 64 .loc 1 2 3 ret;")
    ]
    assert kinds == ["version", "target", "address_size", "location", "instruction"]


def test_a_debug_section_is_one_statement() -> None:
    assert [kind for kind, _ in cut(".section .debug_str { $L:\n.b8 105, 0\n.b64 a\n} ret;")] == [
        "section",
        "instruction",
    ]


def test_inline_assembly_is_what_stands_between_its_marks() -> None:
    text = "ret;\n// begin inline asm\nexit;\n// end inline asm\nret; // begin inline asm\nexit;"
    assert [(s.text, s.inline) for s in statements(text)] == [
        ("ret;", False),
        ("exit;", True),
        ("ret;", False),
        ("exit;", True),
    ]


@pytest.mark.parametrize("text", ["ret;\n\n  bar.sync 0", "ret;\n\n  = 3;", 'ret;\n\n  "a" ;'])
def test_what_is_no_statement_is_reported_with_its_line(text: str) -> None:
    with pytest.raises(PtxError) as caught:
        list(statements(text))
    assert caught.value.line == 3
    assert caught.value.text and caught.value.text in text


@given(st.text(alphabet='/*"\n a;', max_size=30))
def test_blanking_comments_moves_nothing(text: str) -> None:
    clean = blank_comments(text)
    assert len(clean) == len(text)
    assert all(
        new in (old, " ") and (old != "\n" or new == "\n")
        for old, new in zip(text, clean, strict=True)
    )


@given(
    st.lists(
        st.sampled_from(["ret;", "L0:", "{", "}", ".loc 1 2 3", "bar.sync 0, {1, 2};"]), max_size=20
    ),
    st.data(),
)
def test_layout_does_not_matter(words: list[str], data: st.DataObject) -> None:
    gap = st.sampled_from([" ", "\n", "\n\t// ;{\n", " /* }\n */ "])
    text = "".join(data.draw(gap) + word for word in words) + "\n"
    found = list(statements(text))
    assert [statement.text for statement in found] == words
    for statement in found:
        line = text.splitlines()[statement.line - 1]
        assert line[statement.column - 1 :].startswith(statement.text)
