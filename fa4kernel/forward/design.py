"""How our kernel runs a problem: the published kernel's rules, and where it differs."""

from __future__ import annotations

from typing import Any

from fa4sim.specs import Design, Machine, Problem


def design_for(problem: Problem, machine: Machine, **changes: Any) -> Design:
    """The design with which our kernel runs `problem`, then `changes`.

    As :meth:`fa4sim.specs.Design.for_problem`, but for two things. A batch of variable length
    always gets one CTA for a tile. A CTA that has one tile does not guard the memory that O
    shares with Q against the next tile's Q.

    Raises:
        ValueError: a field that no design has, or a value that does not fit.

    >>> from fa4sim import B200
    >>> design_for(Problem(seqlens_q=(100, 30)), B200).scheduler
    'single_tile_varlen'
    """
    if problem.page_size is not None:
        raise ValueError(
            f"page_size={problem.page_size}: our kernel reads no pages yet; leave page_size out"
        )
    own: dict[str, Any] = {"one_m_block": False}
    if problem.seqlens_q is not None:
        own["scheduler"] = "single_tile_varlen"
    return Design.for_problem(problem, machine, **{**own, **changes})
