"""PTX text cut into statements: instructions, labels, braces and directives, each with its place.

Which character ends a statement depends on how it begins (PTX ISA 4.3): an instruction and most
directives run to a semicolon, a label to a colon, `.loc` and its like have neither, and the head
of a function ends where its body opens.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

from fa4kernel.emulator.ptx.module import PtxError

#: A string (which may hold what looks like a comment) or a comment (PTX ISA 4.2).
_COMMENT = re.compile(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|/\*.*?(?:\*/|\Z)', re.DOTALL)
#: The comments with which NVVM encloses the text of an inline assembly.
_INLINE = re.compile(r"// *(begin|end) inline asm")
_STATEMENT = re.compile(
    r"""\s*(?:
    (?P<instruction> (?: @\s*!?\s* )? [A-Za-z%_$] [^;:]* (?: :: [^;:]* )* ; )
  | (?P<location> \.loc\s+\d+\s+\d+\s+\d+ (?: \s*,\s* function_name\s+ [\w$]+ (?:\s*\+\s*\w+)?
        \s*,\s* inlined_at\s+\d+\s+\d+\s+\d+ )? ;? )
  | (?P<open> \{ )
  | (?P<close> \} )
  | (?P<label> [A-Za-z%_$][\w$]* \s* : (?!:) )
  | (?P<version> \.version\s+\d+\.\d+ )
  | (?P<target> \.target\s+\w+ (?:\s*,\s*\w+)* )
  | (?P<address_size> \.address_size\s+\d+ )
  | (?P<file> \.file\s+\d+\s+"[^"]*" (?:\s*,\s*\d+\s*,\s*\d+)? )
  | (?P<section> \.section\s+[^\s{]+\s*\{ [^}]* \} )
  | (?P<function> (?:\.(?:visible|extern|weak)\s+)* \.(?:entry|func)\b
        (?: \.pragma[^;{]*; | [^;{] )* (?= [;{] ) ;? )
  | (?P<pragma> \.pragma\b (?: "[^"]*" | [^;"] )* ; )
  | (?P<directive> \.[a-z_]\w* [^;]* ; )
  | (?P<end> \Z )
    )""",
    re.VERBOSE,
)


class Statement(NamedTuple):
    """One statement: its kind (a group of the pattern above), its text without comments.

    `start` is its offset in the module's text, `line` and `column` the same as people count it.
    """

    kind: str
    text: str
    start: int
    line: int
    column: int
    inline: bool


def blank_comments(text: str) -> str:
    """The text with every comment overwritten by spaces, so that all places stay.

    >>> blank_comments("ret; // done")
    'ret;        '
    """
    return _COMMENT.sub(_blank, text)


def _blank(match: re.Match[str]) -> str:
    found = match.group()
    if found[0] == '"':
        return found
    return " " * len(found) if "\n" not in found else re.sub(r"[^\n]", " ", found)


def statements(text: str) -> Iterator[Statement]:
    """All statements of a PTX text, in order.

    Raises PtxError where no statement can begin, or where one does not end.

    >>> [(s.kind, s.text, s.line) for s in statements("L1: add.u32 %r1, %r2, 1;  // one more")]
    [('label', 'L1:', 1), ('instruction', 'add.u32 %r1, %r2, 1;', 1)]
    """
    lines = [0, *(match.end() for match in re.finditer("\n", text))]
    marks = [(match.start(), match.group(1) == "begin") for match in _INLINE.finditer(text)]
    marks.append((len(text) + 1, False))
    mark, inline = iter(marks), False
    next_mark, next_inline = next(mark)
    clean = blank_comments(text)
    match_at = _STATEMENT.match
    position, line = 0, 1
    while True:
        match = match_at(clean, position)
        if match is None or match.lastgroup is None:
            start = position + len(clean[position:]) - len(clean[position:].lstrip())
            line = bisect_right(lines, start)
            wrong = clean[start : start + 80].splitlines()[0]
            raise PtxError("no statement of PTX, or one without its end", line, wrong)
        kind = match.lastgroup
        if kind == "end":
            return
        start, position = match.span(kind)
        while next_mark < start:
            inline = next_inline
            next_mark, next_inline = next(mark)
        while line < len(lines) and lines[line] <= start:
            line += 1
        column = start - lines[line - 1] + 1
        yield Statement(kind, match.group(kind), start, line, column, inline)
