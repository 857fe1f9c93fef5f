"""The body of a function: its blocks, labels, declarations and instructions."""

from __future__ import annotations

import re
from collections.abc import Sequence

from fa4kernel.emulator.ptx.declarations import Head, read_declaration, variables_of
from fa4kernel.emulator.ptx.lexer import Statement
from fa4kernel.emulator.ptx.locations import Locations
from fa4kernel.emulator.ptx.module import (
    Function,
    Guard,
    Instruction,
    Label,
    PtxError,
    Variable,
)
from fa4kernel.emulator.ptx.operands import Scope

_INSTRUCTION = re.compile(
    r"(?:@\s*(!?)\s*([\w$%]+)\s+)?([A-Za-z_]\w*)((?:\s*\.\w+(?:::\w+)*)*)\s*(.*?)\s*;", re.DOTALL
)
_TARGETS = re.compile(r"\.branchtargets\s+([^;]*);")
_UNUSED_DIRECTIVES = (".calltargets", ".callprototype")


class Body:
    """Reads the statements of one body, given without the braces around them."""

    def __init__(self, head: Head, module: Scope, locations: Locations) -> None:
        self.head = head
        self.locations = locations
        self.instructions: list[Instruction] = []
        self.labels: dict[str, int] = {}
        self.targets: dict[str, tuple[str, ...]] = {}
        self.variables = [
            Variable(result.name, "param", result.align, result.size, result.type)
            for result in head.results
        ]
        self.scope = self.body_scope = Scope(module)
        for parameter in (*head.parameters, *head.results):
            self.scope.declare(parameter.name, "symbol")
        self._last_label = ""
        self._opcodes: dict[tuple[str, str], tuple[str, tuple[str, ...]]] = {}

    def read(self, statements: Sequence[Statement]) -> Function:
        """The function whose body these statements are."""
        labels = _labels_of_blocks(statements)
        blocks = 0
        _declare_labels(self.scope, labels[0])
        for statement in statements:
            try:
                if statement.kind == "instruction":
                    self._instruction(statement)
                elif statement.kind == "location":
                    # Inside inline assembly the numbers count its own lines.
                    if not statement.inline:
                        self.locations.move(statement.text)
                elif statement.kind == "label":
                    self._label(statement.text)
                elif statement.kind == "open":
                    blocks += 1
                    self.scope = Scope(self.scope, blocks)
                    _declare_labels(self.scope, labels[blocks])
                elif statement.kind == "close":
                    self.scope = self.scope.outer or self.scope
                elif statement.kind == "directive":
                    self._directive(statement.text)
                elif statement.kind not in ("pragma", "file", "section"):
                    raise PtxError(f"a .{statement.kind} inside a function")
            except PtxError as error:
                if error.line:
                    raise
                text = " ".join(statement.text.split())
                raise PtxError(error.message, statement.line, text) from None
        return Function(
            name=self.head.name,
            is_entry=self.head.is_entry,
            parameters=self.head.parameters,
            registers=self.body_scope.used,
            instructions=tuple(self.instructions),
            labels=self.labels,
            variables=tuple(self.variables),
            directives=self.head.directives,
            targets=self.targets,
        )

    def _instruction(self, statement: Statement) -> None:
        match = _INSTRUCTION.fullmatch(statement.text)
        if match is None:
            raise PtxError("no instruction")
        negated, predicate, name, dotted, operands = match.groups()
        key = (name, dotted)
        known = self._opcodes.get(key)
        if known is None:
            qualifiers = tuple(part.strip() for part in dotted.split(".")[1:])
            known = self._opcodes[key] = name, qualifiers
        guard = Guard(self.scope.predicate(predicate), negated == "!") if predicate else None
        self.instructions.append(
            Instruction(
                known[0],
                known[1],
                self.scope.operands(operands) if operands else (),
                guard,
                statement.line,
                " ".join(statement.text.split()),
                self.locations.current,
                statement.inline,
                statement.column,
            )
        )

    def _label(self, text: str) -> None:
        self._last_label = self.scope.unique(text[:-1].strip())
        self.labels[self._last_label] = len(self.instructions)

    def _directive(self, text: str) -> None:
        if match := _TARGETS.fullmatch(text):
            labels = [self.scope.find(name.strip()) for name in match[1].split(",")]
            if not all(isinstance(label, Label) for label in labels):
                raise PtxError("a target that is no label")
            self.targets[self._last_label] = tuple(label.name for label in labels if label)
        elif not text.startswith(_UNUSED_DIRECTIVES):
            self._declaration(text)

    def _declaration(self, text: str) -> None:
        declaration = read_declaration(text)
        if declaration.space != "reg":
            for variable in variables_of(declaration):
                self.scope.declare(variable.name, "symbol")
                own = self.scope.unique(variable.name)
                self.variables.append(
                    Variable(
                        own,
                        variable.space,
                        variable.align,
                        variable.size,
                        variable.type,
                        variable.initial,
                    )
                )
            return
        if declaration.lanes > 1:
            raise PtxError("vector registers are not known here")
        for name in declaration.names:
            if name.family is None:
                self.scope.declare(name.name, "register", declaration.type)
            else:
                self.scope.declare_family(name.name, name.family, declaration.type)


def _labels_of_blocks(statements: Sequence[Statement]) -> list[list[Statement]]:
    """The labels of each block, in the order the blocks open; the first is the body itself."""
    labels: list[list[Statement]] = [[]]
    around = [labels[0]]
    for statement in statements:
        if statement.kind == "label":
            around[-1].append(statement)
        elif statement.kind == "open":
            labels.append([])
            around.append(labels[-1])
        elif statement.kind == "close":
            around.pop()
    return labels


def _declare_labels(scope: Scope, labels: Sequence[Statement]) -> None:
    for label in labels:
        try:
            scope.declare(label.text[:-1].strip(), "label")
        except PtxError as error:
            raise PtxError(error.message, label.line, label.text) from None
