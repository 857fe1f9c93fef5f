"""Groups of like instructions bound to a range of lanes: one call on a matrix of rows each.

What does not depend on the lanes is worked out once for a group, in :func:`calls_of`: which rows
an operand is in and whether a slice finds them. Binding then only takes views.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from fa4kernel.emulator.machine.binding import Step, bind
from fa4kernel.emulator.machine.fusion import Group, Source
from fa4kernel.emulator.machine.registers import DTYPES, Array, Registers

#: Values that one call of more than one NumPy call handles at most: of more, what is passed on from
#: one to the next no longer fits the first-level cache.
MOST_VALUES = 1 << 13
#: Lanes up to which rows are worth gathering for one NumPy call.
FEW_LANES = 512


def bind_group(
    group: Group, registers: Registers, lo: int, hi: int, mask: Array | None
) -> list[Step]:
    """The calls that execute a group for lanes ``lo`` to ``hi``; see :func:`binding.bind`."""
    if group.alone is not None:
        return bind(group.alone, group.semantics, registers, lo, hi, mask)
    most = max(1, MOST_VALUES // (hi - lo)) if group.heavy else len(group.targets)
    key = min(most, len(group.targets)), hi - lo <= FEW_LANES
    calls = group.calls.get(key)
    if calls is None:
        calls = group.calls[key] = calls_of(group, *key)
    return [call.bind(registers, lo, hi, mask) for call in calls]


def calls_of(group: Group, most: int, gather: bool = True) -> list[Call]:
    """The calls of a group, each for up to ``most`` of its instructions.

    Without ``gather``, cheap ones whose rows would have to be gathered are executed one by one.
    """
    calls = []
    for first in range(0, len(group.targets), most):
        call = Call(group, slice(first, first + most))
        if not gather and not group.heavy and call.gathers:
            last = min(first + most, len(group.targets))
            calls += [Call(group, slice(i, i + 1)) for i in range(first, last)]
        else:
            calls.append(call)
    return calls


class Operand:
    """A source of all instructions of a call.

    Attributes:
        kind: its PTX type.
        value: the constants, an array (instructions, 1) or a scalar; None if it is in rows.
        rows: a row, a slice of rows, or an index array of rows that no slice finds.
    """

    __slots__ = ("kind", "rows", "value")

    def __init__(self, column: Sequence[Source], kind: str) -> None:
        self.kind = kind
        self.value: Any = None
        self.rows: Any = None
        numbers = [number for _, number in column]
        same = numbers.count(numbers[0]) == len(numbers)
        if column[0][0] == "constant":
            words = np.array(numbers, np.uint32).view(DTYPES[kind])
            self.value = words[0] if same else words[:, None]
        else:
            self.rows = span(numbers[:1] if same else numbers)

    def bound(self, registers: Registers, lo: int, hi: int) -> Any:
        """An array, or a call that makes it."""
        if self.rows is None:
            return self.value
        file = registers.file(self.kind)
        if isinstance(self.rows, np.ndarray):
            return partial(_picked, file, self.rows, slice(lo, hi))
        return file[self.rows, lo:hi]


def _picked(file: Array, rows: Array, lanes: slice) -> Array:
    return file[rows, lanes]


class Call:
    """One NumPy call, or one of a function made of some, for like instructions of a group."""

    __slots__ = ("_function", "_inputs", "_kind", "_rows", "_ufunc")

    def __init__(self, group: Group, part: slice) -> None:
        semantics = group.semantics
        columns = list(zip(*group.sources[part], strict=True))
        self._function = semantics.function
        self._ufunc = semantics.ufunc
        self._kind = semantics.outputs[0]
        self._rows = span(group.targets[part])
        kinds = semantics.inputs[: len(columns)]
        self._inputs = [Operand(c, k) for c, k in zip(columns, kinds, strict=True)]

    @property
    def gathers(self) -> bool:
        """Whether some of its rows are found by no slice."""
        return any(
            isinstance(rows, np.ndarray) for rows in (self._rows, *(i.rows for i in self._inputs))
        )

    def bind(self, registers: Registers, lo: int, hi: int, mask: Array | None) -> Step:
        """The call for a range of lanes, of which ``mask`` names those that take part."""
        inputs = [i.bound(registers, lo, hi) for i in self._inputs]
        file = registers.file(self._kind)
        if isinstance(self._rows, np.ndarray):
            return partial(_strewn, self._function, inputs, file, self._rows, slice(lo, hi), mask)
        out = file[self._rows, lo:hi]
        if not self._ufunc:
            return partial(_written, self._function, inputs, out, mask)
        more = {"out": out} if mask is None else {"out": out, "where": mask}
        if any(isinstance(i, partial) for i in inputs):
            return partial(_gathered, self._function, inputs, more)
        return partial(self._function, *inputs, **more)


def _values(inputs: Sequence[Any]) -> list[Any]:
    return [i() if isinstance(i, partial) else i for i in inputs]


def _gathered(function: Callable[..., Array], inputs: Sequence[Any], more: Any) -> None:
    function(*_values(inputs), **more)


def _written(
    function: Callable[..., Array], inputs: Sequence[Any], out: Array, mask: Array | None
) -> None:
    np.copyto(out, function(*_values(inputs)), where=True if mask is None else mask)


def _strewn(
    function: Callable[..., Array],
    inputs: Sequence[Any],
    file: Array,
    rows: Array,
    lanes: slice,
    mask: Array | None,
) -> None:
    values = np.asarray(function(*_values(inputs))).astype(file.dtype, copy=False)
    if mask is not None:
        old = file[rows, lanes]
        np.copyto(old, values, where=mask)
        values = old
    file[rows, lanes] = values


def span(rows: Sequence[int]) -> Any:
    """A row as it is; rows that are evenly spaced and rising as a slice; others as an array."""
    if len(rows) == 1:
        return rows[0]
    step = rows[1] - rows[0]
    if step <= 0 or any(b - a != step for a, b in pairwise(rows)):
        return np.array(rows)
    return slice(rows[0], rows[-1] + 1, step)
