"""Kinds of arguments: what the public functions of ``fa4sim.numerics`` say of a wrong one.

The modules of this package trust each other and check what only they can: shapes that must fit,
numbers that must be in a range. That a number is one, and no word or list, is checked at the door:
:func:`checked` reads it off the annotations of a function's parameters.
"""

from __future__ import annotations

import functools
import inspect
import math
import re
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from fa4sim.numerics.scales import is_number, is_whole
from fa4sim.quoting import quoted

Function = TypeVar("Function", bound=Callable[..., Any])
Test = Callable[[Any], bool]

#: What goes wrong inside where sizes or kinds don't fit, beside our own words about it.
_INSIDE = (TypeError, AttributeError, LookupError, ArithmeticError, MemoryError)
#: Words of Python's and NumPy's where shapes or sizes don't fit, which name no argument.
_FOREIGN = re.compile(
    r"broadcast|truth value of an|matmul: |axis \d|cannot reshape|Maximum allowed|array is too big|"
    r"dimensions are not|values to unpack|0d array|is an empty|expected non-negative|inhomogeneous"
)


def in_numpy(name: str, given: Any, wanted: str) -> NDArray[Any]:
    """A list, or an array of NumPy's or PyTorch's, in NumPy; PyTorch is not imported for it.

    Args:
        name: how the caller calls it.
        given: of any type.
        wanted: what it must hold, for the message.

    Raises:
        ValueError: NumPy has no such type, or a list has rows of different lengths.

    >>> in_numpy("sink", [[1.0], [1.0, 2.0]], "real numbers")
    Traceback (most recent call last):
        ...
    ValueError: sink has rows of different lengths; it must hold real numbers
    """
    if type(given).__module__.split(".")[0] == "torch":
        given = given.detach().cpu()
        try:
            return np.asarray(given.numpy())
        except (TypeError, RuntimeError):
            kind = str(given.dtype).rpartition(".")[2]
            raise ValueError(
                f"{name} is {kind}, which NumPy does not have; it must hold {wanted}: convert it, "
                f"as by {name}.float() or {name}.int()"
            ) from None
    try:
        return np.asarray(given)
    except (TypeError, ValueError, RuntimeError):
        raise ValueError(f"{name} has rows of different lengths; it must hold {wanted}") from None


def _array_of(kinds: str) -> Test:
    """Whether it is an array or a number whose type is of one of NumPy's kinds."""

    def test(value: Any) -> bool:
        if not isinstance(value, np.ndarray | np.generic):
            if not isinstance(value, list | tuple | int | float):
                return False
            value = in_numpy("", value, "")
        return value.dtype.kind in kinds or (value.size == 0 and value.dtype.kind == "f")

    return test


def _several(test: Test) -> Test:
    """Whether it has entries, and all of them are of that kind."""

    def each(value: Any) -> bool:
        if isinstance(value, str | bytes | dict) or not isinstance(value, Iterable):
            return False
        return all(test(one) for one in value)

    return each


def _pair(test: Test) -> Test:
    return lambda value: _several(test)(value) and len(tuple(value)) == 2


def _not_nan(value: Any) -> bool:
    return is_number(value) and not math.isnan(value)


def _row(kind: str) -> Test:
    return lambda value: type(value).__name__ == kind


