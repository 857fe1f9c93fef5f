"""Looks at MMAs and commits, and at the lives of what is in tensor memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fa4kernel.crosscheck.kernel import Kernel
from fa4kernel.crosscheck.places import Holding
from fa4kernel.crosscheck.record import (
    Arrival,
    Label,
    Operation,
    Source,
    Warp,
    mma_text,
)
from fa4kernel.crosscheck.watching_barriers import BarrierWatch
from fa4kernel.emulator.machine.machine import Machine
from fa4kernel.emulator.tensor.descriptors import SmemDescriptor

#: What a slot of shared memory is given up by, and its name.
FREED_BY = {"load_KV_empty": "sKV", "load_Q_empty": "sQ"}


@dataclass
class RunOfMmas:
    """MMAs of one thread into one accumulator, queued one behind the other."""

    what: str
    region: str
    column: int
    width: int
    members: list[tuple[int, Label, list[Holding]]]
    text: str
    turn: int
    pending: int = 0
    last: bool = False
    fresh: bool = False
    operation: Operation | None = field(default=None, repr=False)


class TensorWatch(BarrierWatch):
    """A watcher that names MMAs by what their descriptors point to, and follows their results."""

    def __init__(self, kernel: Kernel, machine: Machine) -> None:
        super().__init__(kernel, machine)
        self.columns = {first: name for name, (first, _) in kernel.design.tmem_map().items()}
        self.regions: dict[int, str] = {}  # first column -> S0, O1, …, as MMAs write them
        self.p_columns = kernel.design.tile_n * kernel.problem.element_bytes // 4
        self._runs: dict[int, RunOfMmas] = {}
        self._at_work: dict[int, tuple[Any, RunOfMmas]] = {}
        self._commits: dict[int, tuple[Any, Source]] = {}
        self._queued: dict[str, int] = {}
        self.finished: dict[int, set[str]] = {}  # by warp: where it has read O for the last time
        self._finishing: dict[tuple[int, str], set[int]] = {}

    # -- what is multiplied ---------------------------------------------------------------------

    def mmas_issued(self, convoy: Any, ctas: Sequence[int], works: Sequence[Any]) -> None:
        """MMAs are queued."""
        for cta, work in zip(ctas, works, strict=True):
            if work.operation.a_in_tmem:
                self._pv(cta, work)
            else:
                self._qk(cta, work)

    def _smem(self, cta: int, descriptor: int, tensors: str) -> Holding | None:
        return self.places.at(self.number(cta), SmemDescriptor.decode(descriptor).start, tensors)

    def _qk(self, cta: int, work: Any) -> None:
        operation = work.operation
        column = operation.d & 0xFFFF
        region = self.regions.setdefault(column, self.columns.get(column, f"column {column}"))
        keys = self._smem(cta, operation.b, "KV")
        labels: list[tuple[int, Label, list[Holding]]] = []
        for each in self.members(cta, operation.group):
            queries = self._smem(each, operation.a, "Q")
            label = self._scores(queries, keys)
            labels.append((each, label, [h for h in (queries, self._smem(each, operation.b, "KV"))
                                         if h is not None]))  # fmt: skip
        self.record.amounts["QK FLOPs"] += flops(operation)
        self.queue(work, "QK", region, labels, column, operation.shape.n)

    def _scores(self, queries: Holding | None, keys: Holding | None) -> Label:
        """Label of the product of two tiles."""
        if queries is None or keys is None or keys.tensor != "K":
            self.fault(f"QK multiplies {_words(queries)} and {_words(keys)}")
            return ()
        self._same_head(queries.label, keys, "QK")
        return (*queries.label, keys.label[2])

    def _same_head(self, label: Label, keys: Holding, what: str) -> None:
        problem, design = self.kernel.problem, self.kernel.design
        head = label[1] if design.pack_gqa else label[1] // problem.group
        if (label[0], head) != keys.label[:2]:
            self.fault(f"{what} takes {_words(keys)} for tile {label}")

    def _pv(self, cta: int, work: Any) -> None:
        operation = work.operation
        column, p_column = operation.d & 0xFFFF, operation.a & 0xFFFF
        region = self.regions.setdefault(column, self.columns.get(column, f"column {column}"))
        values = self._smem(cta, operation.b, "KV")
        labels: list[tuple[int, Label, list[Holding]]] = []
        first = last = False
        for each in self.members(cta, operation.group):
            p = self.places.at(self.number(each), p_column, "P")
            if p is None or not p.label or values is None or values.tensor != "V":
                self.fault(f"PV multiplies {_words(p)} and {_words(values)}")
                labels.append((each, (), []))
                continue
            if p.label[3:] != values.label[2:]:
                self.fault(f"PV multiplies {_words(p)} and {_words(values)}")
            self._same_head(p.label, values, "PV")
            first, last = p_column == p.low, p_column + 8 == p.low + self.p_columns
            mine = [h for h in (p, self._smem(each, operation.b, "KV")) if h is not None]
            labels.append((each, p.label, mine))
        self.record.amounts["PV FLOPs"] += flops(operation)
        what = "PV first" if first or self.continues(work, region) else "PV rest"
        self.queue(work, what, region, labels, column, operation.shape.n, last=last)

    # -- runs and commits ----------------------------------------------------------------------

    def continues(self, work: Any, region: str) -> bool:
        """Whether an MMA goes on where the last of its thread stopped, with nothing between."""
        run = self._runs.get(int(work.issuer) // 32)
        warp = self.warp(int(work.issuer) // 32)
        return (
            run is not None
            and run.region == region
            and run.what == "PV first"
            and run.operation is self.last(warp)
        )

    def queue(
        self, work: Any, what: str, region: str, members: list[tuple[int, Label, list[Holding]]],
        column: int, width: int, last: bool = False,
    ) -> None:  # fmt: skip
        """Note an MMA; with those before it that do the same it is one operation."""
        slot = int(work.issuer) // 32
        warp = self.warp(slot)
        label = members[0][1]
        before = self.last(warp)
        operation = self.record.did(warp, what, region, label, self.tick())
        if operation is not before:
            text = mma_text(what, label, warp.cta)
            turn = self._queued.get(text, 0)
            self._queued[text] = turn + 1
            self._runs[slot] = RunOfMmas(
                what, region, column, width, members, text, turn, operation=operation,
                fresh=not work.accumulate,
            )  # fmt: skip
        run = self._runs[slot]
        run.pending += 1
        run.last |= last
        self._at_work[id(work)] = (work, run)

    def tensor_done(self, work: Any) -> None:
        """An MMA is complete."""
        _, run = self._at_work.pop(id(work), (None, None))
        if run is None:
            return
        time = self.tick()
        run.pending -= 1
        for _, _, holdings in run.members:
            for held in holdings:
                held.use(time)
        if run.pending == 0:
            self._run_done(run)

    def _run_done(self, run: RunOfMmas) -> None:
        self.record.completed(run.text, self.time)
        for cta, label, _ in run.members:
            number = self.number(cta)
            if run.what == "QK":
                columns = (run.column, run.column + run.width)
                self.places.end(number, run.region, self.time)
                self.places.put("S", number, run.region, label, columns, self.time)
                self._remember_scores(cta, number, run, label)
            elif run.last:
                self.places.end(number, run.region.replace("O", "P"), self.time)
                self._o_begins(number, run, label)

    def _o_begins(self, number: int, run: RunOfMmas, label: Label) -> None:
        held = self.places.held(number, run.region)
        if held is None or held.label != label[:3]:
            columns = (run.column, run.column + run.width)
            held = self.places.put("O", number, run.region, label[:3], columns, self.time)

    def _remember_scores(self, cta: int, number: int, run: RunOfMmas, label: Label) -> None:
        words = self.machine.tmem.words[cta, run.column : run.column + run.width]
        self.record.scores[number, label] = np.ascontiguousarray(words.T).view(np.float32).copy()

    def commits_issued(self, convoy: Any, works: Sequence[Any]) -> None:
        """``tcgen05.commit``."""
        for work in works:
            slot = int(work.issuer) // 32
            _, name, stage = self.barrier(int(work.barriers[0]))
            self.record.did(self.warp(slot), "commit", f"{name}[{stage}]", (), self.tick())
            run = self._runs.get(slot)
            source: Source = ("no MMA", 0) if run is None else (run.text, run.turn)
            self._commits[id(work)] = (work, source)

    def commits_landed(self, works: Sequence[Any]) -> None:
        """Commits arrive: a slot that one gives back is free."""
        for work in works:
            _, source = self._commits.pop(id(work))
            for index in work.barriers.tolist():
                cta, name, stage = self.barrier(index)
                phase = int(self.machine.barriers.phase[index])
                arrival = Arrival(phase, 1, 0, "tensor", source, self.tick())
                self.use(index).arrivals.append(arrival)
                if name in FREED_BY:
                    self.places.end(cta, f"{FREED_BY[name]}[{stage}]", self.time)

    # -- lives that warps end ------------------------------------------------------------------

    def leave_s(self, scores: Holding) -> None:
        """P overwrites S: whoever wrote has read."""
        if scores.death < 0 and len(scores.users) == 4:
            self.places.end(scores.cta, scores.slot, self.time)

    def arrived(self, warp: Warp, slot: int) -> None:
        """A correction warp that arrives gives up the O that it has finished."""
        for place in self.finished.pop(slot, ()):
            readers = self._finishing.setdefault((warp.cta, place), set())
            readers.add(slot)
            if len(readers) == 4:
                self.places.end(warp.cta, place, self.time)
                readers.clear()


def flops(operation: Any) -> int:
    """Floating-point operations of one MMA, in all the CTAs that it runs in."""
    return int(2 * operation.shape.m * operation.shape.n * operation.k)


def _words(held: Holding | None) -> str:
    return "no known tile" if held is None else f"{held.tensor} {held.label} in {held.slot}"
