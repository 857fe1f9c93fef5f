"""Tables of what the emulator executes and checks, made from its code, for docs/emulator.md.

``fa4kernel tables --write`` (or ``python -m fa4kernel.emulator.tables``) renews them; a test says
when they are out of date.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from types import ModuleType

import fa4kernel.emulator
from fa4kernel.emulator.checks.hazard import KINDS
from fa4kernel.emulator.isa import (
    approximations,
    collectives,
    compare,
    convert,
    extremes,
    fields,
    floats,
    halves,
    integers,
    logic,
    moves,
)
from fa4kernel.emulator.machine.program import DECODERS, Decoder

#: Where the page lies in a copy of the repository.
PAGE = "docs/emulator.md"
BEGIN = "<!-- Written by `fa4kernel tables --write`: {name}. Do not edit. -->"
END = "<!-- End of {name}. -->"

SCALAR: tuple[ModuleType, ...] = (
    moves, integers, floats, halves, extremes, approximations, logic, fields, compare, convert,
    collectives,
)  # fmt: skip


def instructions() -> str:
    """The table of instructions.

    >>> "| `mapa`" in instructions()
    True
    """
    rows = []
    for module in SCALAR:
        rows.append([_code(module.BUILDERS), first_sentence(module.__doc__), ""])
    by_decoder: dict[Decoder, list[str]] = defaultdict(list)
    for opcode, decoder in DECODERS.items():
        by_decoder[decoder].append(opcode)
    for decoder, opcodes in sorted(by_decoder.items(), key=lambda item: sorted(item[1])):
        about = first_sentence(inspect.getdoc(decoder))
        rows.append([_code(opcodes), about, _code(sorted(members(decoder)))])
    rows.append([_code(["bra", "ret", "exit"]), "Control flow, with divergence of lanes.", ""])
    return table(["opcodes", "what", "of these"], rows)


def members(decoder: Decoder) -> set[str]:
    """The first qualifiers that a decoder tells apart, where it looks them up in a table."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(decoder)))
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict) and all(isinstance(v, ast.Name) for v in node.values):
            keys = [key.value for key in node.keys if isinstance(key, ast.Constant)]
            found |= {key for key in keys if isinstance(key, str)}
    return found


def checks() -> str:
    """The table of what the checks report about the order of events."""
    rows = [[f"`{kind}`", severity, about] for kind, (severity, about) in KINDS.items()]
    return table(["name", "severity", "meaning"], rows)


def faults() -> str:
    """The table of what ends a run at once, with the message as the code has it."""
    found: dict[str, list[str]] = defaultdict(list)
    for kind, message in sorted(set(_faults())):
        found[kind].append(message)
    rows = [[f"`{kind}`", "; ".join(messages[:3])] for kind, messages in sorted(found.items())]
    return table(["name", "for example"], rows)


def _faults() -> Iterator[tuple[str, str]]:
    for path in sorted(Path(fa4kernel.emulator.__file__).parent.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or len(node.args) < 3:
                continue
            name, kind = getattr(node.func, "id", ""), node.args[2]
            if name == "EmulationError" and isinstance(kind, ast.Constant):
                message = _message(node.args[0])
                if message:
                    yield str(kind.value), message


def _message(node: ast.expr) -> str:
    """The beginning of a message, with dots for what the run puts in."""
    if isinstance(node, ast.Constant):
        text = str(node.value)
    elif isinstance(node, ast.JoinedStr):
        text = "".join(str(v.value) if isinstance(v, ast.Constant) else "…" for v in node.values)
    else:
        return ""
    return re.split(r"[:;]\s", " ".join(text.split()))[0].replace("|", "\\|")


def errors() -> str:
    """The table of errors of special functions, as their module tells them."""
    lines = (approximations.__doc__ or "").splitlines()
    rules = [i for i, line in enumerate(lines) if line.startswith("=====")]
    head, body = lines[rules[0] + 1], lines[rules[1] + 1 : rules[2]]
    starts = [match.start() for match in re.finditer(r"=+", lines[rules[0]])]
    cut = [*starts, None]

    def cells(line: str) -> list[str]:
        return [line[a:b].strip() for a, b in pairwise(cut)]

    rows = [[f"`{first}`", *rest] for first, *rest in map(cells, body)]
    return table(cells(head), rows)


TABLES = {
    "instructions": instructions,
    "checks": checks,
    "faults": faults,
    "errors of special functions": errors,
}


def page(name: str = "") -> str:
    """All tables, or one, as they stand in the page between their marks."""
    parts = []
    for each, make in TABLES.items():
        if name in ("", each):
            parts.append(f"{BEGIN.format(name=each)}\n\n{make()}\n\n{END.format(name=each)}")
    return "\n\n".join(parts)


def renewed(text: str) -> str:
    """The page with its tables made anew.

    Raises:
        ValueError: a mark is missing.
    """
    for name in TABLES:
        begin, end = BEGIN.format(name=name), END.format(name=name)
        if begin not in text or end not in text:
            raise ValueError(f"{PAGE} lacks the marks of the table of {name}: {begin} and {end}")
        head, _, rest = text.partition(begin)
        _, _, tail = rest.partition(end)
        text = head + page(name) + tail
    return text


def page_path(root: Path | None = None) -> Path:
    """The page in the repository at ``root``, by default the one this code lies in.

    Raises:
        ValueError: there is no such repository; an installed package has no docs.
    """
    base = Path(fa4kernel.emulator.__file__).resolve().parents[2] if root is None else root
    path = base / PAGE
    if not path.is_file():
        raise ValueError(f"{path} does not exist: run this in a clone, or print the tables only")
    return path


def pages_differ(root: Path | None = None) -> bool:
    """Whether the tables of the page are out of date."""
    text = page_path(root).read_text(encoding="utf-8")
    return renewed(text) != text


def write_page(root: Path | None = None) -> Path:
    """Renew the tables of the page; returns its path."""
    path = page_path(root)
    text = renewed(path.read_text(encoding="utf-8"))
    partial = path.with_name(f".{path.name}.partial")
    try:
        partial.write_text(text, encoding="utf-8")
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    return path


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown; a column without an entry is left out.

    >>> print(table(["a", "b"], [["1", ""]]))
    | a |
    |---|
    | 1 |
    """
    lines = [list(head), *(list(row) for row in rows)]
    used = [i for i in range(len(head)) if any(line[i] for line in lines[1:])]
    text = ["| " + " | ".join(line[i] for i in used) + " |" for line in lines]
    return "\n".join([text[0], "|" + "---|" * len(used), *text[1:]])


def _code(words: Iterable[str]) -> str:
    return ", ".join(f"`{word}`" for word in sorted(words))


def first_sentence(text: str | None) -> str:
    """The first sentence of a docstring, double backquotes made single.

    >>> first_sentence("``mapa``: an address. More.")
    '`mapa`: an address.'
    """
    paragraph = " ".join((text or "").strip().split("\n\n")[0].split())
    return re.split(r"(?<=\.)\s", paragraph)[0].replace("``", "`").replace("|", "\\|")


if __name__ == "__main__":
    print(f"wrote {write_page()}")
