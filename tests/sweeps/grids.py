"""Grids whose points take a few milliseconds."""

from fa4sim.sweeps import Grid

TINY = {"batch": 1, "heads": 1, "seqlen_q": 512}


def stages(*values, **base) -> Grid:
    """Ring stages from 2 to 5, or these."""
    return Grid({"kv_stages": values or (2, 3, 4, 5)}, {**TINY, **base})


def plain(rows) -> list:
    """Rows without the seconds that simulating them took."""
    facts = [row.facts() for row in rows]
    for fact in facts:
        fact.pop("wall_s", None)
    return facts
