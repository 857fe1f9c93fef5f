"""Values over time: those a trace counts, and those that follow from where its tiles lived."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fa4sim.trace import Table, Trace
from fa4sim.views.memory_map import occupied_columns, tmem_columns
from fa4sim.views.units import BUSY, PER_SUBPARTITION


@dataclass(frozen=True)
class Counter:
    """One value of one CTA: ``values[i]`` from ``times[i]`` on, in units of the trace's clock."""

    sm: int
    cta: int
    name: str
    times: NDArray[np.int64]
    values: NDArray[np.int64]

    @property
    def unit(self) -> str:
        """What it counts: bytes, percent, slots, columns; "" if its name does not tell.

        >>> [
        ...     Counter(0, 0, name, np.array([0]), np.array([1])).unit
        ...     for name in ("ring_slots_held", "depth")
        ... ]
        ['slots', '']
        """
        if "bytes" in self.name:
            return "bytes"
        if self.name.endswith("percent"):
            return "percent"
        return self.name.partition("_")[2].partition("_")[0]


def counters(trace: Trace) -> Iterator[Counter]:
    """Every counter of an expanded trace that has a value, SM by SM for each name.

    Cycles that a unit worked become percent of the time from one value to the next. From the lives
    of tiles follow the slots of the K/V ring that are held and the TMEM columns in use.
    """
    for counter in (*_counted(trace), *_lived(trace)):
        if len(counter.times):
            yield counter


def _counted(trace: Trace) -> Iterator[Counter]:
    table = trace.counter
    for name in table.unique("name"):
        mine = table.where(name=name)
        for sm, cta in _places(mine):
            rows = mine.where(sm=sm, cta=cta)
            if name.startswith(BUSY):
                unit = name.removeprefix(BUSY)
                yield Counter(sm, cta, f"{unit}_busy_percent", *_percent(unit, rows))
            else:
                yield Counter(sm, cta, name, rows["time"], rows["value"])


def _lived(trace: Trace) -> Iterator[Counter]:
    lives = trace.life
    columns = tmem_columns(trace)
    ring = tuple(slot for slot in lives.unique("slot") if slot.startswith("sKV"))
    for sm, cta in _places(lives):
        here = lives.where(sm=sm, cta=cta)
        held = here.where(space="smem", slot=ring)
        yield Counter(sm, cta, "ring_slots_held", *_held(held["birth"], held["death"]))
        times, used = occupied_columns(here.where(space="tmem"), columns)
        yield Counter(sm, cta, "tmem_columns_in_use", times, used)


def _places(table: Table) -> list[tuple[int, int]]:
    """The (SM, CTA) pairs of a table, in order."""
    return sorted({*zip(table["sm"].tolist(), table["cta"].tolist(), strict=True)})


def _percent(unit: str, rows: Table) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """``(times, percent busy from then to the next)``, from a counter of cycles worked."""
    times, last = np.unique(rows["time"][::-1], return_index=True)
    worked = rows["value"][::-1][last]
    copies = 4 if unit in PER_SUBPARTITION else 1
    rate = 100 * np.diff(worked) / np.maximum(1, np.diff(times)) / copies
    return times, np.append(np.rint(np.minimum(rate, 100)), 0).astype(np.int64)


def _held(
    birth: NDArray[np.int64], death: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """``(times, how many are alive from then on)``."""
    times = np.concatenate([birth, death])
    change = np.concatenate([np.ones_like(birth), -np.ones_like(death)])
    moments, at = np.unique(times, return_inverse=True)
    return moments, np.cumsum(np.bincount(at, weights=change)).astype(np.int64)
