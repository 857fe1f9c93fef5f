"""How the second of two runs is put under the first: pieces of straight lines between times.

An alignment is a list of times of the second run and where each stands on the first run's clock;
between two of them, and beyond the last, time goes on evenly.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fa4sim.trace import Trace
from fa4sim.views.aligned import align
from fa4sim.views.scope import microseconds


def alignments(traces: Sequence[Trace], origins: Sequence[int]) -> list[dict[str, Any]]:
    """The ways to draw the second trace under the first, the usual one first; none for one trace.

    Each has a ``name``, ``words`` that say what it does, and ``times`` and ``places``: of the
    second run and on the clock of the first, both from the runs' origins.
    """
    if len(traces) < 2:
        return []
    a, b = traces
    found = [_by_start(a, b, origins)]
    by_mma = _by_mma(a, b, origins)
    return [*found, by_mma] if by_mma is not None else found


def _by_start(a: Trace, b: Trace, origins: Sequence[int]) -> dict[str, Any]:
    """Both begin at the same place; as long as they are, if their clocks can be compared."""
    first = [int(t.span["start"].min()) - origin for t, origin in zip((a, b), origins, strict=True)]
    ends = [t.end - origin for t, origin in zip((a, b), origins, strict=True)]
    lengths = [end - start for end, start in zip(ends, first, strict=True)]
    scales = microseconds(a), microseconds(b)
    if a.clock == b.clock:
        ratio, words = 1.0, f"both begin at the same place, in {a.clock}"
    elif scales[0] is not None and scales[1] is not None:
        ratio = scales[1] / scales[0]
        words = f"both begin at the same place; {b.clock} are drawn as {a.clock}, by the clock rate"
    else:
        ratio = lengths[0] / max(1, lengths[1])
        words = (
            f"both begin at the same place and are drawn equally long: {b.clock} and {a.clock} "
            "are no common time"
        )
    places = [first[0], first[0] + max(1, lengths[1]) * ratio]
    times = [first[1], first[1] + max(1, lengths[1])]
    return {"name": "start", "words": words, "times": times, "places": places}


def _by_mma(a: Trace, b: Trace, origins: Sequence[int]) -> dict[str, Any] | None:
    """Every MMA that both issue stands where the first issues it; None if they share none."""
    try:
        found = align(a, b)
    except ValueError:
        return None
    times = found.second - origins[1]
    places = found.first - origins[0]
    if len(times) < 2 or not (np.all(np.diff(times) > 0) and np.all(np.diff(places) > 0)):
        return None
    words = f"{len(found.issues):,} MMAs that both issue stand one above the other"
    return {"name": "MMA by MMA", "words": words, "times": times.tolist(),
            "places": places.tolist()}  # fmt: skip