_REAL, _WHOLE = "an array of real numbers", "a whole number"
_SIDES = "a pair (left, right) of whole numbers or None"
#: By annotation: whether a value is of that kind, and what to give.
KINDS: dict[str, tuple[Test, str]] = {
    "int": (is_whole, _WHOLE),
    "float": (_not_nan, "a number"),
    "np.float32": (_not_nan, "a number"),
    "bool": (lambda value: isinstance(value, bool | np.bool_), "True or False"),
    "str": (lambda value: isinstance(value, str), "a name, as 'bf16'"),
    "range": (lambda value: isinstance(value, range), "a range of k-steps, as range(8)"),
    "Float32Array": (_array_of("fiu"), f"{_REAL} (float32)"),
    "FloatArray": (_array_of("fiu"), _REAL),
    "NDArray[Any]": (_array_of("fiub"), _REAL),
    "NDArray[Scalar]": (_array_of("fiub"), _REAL),
    "NDArray[np.uint8]": (_array_of("fiub"), "an array of uint8"),
    "NDArray[np.uint16]": (_array_of("fiub"), "an array of uint16"),
    "IntArray": (_array_of("iu"), "an array of whole numbers"),
    "PageTable": (_array_of("iu"), "an int32 array (batch, max_pages)"),
    "ArrayLike": (_array_of("iu"), "an array of whole numbers"),
    "BoolArray": (_array_of("b"), "an array of True and False"),
    "Sequence[int]": (_several(is_whole), "whole numbers, as [1, 2]"),
    "tuple[int, ...]": (_several(is_whole), "whole numbers, as (1, 2)"),
    "Sequence[float]": (_several(_not_nan), "numbers, as [0.5, 2]"),
    "Sequence[bool]": (_several(lambda one: isinstance(one, bool | np.bool_)), "[True, False]"),
    "Sequence[str]": (_several(lambda one: isinstance(one, str)), "names, as ['e4m3']"),
    "Iterable[str]": (_several(lambda one: isinstance(one, str)), "names, as ['normal']"),
    "Sequence[Choice]": (_several(_pair(_not_nan)), "pairs (offset, threshold)"),
    "Window": (_pair(lambda side: side is None or is_whole(side)), _SIDES),
    "tuple[int | None, int | None]": (_pair(lambda s: s is None or is_whole(s)), _SIDES),
    "Sizes": (_row("Sizes"), "what check_inputs returns"),
    "Sequence[QuantizationRow]": (_several(_row("QuantizationRow")), "measured rows"),
    "Sequence[RescaleRow]": (_several(_row("RescaleRow")), "measured rows"),
    "Sequence[SaturationRow]": (_several(_row("SaturationRow")), "measured rows"),
    "Any": (lambda value: np.isscalar(value) and not isinstance(value, str | complex), "a number"),
}


def checked(function: Function) -> Function:
    """The function, with every argument's kind checked before it is called.

    Raises:
        ValueError: an argument is of another kind than its annotation, or sizes don't fit; the
            message names it, quotes it and says what to give.

    >>> def half(x: float) -> float:
    ...     return x / 2
    >>> checked(half)("3")
    Traceback (most recent call last):
        ...
    ValueError: x='3' must be a number
    """
    signature = inspect.signature(function)
    tests = {
        parameter.name: _kind(str(parameter.annotation))
        for parameter in signature.parameters.values()
        if parameter.kind is not parameter.VAR_KEYWORD
    }

    @functools.wraps(function)
    def call(*positional: Any, **named: Any) -> Any:
        given = signature.bind(*positional, **named).arguments
        for name, (test, wanted) in tests.items():
            if name not in given:
                continue
            if isinstance(given[name], Iterable) and not hasattr(given[name], "__len__"):
                given[name] = tuple(given[name])  # it can be read once only
            check_kind(name, given[name], test, wanted)
        more = given.pop("options", {}) if "options" not in tests else {}
        try:
            return function(**given, **more)
        except (ValueError, *_INSIDE) as error:
            ours = isinstance(error, ValueError) and not _FOREIGN.search(str(error))
            if ours or "unexpected keyword argument" in str(error):  # of the options
                raise
            raise ValueError(f"{function.__name__} {_told(given | more)}: {error}") from error

    call.__module__ = "fa4sim.numerics"  # where it is found, which is what pickling needs
    return call  # type: ignore[return-value]


def check_kind(name: str, value: Any, test: Test, wanted: str) -> None:
    """Raise ``ValueError`` with the name, the value and what to give, if a test fails."""
    try:
        good = test(value)
    except (TypeError, ValueError):
        good = False
    if good:
        return
    if isinstance(value, np.ndarray | np.generic):
        what = f"{name} has shape {value.shape} and dtype {value.dtype}; it"
    else:
        what = f"{name}={quoted(value)}"
    raise ValueError(f"{what} must be {wanted}")


def _kind(annotation: str) -> tuple[Test, str]:
    """How to tell the kind that an annotation says, ``| None`` included."""
    if annotation in KINDS:
        return KINDS[annotation]
    first, *others = annotation.split(" | ")
    test, wanted = KINDS[first]
    if "None" not in others:  # as "float | np.float32"
        return test, wanted
    wanted += "" if wanted.endswith("or None") else ", or None"
    return lambda value: value is None or test(value), wanted


def _told(given: dict[str, Any]) -> str:
    """Names, shapes and values of what was given and is no good together."""
    told = []
    for name, value in given.items():
        if isinstance(value, np.ndarray):
            told.append(f"{name} of shape {value.shape}")
        elif value is not None:
            told.append(f"{name}={quoted(value)}")
    return f"cannot work with {', '.join(told)}"
