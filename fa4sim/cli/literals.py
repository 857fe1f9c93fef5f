"""Reading ``name=value``: literals are read, never evaluated.

A value is a Python literal (``3``, ``0.5``, ``True``, ``None``, ``(256, 0)``) or a plain word
(``lpt``), which is a string. A sweep's value may list several: ``2:6`` (both ends included),
``2:10:2`` (with a step) or ``a,b,c``.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterable, Sequence

from fa4sim.cli.errors import BadInput

_WORD = re.compile(r"[A-Za-z_][\w.-]*")
_RANGE = re.compile(r"\s*([+-]?\d+)\s*:\s*([+-]?\d+)\s*(?::\s*([+-]?\d+)\s*)?")
_LONGEST = 1000


def assignment(text: str) -> tuple[str, str]:
    """``"name=value"`` in two. Raises a usage failure that quotes anything else.

    >>> assignment("kv_stages = 3")
    ('kv_stages', '3')
    """
    name, equals, value = (part.strip() for part in text.partition("="))
    if not equals or not name or not value:
        raise BadInput(f"{text!r} is not name=value, as in kv_stages=3")
    return name, value


def assignments(texts: Iterable[str]) -> dict[str, str]:
    """Several of them by name. Raises a usage failure for a name that is given twice."""
    found: dict[str, str] = {}
    for text in texts:
        name, value = assignment(text)
        if name in found:
            raise BadInput(f"{name} is set twice: to {found[name]!r} and to {value!r}")
        found[name] = value
    return found


def literal(name: str, text: str) -> object:
    """The value ``text`` spells out, for the field ``name``. Nothing in it is evaluated.

    >>> literal("window", "(256, 0)"), literal("scheduler", "lpt")
    ((256, 0), 'lpt')

    Raises a usage failure that quotes what is neither a literal nor a plain word.
    """
    if _WORD.fullmatch(text) and text not in ("True", "False", "None"):
        return text
    if len(text) <= _LONGEST:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", SyntaxWarning)
                value: object = ast.literal_eval(text)
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            pass
        else:
            return value
    shown = text if len(text) <= 80 else text[:77] + "..."
    raise BadInput(
        f"{name}={shown!r} is neither a literal (3, 0.5, True, None, (256, 0)) nor a plain word; "
        "values are read, never evaluated"
    )


def several(name: str, text: str) -> Sequence[object]:
    """The values ``text`` lists: a range, a comma-separated list, or one literal.

    >>> list(several("kv_stages", "2:6")), list(several("exp2_period", "0:32:16"))
    ([2, 3, 4, 5, 6], [0, 16, 32])
    >>> several("scheduler", "lpt,dynamic"), several("window", "(256,0),(512,0)")
    (['lpt', 'dynamic'], [(256, 0), (512, 0)])

    Raises a usage failure for an empty or backward range.
    """
    if match := _RANGE.fullmatch(text):
        try:
            low, high, step = (int(part) if part else 1 for part in match.groups())
        except ValueError as error:  # longer than int() accepts
            raise BadInput(f"{name}: {error}") from None
        if step < 1 or low > high:
            raise BadInput(
                f"{name}={text!r} must be low:high or low:high:step with low at most high and "
                "step at least 1; both ends are included"
            )
        return range(low, high + 1, step)
    if ":" in text and not any(mark in text for mark in "'\"{"):
        raise BadInput(
            f"{name}={text!r} is not a range of whole numbers (low:high or low:high:step); "
            "list other values: a,b,c"
        )
    return [literal(name, part) for part in _split(name, text)]


def _split(name: str, text: str) -> list[str]:
    """``text`` at its outermost commas."""
    parts, depth, start, quote = [], 0, 0, ""
    for i, mark in enumerate(text):
        if quote:
            quote = "" if mark == quote else quote
        elif mark in "'\"":
            quote = mark
        elif mark in "([{":
            depth += 1
        elif mark in ")]}":
            depth -= 1
        elif mark == "," and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    parts.append(text[start:].strip())
    if "" in parts:
        raise BadInput(f"{name}={text!r} has an empty entry in its list")
    return parts
