"""The data path of the simulator, which tells what passes through it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fa4kernel.crosscheck.hearing import Ear
from fa4kernel.crosscheck.record import Arrival, Label, Record, Warp, load_text, mma_text
from fa4kernel.crosscheck.tensors import rows_left
from fa4sim.engine.memory import Load
from fa4sim.engine.tensor import Mma
from fa4sim.pipelines.fa4.cluster import Cta
from fa4sim.pipelines.fa4.data import Data
from fa4sim.pipelines.fa4.tiles import WorkTile

#: S tiles (128, 128) by CTA and label.
Scores = Mapping[tuple[int, Label], NDArray[np.float32]]


class HeardData(Data):
    """The data path, which tells what passes through it; and, if given, other scores than its own.

    ``ear`` hears the cluster that runs.
    """

    ear: Ear

    def __init__(self, *given: Any, record: Record, scores: Scores | None) -> None:
        super().__init__(*given)
        self.record = record
        self.given_scores = scores

    def _did(self, role: Any, what: str, on: str, label: Label = ()) -> None:
        self.record.did(self.ear.warps[role.key], what, on, label, self.ear.core.now)

    def _row(self, role: Any, stage: int) -> Label:
        return self.ear.q_label(role.cluster.tiles[role.tile], stage, role.home)

    def _score(self, role: Any) -> Label:
        tile = role.cluster.tiles[role.tile]
        return self.ear.s_label(tile, role.stage, role.home, role.block)

    # -- units ---------------------------------------------------------------------------------

    def _lands(self, cta: Cta, load: Load, barrier: str, slot: str) -> None:
        text = load_text(load.tensor, self.ear.load_label(cta, load), slot, cta.number)
        source = self.record.completed(text, self.ear.core.now)
        full = cta.cluster.barrier(barrier, load.stage, cta)
        arrival = Arrival(full.completions, 0, 0, "tma", source, self.ear.core.now)
        self.ear.landed.append((full.cta, barrier, load.stage, arrival))

    def fill_q(self, cta: Cta, stage: int, load: Load) -> None:
        """See :meth:`Data.fill_q`."""
        super().fill_q(cta, stage, load)
        self._lands(cta, load, "load_Q_full", f"sQ[{stage}]")

    def fill_kv(self, cta: Cta, slot: int, load: Load) -> None:
        """See :meth:`Data.fill_kv`."""
        super().fill_kv(cta, slot, load)
        self._lands(cta, load, "load_KV_full", f"sKV[{slot}]")

    def _finished(self, cta: Cta, mma: Mma) -> Label:
        label = self.ear.s_label(cta.cluster.tiles[mma.tile], mma.stage, cta, mma.block)
        if cta.rank == 0:
            text = mma_text(self.ear.mma_name(mma), label, cta.number)
            self.record.completed(text, self.ear.core.now)
        return label

    def qk(self, cta: Cta, mma: Mma) -> None:
        """See :meth:`Data.qk`."""
        super().qk(cta, mma)
        label = self._finished(cta, mma)
        first, width = cta.cluster.columns[f"S{mma.stage}"]
        tmem = self.memory[cta.number].tmem
        given = None if self.given_scores is None else self.given_scores.get((cta.number, label))
        if given is not None:  # a kernel that has no such tile differs in its order
            tmem[:, first : first + width] = given
        self.record.scores[cta.number, label] = tmem[:, first : first + width].copy()

    def pv(self, cta: Cta, mma: Mma) -> None:
        """See :meth:`Data.pv`."""
        super().pv(cta, mma)
        self._finished(cta, mma)

    # -- warps ---------------------------------------------------------------------------------

    def _tmem(self, what: str, columns: int) -> None:
        self.record.amounts[what] += 32 * 4 * columns

    def read_scores(self, role: Any) -> None:
        """See :meth:`Data.read_scores`."""
        super().read_scores(role)
        self._did(role, "read S", f"S{role.stage}", self._score(role))
        self._tmem("TMEM bytes loaded", self.design.tile_n)

    def softmax_stats(self, role: Any, tile: WorkTile) -> None:
        """See :meth:`Data.softmax_stats`."""
        super().softmax_stats(role, tile)
        emulated = int(np.count_nonzero(self.emulated))
        factor = 1 if role.step else 0  # by which a rescale multiplies, from the second step on
        self.record.amounts["exponentials on MUFU"] += 32 * (self.design.tile_n - emulated + factor)
        self.record.amounts["exponentials on FMA"] += 32 * emulated

    def store_p(self, role: Any, first: int, last: int) -> None:
        """See :meth:`Data.store_p`."""
        super().store_p(role, first, last)
        self._did(role, "write P", f"P{role.stage}", self._score(role))
        self._tmem("TMEM bytes stored", (last - first) * 32 * self.problem.element_bytes // 4)

    def write_stats(self, role: Any, final: bool) -> None:
        """See :meth:`Data.write_stats`."""
        super().write_stats(role, final)
        self._did(role, "write stats", f"stats[{role.stage}]")

    def vote(self, role: Any, stage: int) -> bool:
        """See :meth:`Data.vote`."""
        self._did(role, "read stats", f"stats[{stage}]")
        return super().vote(role, stage)

    def rescale(self, role: Any, stage: int) -> None:
        """See :meth:`Data.rescale`."""
        super().rescale(role, stage)
        self._did(role, "rescale O", f"O{stage}", self._row(role, stage))
        self._tmem("TMEM bytes loaded", self.design.head_dim_v_padded)
        self._tmem("TMEM bytes stored", self.design.head_dim_v_padded)

    def read_final(self, role: Any, stage: int) -> None:
        """See :meth:`Data.read_final`."""
        super().read_final(role, stage)
        self._did(role, "read stats", f"stats[{stage}]")

    def write_o(self, role: Any, stage: int) -> None:
        """See :meth:`Data.write_o`."""
        super().write_o(role, stage)
        self._did(role, "finish O", f"O{stage}", self._row(role, stage))
        self._tmem("TMEM bytes loaded", self.design.head_dim_v_padded)

    def store_o(self, cta: Cta, stage: int, number: int, lane: int | None = None) -> None:
        """See :meth:`Data.store_o`."""
        super().store_o(cta, stage, number, lane)
        if lane is not None:
            label = self.ear.q_label(cta.cluster.tiles[number], stage, cta)
            warp = Warp(cta.number, "correction", lane)
            rows = rows_left(self.problem, self.design, label, lane)
            if rows:
                self.record.did(warp, "store O", f"sO[{stage}]", label, self.ear.core.now)
            size = rows * self.problem.dim_v * self.design.o_element_bytes(self.problem)
            self.record.amounts["bytes stored"] += size
