"""Groups of like instructions bound to a range of lanes: one call on a matrix of rows each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from fa4kernel.emulator.machine.binding import Step, bind
from fa4kernel.emulator.machine.fusion import Group, Source
from fa4kernel.emulator.machine.registers import DTYPES, Array, Registers

#: Values that one call handles at most: more no longer fit the first-level cache.
MOST_VALUES = 1 << 13
#: Lanes up to which a group of cheap functions is worth gathering for one call.
FEW_LANES = 512


def bind_group(
    group: Group, registers: Registers, lo: int, hi: int, mask: Array | None
) -> list[Step]:
    """The calls that execute a group for lanes ``lo`` to ``hi``; see :func:`binding.bind`."""
    if group.alone is not None:
        return bind(group.alone, group.semantics, registers, lo, hi, mask)
    most = max(1, MOST_VALUES // (hi - lo))
    if not group.heavy and hi - lo > FEW_LANES:
        most = 1
    steps: list[Step] = []
    for first in range(0, len(group.targets), most):
        part = slice(first, first + most)
        steps.append(_call(group, part, registers, lo, hi, mask))
    return steps


def _call(
    group: Group, part: slice, registers: Registers, lo: int, hi: int, mask: Array | None
) -> Step:
    semantics = group.semantics
    columns = list(zip(*group.sources[part], strict=True))
    kinds = (*semantics.inputs, *semantics.outputs)
    inputs = [
        _matrix(registers, column, kind, lo, hi)
        for column, kind in zip(columns, kinds, strict=False)
    ]
    targets = group.targets[part]
    file = registers.predicates if kinds[-1] == "pred" else registers.words
    function = semantics.function
    rows = _span(targets)
    if len(targets) == 1:
        rows = targets[0]
        inputs = [i if callable(i) or not np.ndim(i) else i[0] for i in inputs]
    views = [i for i in inputs if not callable(i)]
    if rows is None:
        return partial(
            _gathered, function, inputs, file, np.array(targets), lo, hi, DTYPES[kinds[-1]], mask
        )
    out = file[rows, lo:hi]
    if kinds[-1] != "pred":
        out = out.view(DTYPES[kinds[-1]])
    if semantics.ufunc and len(views) == len(inputs):
        more = {} if mask is None else {"where": mask}
        return partial(function, *views, out=out, **more)
    return partial(_written, function, inputs, out, mask)


def _written(function: Callable[..., Array], inputs: list[Any], out: Array, mask: Any) -> None:
    values = function(*[i() if callable(i) else i for i in inputs])
    np.copyto(out, values, where=True if mask is None else mask)


def _gathered(
    function: Callable[..., Array],
    inputs: list[Any],
    file: Array,
    rows: Array,
    lo: int,
    hi: int,
    dtype: Any,
    mask: Any,
) -> None:
    values = function(*[i() if callable(i) else i for i in inputs])
    values = np.asarray(values).astype(dtype, copy=False)
    if file.dtype != np.bool_:
        values = values.view(file.dtype)
    if mask is not None:
        old = file[rows, lo:hi]
        np.copyto(old, values, where=mask)
        values = old
    file[rows, lo:hi] = values


def _span(rows: Sequence[int]) -> Any:
    """The rows as a slice, if they are evenly spaced and rising; else None."""
    if len(rows) == 1:
        return slice(rows[0], rows[0] + 1)
    step = rows[1] - rows[0]
    if step <= 0 or any(b - a != step for a, b in pairwise(rows)):
        return None
    return slice(rows[0], rows[-1] + 1, step)


def _matrix(registers: Registers, column: tuple[Source, ...], kind: str, lo: int, hi: int) -> Any:
    """An operand of all instructions: an array (instructions, lanes), or a call that makes it."""
    dtype = DTYPES[kind]
    where, values = column[0][0], [value for _, value in column]
    if all(source == column[0] for source in column):
        if where == "constant":
            return np.uint32(values[0]).view(dtype)
        values = values[:1]
    elif any(source[0] != where for source in column):
        return partial(_mixed, registers, column, dtype, lo, hi)
    if where == "constant":
        return np.array(values, np.uint32).view(dtype)[:, None]
    file = registers.predicates if where == "predicate" else registers.words
    span = _span(values)
    if span is not None:
        view = file[span, lo:hi]
        return view if where == "predicate" else view.view(dtype)
    return partial(_picked, file, np.array(values), lo, hi, dtype)


def _picked(file: Array, rows: Array, lo: int, hi: int, dtype: Any) -> Array:
    values = file[rows, lo:hi]
    return values if values.dtype == np.bool_ else values.view(dtype)


def _mixed(registers: Registers, column: tuple[Source, ...], dtype: Any, lo: int, hi: int) -> Array:
    values = np.empty((len(column), hi - lo), np.uint32)
    for i, (where, value) in enumerate(column):
        values[i] = registers.words[value, lo:hi] if where == "word" else np.uint32(value)
    return values.view(dtype)
