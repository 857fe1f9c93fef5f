"""PTX text to Module: the statements outside functions, and which function has which statements."""

from __future__ import annotations

import re
from collections.abc import Sequence

from fa4kernel.emulator.ptx.body import Body
from fa4kernel.emulator.ptx.declarations import read_declaration, read_head, variables_of
from fa4kernel.emulator.ptx.lexer import Statement, statements
from fa4kernel.emulator.ptx.locations import Locations
from fa4kernel.emulator.ptx.module import Function, Module, PtxError, Variable
from fa4kernel.emulator.ptx.operands import Scope

_FILE = re.compile(r'\.file\s+(\d+)\s+"([^"]*)"')


def parse(text: str) -> Module:
    """Read a PTX module.

    Debug sections, pragmas, aliases and call prototypes are skipped. Raises PtxError, quoting line
    and statement, for what cannot be read and for names that nothing declares.

    >>> module = parse('''
    ... .version 8.8 .target sm_100a .address_size 64
    ... .visible .entry scale(.param .u64 p) {
    ...     .reg .f32 %f<2>;
    ...     mul.rn.f32 %f1, %f0, 0f40000000;
    ...     ret;
    ... }
    ... ''')
    >>> [(i.opcode, i.qualifiers, i.line) for i in module.entry().instructions]
    [('mul', ('rn', 'f32'), 5), ('ret', (), 6)]
    """
    found = list(statements(text))
    files: dict[int, str] = {}
    for statement in found:
        if statement.kind == "file" and (match := _FILE.match(statement.text)):
            files[int(match[1])] = match[2]
    words = {"version": "", "target": "", "address_size": "64"}
    variables: list[Variable] = []
    functions: list[Function] = []
    scope = Scope(None)
    position = 0
    while position < len(found):
        statement = found[position]
        position += 1
        try:
            if statement.kind in words:
                words[statement.kind] = statement.text.split(None, 1)[1]
                if words["address_size"] != "64":
                    raise PtxError("addresses have 64 bits here")
            elif statement.kind == "function":
                head = read_head(statement.text)
                if scope.find(head.name) is None:
                    scope.declare(head.name, "symbol")
                if head.defined:
                    end = _end_of_body(found, position)
                    body = Body(head, scope, Locations(files))
                    functions.append(body.read(found[position + 1 : end]))
                    position = end + 1
            elif statement.kind == "directive":
                if not statement.text.startswith(".alias"):
                    for variable in variables_of(read_declaration(statement.text)):
                        scope.declare(variable.name, "symbol")
                        variables.append(variable)
            elif statement.kind not in ("file", "section", "pragma", "location"):
                raise PtxError("this stands outside a function")
        except PtxError as error:
            if error.line:
                raise
            quoted = " ".join(statement.text.split())
            raise PtxError(error.message, statement.line, quoted) from None
    return Module(
        version=words["version"],
        target=words["target"],
        address_size=int(words["address_size"]),
        functions=tuple(functions),
        variables=tuple(variables),
        files=files,
    )


def _end_of_body(found: Sequence[Statement], start: int) -> int:
    """The index of the brace that closes the body whose opening brace is at `start`."""
    depth = 0
    for position in range(start, len(found)):
        if found[position].kind == "open":
            depth += 1
        elif found[position].kind == "close":
            depth -= 1
            if depth == 0:
                return position
    raise PtxError("the function's body does not end")
