"""Who may be missing at an mbarrier without the text saying so."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from fa4kernel.emulator.inspection.barriers import line_of
from fa4kernel.emulator.inspection.roles import warps_words
from fa4kernel.emulator.names import Names

if TYPE_CHECKING:
    from fa4kernel.emulator.machine.machine import Machine

#: So many places are told.
MOST = 3


def untold(names: Names) -> str:
    """Where a kernel arrives at mbarriers that its text does not tell, or ""."""
    known = {id(site) for barrier in names.mbarriers.values() for site in barrier.sites}
    arrivals = [
        site for site in names.sites.mbarriers if site.way in ("arrive", "expect", "commit")
    ]
    places = list(dict.fromkeys(line_of(site) for site in arrivals if id(site) not in known))
    return ", ".join(places[:MOST]) + (", ..." if len(places) > MOST else "")


def ended(machine: Machine, cta: int, came: Sequence[int]) -> str:
    """Warps of a CTA that ended without coming, and those that came without all threads; or ""."""
    shape = machine.shape
    threads = np.arange(shape.warps * 32).reshape(shape.warps, 32) < machine.launch.threads
    alive = machine.alive.reshape(shape.warps, shape.ctas, 32)[:, cta]
    over = [w for w in np.flatnonzero(~alive.any(axis=1)).tolist() if w not in came]
    partly = [w for w in came if alive[w].any() and (threads[w] & ~alive[w]).any()]
    words = [warps_words(over)] if over else []
    return " and ".join(words + ([f"threads of {warps_words(partly)}"] if partly else []))
