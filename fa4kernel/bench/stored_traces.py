"""Stamps of our traced Hopper kernel, measured on an H200 and stored beside this file.

Of each kernel two CTAs with their first work tiles, and the mean duration of every phase over all
CTAs. The device and the date are noted in each. A traced kernel is slower than the kernel, and in
another order: see `NOTE` and `fa4kernel.hopper.traced`.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

import numpy as np

from fa4kernel.bench.points import Point, standard
from fa4kernel.hopper.config import Config
from fa4kernel.hopper.design import config_for
from fa4kernel.hopper.traced import Stamps, durations, first_tiles, from_first, to_trace
from fa4sim.trace import Trace

NOTE = (
    "stamps cost time, and pin the order of instructions to that of the source; in the untraced "
    "kernel ptxas moves the wait for O ahead of most exponentials"
)
FILE, CTAS, TILES = "h200_traces.npz", 2, 2
POINTS = (
    standard(128, False, 4096),
    standard(128, True, 4096),
    standard(64, False, 4096),
    standard(128, False, 4096, "no overlap"),
    standard(128, False, 4096, "no ping-pong"),
)


@dataclass(frozen=True)
class Measured:
    """A traced kernel's stamps.

    Attributes:
        point: problem and variant of the kernel.
        stamps: (CTAs, 1 + consumers, blocks, len(STAMPS)) int32 of the first CTAs and tiles; cycles
            of the multiprocessor, from 1 on; 0 is no stamp.
        means: cycles of each phase of a consumer, over all blocks, but a tile's first, of all CTAs.
        about: device, driver, CUDA, date, what the numbers were.
    """

    point: Point
    stamps: Stamps
    means: Mapping[str, float]
    about: Mapping[str, Any]

    @property
    def cfg(self) -> Config:
        """Of the kernel."""
        return config_for(self.point.problem, trace=True, **self.point.changes)

    def trace(self, ctas: int = 1, tiles: int = 1) -> Trace:
        """What the first CTAs did in their first tiles."""
        return to_trace(self.cfg, first_tiles(self.stamps, tiles), ctas, **described(self))

    @classmethod
    def of(cls, point: Point, stamps: Stamps, about: Mapping[str, Any]) -> Measured:
        """As a GPU has just written them."""
        cfg = config_for(point.problem, trace=True, **point.changes)
        means = {name: float(took.mean()) for name, took in durations(cfg, stamps).items()}
        return cls(point, _small(stamps), means, about)


def described(found: Measured) -> dict[str, Any]:
    """What a trace notes about where it comes from."""
    problem = found.point.problem
    return {
        "machine": str(found.about["device"]),
        "problem": {
            "head_dim": problem.head_dim, "head_dim_v": problem.dim_v, "causal": problem.causal,
        },
        "point": found.point.name,
        "note": NOTE,
        **{name: found.about[name] for name in ("date", "driver") if name in found.about},
    }  # fmt: skip


def stored_traces() -> dict[str, Measured]:
    """All stored traces by the name of their point.

    >>> list(stored_traces())[0]
    'd128 full 4096 b8 h16'
    >>> stored_traces()["d128 full 4096 b8 h16"].about["device"]
    'NVIDIA H200'
    """
    return dict(_stored())


@cache
def _stored() -> dict[str, Measured]:
    place = resources.files("fa4kernel.bench") / "data" / FILE
    return unpack(place.read_bytes(), POINTS)


def pack(measured: Iterable[Measured]) -> bytes:
    """An .npz file of traces from one machine."""
    chosen = list(measured)
    arrays: dict[str, Any] = {each.point.name: each.stamps for each in chosen}
    about = {
        **chosen[0].about,
        "note": NOTE,
        "means": {each.point.name: dict(each.means) for each in chosen},
    }
    target = io.BytesIO()
    np.savez_compressed(target, about=json.dumps(about), **arrays)
    return target.getvalue()


def unpack(data: bytes, points: Iterable[Point]) -> dict[str, Measured]:
    """The traces of `pack`, by the name of their point.

    Raises:
        KeyError: there is none of a point.
    """
    with np.load(io.BytesIO(data), allow_pickle=False) as file:
        about = json.loads(str(file["about"]))
        means = about.pop("means")
        return {
            point.name: Measured(point, file[point.name], means[point.name], about)
            for point in points
        }


def _small(stamps: Stamps) -> Stamps:
    """Of the first CTAs and tiles only, each CTA counted from its first stamp."""
    return first_tiles(np.stack([from_first(cta) for cta in stamps[:CTAS]]), TILES)
