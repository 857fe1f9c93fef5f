"""Values in messages."""

from __future__ import annotations

_LONGEST = 60


def quoted(value: object) -> str:
    """``value`` as Python would write it, its middle left out if that is long.

    >>> quoted("abc"), quoted("x" * 100)
    ("'abc'", "'xxxxxxxxxxxxxxxxxxxxxxxxxxx...xxxxxxxxxxxxxxxxxxxxxxxxxxx'")
    """
    try:
        text = repr(value)
    except ValueError:  # an integer of more digits than Python is willing to print
        text = f"({type(value).__name__} of too many digits to print)"
    if len(text) <= _LONGEST:
        return text
    half = (_LONGEST - 3) // 2
    return f"{text[:half]}...{text[-half:]}"
