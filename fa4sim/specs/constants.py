"""How a machine is put together from a table of constants."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from fa4sim.specs.machine import Machine
from fa4sim.specs.measured import h200_origin, h200_value
from fa4sim.specs.origin import Origin


class Constant(NamedTuple):
    """One number of a machine and where it comes from."""

    value: float
    origin: Origin


def from_h200(*names: str, whole: bool = True) -> Constant:
    """The sum of quantities measured on an H200, in whole cycles unless told otherwise."""
    value = sum(h200_value(name) for name in names)
    return Constant(round(value) if whole else value, h200_origin(*names))


def h200_ratio(name: str, to: str) -> Constant:
    """How much of one quantity measured on an H200 another is."""
    return Constant(h200_value(name) / h200_value(to), h200_origin(name, to))


def build(name: str, table: Mapping[str, Constant]) -> Machine:
    """A machine from its table of constants. Raises ``TypeError`` for a missing one."""
    values = {key: constant.value for key, constant in table.items()}
    origins = {key: constant.origin for key, constant in table.items()}
    return Machine(name=name, origins=origins, **values)  # type: ignore[arg-type]
