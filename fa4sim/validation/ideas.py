"""What each idea of FlashAttention-4 buys: the kernel's design with one idea taken away."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fa4sim.specs import Design
from fa4sim.validation.published import Row, published_effects
from fa4sim.validation.throughput import Job, Key, Outcome

#: The rows on which the ideas are tried.
ROWS = ("full 1k", "full 8k", "causal 1k", "causal 8k")


@dataclass(frozen=True)
class Idea:
    """An idea, what takes it away (in words and as design fields), and the masks that have it."""

    name: str
    instead: str
    without: Callable[[Design], dict[str, Any]]
    masks: tuple[str, ...] = ("full", "causal")


IDEAS = (
    Idea("software exponential", "all on the MUFU", lambda _: {"exp2_period": 0}),
    Idea("conditional rescaling", "whenever a maximum grows", lambda _: {"rescale_threshold": 0.0}),
    Idea("two Q tiles", "one", lambda _: {"q_stages": 1}),
    Idea(
        "three K/V stages",
        "two (of a pair's six half stages four)",
        lambda design: {"kv_stages": design.kv_stages * 2 // 3},
    ),
    Idea("P in two parts", "in one", lambda design: {"p_first_columns": design.tile_n}),
    Idea("CTA pair", "single CTAs", lambda _: {"cta_group": 1}, ("full",)),
    Idea("longest first", "in grid order", lambda _: {"scheduler": "single_tile"}, ("causal",)),
    Idea("persistence", "a CTA per tile", lambda _: {"scheduler": "single_tile"}, ("full",)),
)


@dataclass(frozen=True)
class Worth:
    """How much faster each row is with the idea than without it; rows that lack it are absent."""

    idea: Idea
    gains: dict[str, float]
    published: str


def _tried(idea: Idea, rows: Sequence[Row]) -> list[Row]:
    """The rows on which an idea is tried."""
    return [row for row in rows if row.name in ROWS and row.name.split()[0] in idea.masks]


def idea_jobs(rows: Sequence[Row]) -> dict[Key, Job]:
    """Every row of :data:`ROWS` without each idea that its design has."""
    return {
        ("idea", idea.name, row.name): Job(row, design=idea.without(row.chosen()))
        for idea in IDEAS
        for row in _tried(idea, rows)
    }


def worths(
    rows: Sequence[Row], outcomes: Mapping[Key, Outcome], base: Mapping[str, float]
) -> list[Worth]:
    """Each idea's gains; ``base`` is TFLOP/s by row name with the kernel's own design."""
    known = published_effects()
    return [
        Worth(
            idea,
            {
                row.name: base[row.name] / outcomes["idea", idea.name, row.name].tflops - 1.0
                for row in _tried(idea, rows)
            },
            known[idea.name],
        )
        for idea in IDEAS
    ]
