"""Settings that change nothing in a run, and why: nobody should take them for an experiment."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from fa4sim.specs.design import Design
from fa4sim.specs.limits import DYNAMIC_SCHEDULERS
from fa4sim.specs.problem import FP8
from fa4sim.specs.setup import Setup

_FITS = "it decides what fits into an SM, not how long that takes"
_VALUES = "it changes values, not time"


def idle_settings(
    names: Iterable[str], setups: Sequence[Setup], values: bool = False
) -> dict[str, str]:
    """Those of some settings that make no difference, each with the reason.

    Args:
        names: fields of the design or of the problem that somebody has set.
        setups: what is run, at least one. A field is idle if it is in all of them, and if no two
            of them differ by what it does.
        values: whether values are computed, not only time.

    >>> from fa4sim.specs import B200, Design, Problem
    >>> problem = Problem(seqlen_q=512)
    >>> design = Design.for_problem(problem, B200, page_pointers="naive", kv_stages=2)
    >>> idle_settings(["kv_stages", "page_pointers"], [Setup(problem, design, B200)])
    {'page_pointers': 'K and V come by TMA, which needs no pointers to rows'}
    """
    found = {}
    for name in names:
        if values and name in _VALUES_ONLY:
            continue
        reasons = [_reason(name, setup) for setup in setups]
        if name == "rescale_threshold" and not _all_above_0(setups):
            continue
        if setups and all(reasons):
            found[name] = reasons[0]
    return found


def idle_words(idle: Mapping[str, str]) -> str:
    """A line for each.

    >>> idle_words({"max_offset": "it changes values, not time"})
    'max_offset has no effect here: it changes values, not time'
    """
    return "\n".join(f"{name} has no effect here: {why}" for name, why in idle.items())


def _reason(name: str, setup: Setup) -> str:
    """Why a field does nothing in this run; nothing if it may do something."""
    if name in _VALUES_ONLY:
        if name == "exp2_degree" and _emulates_nothing(setup.design):
            return _emulates_nothing(setup.design)
        return _VALUES_ONLY[name]
    if name.startswith("registers_"):
        return _FITS
    return _RULES[name](setup.design) if name in _RULES else ""


def _emulates_nothing(design: object) -> str:
    if isinstance(design, Design) and design.exp2_period == 0:
        return "with exp2_period=0 no exponential runs as a polynomial"
    return ""


def _finds_no_rows(design: object) -> str:
    if isinstance(design, Design) and design.kv_load == "tma":
        return "K and V come by TMA, which needs no pointers to rows"
    return ""


def _guards_anyway(design: object) -> str:
    if not isinstance(design, Design):
        return ""
    if not design.overlap_o_q:
        return "O has memory of its own (overlap_o_q=False), so nothing is guarded"
    if design.scheduler in ("static_persistent", *DYNAMIC_SCHEDULERS):
        return f"scheduler={design.scheduler!r} guards the memory of Q and O anyway"
    return ""


def _combines_nothing(design: object) -> str:
    if isinstance(design, Design) and design.num_splits == 1:
        return "keys are not split (num_splits=1), so no second kernel is launched"
    return ""


def _all_above_0(setups: Sequence[Setup]) -> bool:
    """Whether thresholds are above 0; a single one is held against the kernel's, 0 in FP8."""
    above = all(setup.design.rescale_threshold > 0 for setup in setups)
    return above and (len(setups) > 1 or setups[0].problem.dtype not in FP8)


_VALUES_ONLY: Mapping[str, str] = {
    "exp2_degree": "it changes values; the time of a polynomial is that of degree 3",
    "max_offset": _VALUES,
    "softmax_scale": _VALUES,
    "rescale_threshold": "without values no maximum rises late, and every threshold above 0 takes "
    "the same time",
}
_RULES: Mapping[str, Callable[[object], str]] = {
    "page_pointers": _finds_no_rows,
    "exp2_emulated": _emulates_nothing,
    "exp2_first_fragment": _emulates_nothing,
    "one_m_block": _guards_anyway,
    "dependent_launch": _combines_nothing,
}
