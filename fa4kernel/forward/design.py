"""How our kernel runs a problem: the published kernel's rules, and where it differs."""

from __future__ import annotations

from typing import Any

from fa4kernel.forward.config import TILE
from fa4sim.specs import Design, Machine, Problem


def design_for(problem: Problem, machine: Machine, **changes: Any) -> Design:
    """The design with which our kernel runs `problem`, then `changes`.

    As :meth:`fa4sim.specs.Design.for_problem`, but for three things. A batch of variable length
    always gets one CTA for a tile. A group of query heads that does not divide a tile of 128 rows
    is not packed: TMA loads all of Q. A CTA that has one tile does not guard the memory that O
    shares with Q against the next tile's Q.

    Raises:
        ValueError: a field that no design has, or a value that does not fit.

    >>> from fa4sim import B200
    >>> design_for(Problem(heads=6, kv_heads=2, seqlen_q=512), B200).pack_gqa
    False
    """
    if problem.page_size is not None:
        raise ValueError(
            f"page_size={problem.page_size}: our kernel reads no pages yet; leave page_size out"
        )
    own: dict[str, Any] = {"one_m_block": False}
    if problem.seqlens_q is not None:
        own["scheduler"] = "single_tile_varlen"
    if TILE % problem.group:
        own["pack_gqa"] = False
    design = Design.for_problem(problem, machine, **{**own, **changes})
    if design.pack_gqa and TILE % problem.group:
        raise ValueError(
            f"pack_gqa=True with {problem.group} query heads for each K/V head: a packed tile of "
            f"{TILE} rows takes a group that divides {TILE}; leave pack_gqa out"
        )
    return design
