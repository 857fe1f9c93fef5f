"""Settings by name: fields of the design, of the problem, and ``machine.CONSTANT``.

Of the design: of either kind; the machine decides which it is, and refuses the other's.

The dataclasses check that values fit together; here a value of the wrong type is refused first,
with the name and what is expected.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
import types
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

from fa4sim.specs.checks import quoted
from fa4sim.specs.design import Design
from fa4sim.specs.hopper import HopperDesign
from fa4sim.specs.machine import Machine
from fa4sim.specs.problem import Problem, as_window

MACHINE = "machine."
Owner = Literal["design", "problem", "machine"]

_HINTS: dict[Owner, dict[str, Any]] = {
    "design": {**get_type_hints(HopperDesign), **get_type_hints(Design)},
    "problem": get_type_hints(Problem),
    "machine": get_type_hints(Machine),
}
_NAMES: dict[Owner, list[str]] = {
    "design": list(
        dict.fromkeys(
            f.name
            for kind in (Design, HopperDesign)
            for f in dataclasses.fields(kind)
            if f.name not in ("faults", "num_splits")  # splits follow from the problem's
        )
    ),
    "problem": [f.name for f in dataclasses.fields(Problem)],
    "machine": [f.name for f in dataclasses.fields(Machine) if f.name not in ("origins", "name")],
}
_WORDS_FOR = {int: "a whole number", float: "a number", bool: "True or False", str: "a word"}
_BOOLS = {"true": True, "false": False}


@dataclass(frozen=True)
class Settings:
    """Values by field, sorted by what they change."""

    design: Mapping[str, Any] = field(default_factory=dict)
    problem: Mapping[str, Any] = field(default_factory=dict)
    machine: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, values: Mapping[str, object]) -> Settings:
        """Sort ``values`` by owner and check their types. Raises ``ValueError`` quoting one."""
        sorted_out: dict[Owner, dict[str, Any]] = {"design": {}, "problem": {}, "machine": {}}
        for name, value in values.items():
            whose, plain = owner(name)
            sorted_out[whose][plain] = typed(name, value)
        return cls(**sorted_out)

    def over(self, other: Settings) -> Settings:
        """These settings, on top of ``other``."""
        return Settings(
            {**other.design, **self.design},
            {**other.problem, **self.problem},
            {**other.machine, **self.machine},
        )


def owner(name: str) -> tuple[Owner, str]:
    """Whose field ``name`` is, and its name there. Raises ``ValueError`` for an unknown one.

    >>> owner("kv_stages"), owner("seqlen_q"), owner("machine.clock_hz")
    (('design', 'kv_stages'), ('problem', 'seqlen_q'), ('machine', 'clock_hz'))
    """
    if not isinstance(name, str):
        raise ValueError(f"{quoted(name)} is no name of a field; give a string, as 'kv_stages'")
    if name.startswith(MACHINE):
        plain = name.removeprefix(MACHINE)
        if plain in _NAMES["machine"]:
            return "machine", plain
        raise ValueError(
            f"a machine has no constant {plain!r}{_similar(plain, _NAMES['machine'])}; "
            f"it has {', '.join(sorted(_NAMES['machine']))}"
        )
    for whose in ("design", "problem"):
        if name in _NAMES[whose]:
            return whose, name
    if name in _NAMES["machine"]:
        raise ValueError(f"{name!r} is a constant of the machine; write {MACHINE}{name}=…")
    known = [*_NAMES["design"], *_NAMES["problem"]]
    raise ValueError(
        f"nothing is called {name!r}{_similar(name, known)}. "
        f"A design has {', '.join(sorted(_NAMES['design']))}. "
        f"A problem has {', '.join(sorted(_NAMES['problem']))}. "
        f"Constants of the machine are {MACHINE}NAME (see: fa4sim machines)."
    )


def _similar(name: str, known: list[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""


def typed(name: str, value: object) -> Any:
    """``value`` as the field ``name`` holds it. Raises ``ValueError`` that quotes it.

    >>> typed("kv_stages", 3), typed("rescale_threshold", 4), typed("machine.l2_bytes", 126e6)
    (3, 4.0, 126000000)
    """
    whose, plain = owner(name)
    if isinstance(value, np.generic):
        value = value.item()
    if plain == "window":
        return _window(value)
    kinds = _alternatives(_HINTS[whose][plain])
    if value is None and types.NoneType in kinds:
        return None
    if any(get_origin(kind) is tuple for kind in kinds):
        if isinstance(value, tuple | list):
            return tuple(value)
        raise ValueError(f"{name}={quoted(value)} must be a list of whole numbers, as in [128,512]")
    kind = next(kind for kind in kinds if kind is not types.NoneType)
    fitted = _as_kind(value, kind)
    if fitted is None:
        raise ValueError(f"{name}={quoted(value)} must be {_WORDS_FOR[kind]}")
    return fitted


def _alternatives(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


def _as_kind(value: object, kind: type) -> object:
    """``value`` as ``kind`` if that loses nothing, else None."""
    if kind is bool:
        return value if isinstance(value, bool) else _BOOLS.get(str(value).lower())
    if kind is str:
        return value if isinstance(value, str) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    if not math.isfinite(number):
        return None
    if kind is float:
        return number
    return int(value) if value == int(value) else None


def _window(value: object) -> tuple[int | None, int | None] | None:
    if value is not None and not isinstance(value, str | tuple | list):
        raise ValueError(f"window={quoted(value)} must be a pair (left, right), None for unbounded")
    return as_window(value)
