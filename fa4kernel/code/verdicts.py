"""What is wanted of our kernel, and where it is behind, as a section of the page."""

from __future__ import annotations

from collections.abc import Mapping

from fa4kernel.code.comparison import Code, wishes
from fa4kernel.code.markdown import number, table
from fa4kernel.code.measure import Role, busiest, slots
from fa4kernel.code.shapes import Shape

Codes = Mapping[Shape, Mapping[str, Code]]


def verdicts(all_codes: Codes) -> str:
    """The section, or "" where there are not both kernels."""
    both = {s: c for s, c in all_codes.items() if {"ours", "official"} <= set(c)}
    if not both:
        return ""
    wanted = [wishes(codes["ours"], codes["official"]) for codes in both.values()]
    words = {True: "met", False: "**missed**", None: "not known"}
    rows = [
        [shape.title, *(f"{words[wish.met]}: {wish.words}" for wish in each)]
        for shape, each in zip(both, wanted, strict=True)
    ]
    return (
        "## What is wanted\n\n"
        + table(["ours and official", *(wish.what for wish in wanted[0])], rows)
        + "\n\nIssue slots of a step by role, ours and official, where ours has more in bold. "
        "*Sub-partition*: those of the four warps of the busiest one, warp w being on "
        "sub-partition w mod 4. For MMA and load the weights are rough: the length of their loops "
        "in machine code stands with each shape.\n\n" + _by_role(both)
    )


def _by_role(both: Codes) -> str:
    """Issue slots of a step, a row for each shape."""
    names = dict.fromkeys(
        role.name
        for codes in both.values()
        for code in codes.values()
        for role in code.measured.roles
        if role.step
    )
    rows = []
    for shape, codes in both.items():
        ours, official = codes["ours"].measured, codes["official"].measured
        pairs = [(_slots(ours.role(n)), _slots(official.role(n))) for n in names]
        pairs.append((busiest(ours), busiest(official)))
        rows.append([shape.title, *(_beside(*pair) for pair in pairs)])
    return table(["", *names, "sub-partition"], rows)


def _slots(role: Role | None) -> float:
    return 0.0 if role is None else slots(role.step)


def _beside(ours: float, official: float) -> str:
    mine = f"**{number(ours)}**" if ours > official else number(ours)
    return f"{mine or 0} / {number(official) or 0}"
