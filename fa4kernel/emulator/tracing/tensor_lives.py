"""The lives of tiles in tensor memory; see `lives`."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from fa4kernel.emulator.checks.footprints import COLUMNS
from fa4kernel.emulator.labels import Labels
from fa4kernel.emulator.tracing.life import Life, Span, overlap
from fa4kernel.emulator.tracing.memory import MemoryLog, Moved, Use


@dataclass(frozen=True, slots=True)
class Factor:
    """An MMA that reads columns of tensor memory."""

    span: Span
    use: Use


class TensorLives:
    """Accumulators, and first factors that warps write.

    Args:
        recorder: what it remembers.
        labels: of the launch.

    Attributes:
        lives: what was found; deaths are left open.
    """

    def __init__(self, recorder: MemoryLog, labels: Labels) -> None:
        self.lives: list[Life] = []
        uses = [use for use in recorder.uses if use.d is not None]
        self._sums: dict[Span, str] = {}
        for use in uses:
            assert use.d is not None
            self._sums.setdefault(use.d, labels.product(bool(use.factors)))
        self._factors = {span: labels.factor for span in factor_spans(uses, list(self._sums))}
        self._newest: dict[int, dict[Span, Life]] = defaultdict(dict)
        events: list[tuple[int, Use | Factor | Moved]] = [(use.event.start, use) for use in uses]
        events += [(tick, Factor(span, use)) for use in uses for tick, span in use.factors]
        events += [(move.tick, move) for move in recorder.moves]
        for tick, event in sorted(events, key=lambda pair: pair[0]):
            if isinstance(event, Use):
                self._mma(event)
            elif isinstance(event, Factor):
                self._read(event, tick)
            elif event.write:
                self._stored(event)
            else:
                self._loaded(event)

    def _begin(self, cta: int, names: dict[Span, str], span: Span, tick: int) -> Life:
        stage = sorted(s for s, name in names.items() if name == names[span]).index(span)
        life = Life(cta, names[span], "tmem", f"columns {span[0]}-{span[1]}", stage, span, tick)
        self._newest[cta][span] = life
        self.lives.append(life)
        return life

    def _mma(self, use: Use) -> None:
        assert use.d is not None
        for cta in use.ctas:
            if use.fresh or use.d not in self._newest[cta]:
                self._begin(cta, self._sums, use.d, use.event.start)

    def _read(self, factor: Factor, tick: int) -> None:
        for cta in factor.use.ctas:
            life = self._at(cta, factor.span, self._factors)
            if life is not None:
                life.use(tick, factor.use.event.end)
                life.read.add(factor.span)

    def _stored(self, move: Moved) -> None:
        for cta, span in sorted({*zip(move.ctas.tolist(), spans(move), strict=True)}):
            for place in self._factors:
                if overlap(place, span):
                    life = self._newest[cta].get(place)
                    if life is None or any(overlap(span, read) for read in life.read):
                        self._begin(cta, self._factors, place, move.tick)

    def _loaded(self, move: Moved) -> None:
        for cta, span in {*zip(move.ctas.tolist(), spans(move), strict=True)}:
            life = self._at(cta, span, self._sums)
            if life is not None:
                life.use(move.tick, move.tick + 1)

    def _at(self, cta: int, span: Span, places: dict[Span, str]) -> Life | None:
        """The youngest tile in some of the columns."""
        found = [
            life
            for place, life in self._newest[cta].items()
            if place in places and overlap(place, span)
        ]
        return max(found, key=lambda life: life.birth, default=None)


def spans(move: Moved) -> list[Span]:
    """First and last column for each of the warps."""
    return list(zip(move.low.tolist(), move.high.tolist(), strict=True))


def factor_spans(uses: list[Use], sums: list[Span]) -> list[Span]:
    """The columns from which MMAs take first factors, in runs that no accumulator's edge cuts."""
    columns = np.zeros(COLUMNS + 1, np.int8)
    for use in uses:
        for _, (low, high) in use.factors:
            columns[low : high + 1] = 1
    edges = {0, COLUMNS} | {edge for low, high in sums for edge in (low, high + 1)}
    edges |= set((np.flatnonzero(np.diff(columns)) + 1).tolist())
    return [(low, high - 1) for low, high in pairwise(sorted(edges)) if columns[low]]
