"""The lives of tiles: what lay where in shared and tensor memory, from when to when.

Rows of the trace's ``life`` table, as the simulator writes them, with ticks for times:

===========  ====================================================================================
tensor       what lay there: the label of the kernel parameter that a copy comes from or goes to
             (``argument 3`` without labels); of an accumulator or a first factor in tensor memory
             the launch's labels, ``D`` or ``A``
block        the how-manieth of this tensor (and, in tensor memory, stage) in its CTA, from 0
tile         -1: the emulator doesn't know of tiles
space        ``smem`` or ``tmem``
slot, stage  ``sKV[2]``, 2: the slot whose barrier a copy signals, by the launch's labels or the
             barrier's name, ``sKV.K[2]`` if one barrier stands for several tensors; for a copy out,
             the tensor's name; ``columns 0-127`` in tensor memory, and which of those that hold
             the same tensor
birth        the issue of the first copy or MMA that fills it, or the first store of a thread to it
first_use    the first issue of an MMA or copy that reads it, or the first load by a warp; -1: none
last_use     the end of the last of these
death        when its place is given up: the phase of the ring's ``empty`` barrier, if labels name
             one, else when something else begins to fill it, or the CTA's last tick
===========  ====================================================================================

Copies count as one tile if they signal the same phase of a barrier or belong to one bulk group. An
accumulator lives until an MMA overwrites it without adding to it; stores of warps to its columns
(as in rescaling) change it. Stores to columns that MMAs take first factors from are a new tile once
these columns of the one before have been used. What threads copy by ``cp.async`` belongs to the
barrier on which they arrive for it (``cp.async.mbarrier.arrive``). Tiles that other copies of
threads, or their stores, bring into shared memory are found only if a bulk copy takes them out.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from fa4kernel.emulator.names import Names
from fa4kernel.emulator.tracing.life import Life, Span, close, overlap
from fa4kernel.emulator.tracing.memory import Filling
from fa4kernel.emulator.tracing.recorder import Recorder
from fa4kernel.emulator.tracing.tensor_lives import TensorLives

if TYPE_CHECKING:
    from fa4sim.trace import Trace


def add_lives(trace: Trace, recorder: Recorder, names: Names, end: int) -> None:
    """Write the ``life`` table of a run; see the module.

    Args:
        trace: where to.
        recorder: what it remembers.
        names: of barriers, with the launch's labels.
        end: the last tick.
    """
    shared = SharedLives(recorder, names)
    lives = [*shared.lives, *TensorLives(recorder, names.labels).lives]
    close(lives, end)
    counts: dict[tuple[int, str, int], int] = defaultdict(int)
    for life in sorted(lives, key=lambda each: (each.birth, each.cta, each.span)):
        key = life.cta, life.tensor, life.stage if life.space == "tmem" else -1
        trace.add(
            "life", sm=life.cta, cta=life.cta, tensor=life.tensor, tile=-1, block=counts[key],
            stage=life.stage, space=life.space, slot=life.slot, birth=life.birth,
            first_use=life.first_use, last_use=life.last_use, death=life.death,
        )  # fmt: skip
        counts[key] += 1


class SharedLives:
    """Tiles in shared memory, by the copies that bring or take them."""

    def __init__(self, recorder: Recorder, names: Names) -> None:
        self.recorder = recorder
        self.names = names
        self.lives: list[Life] = []
        self._phases = {
            (cta, *names.mbarrier_parts(offset), phase): tick
            for (cta, offset, phase), tick in recorder.phases.items()
        }
        self._filled()
        self._by_cta: dict[int, list[Life]] = defaultdict(list)
        for life in sorted(self.lives, key=lambda each: each.birth):
            self._by_cta[life.cta].append(life)
        for use in recorder.uses:
            for cta in use.ctas:
                for start in use.operands:
                    held = self._at(cta, (start, start), use.event.start)
                    if held is not None:
                        held.use(use.event.start, use.event.end)
        self._emptied()

    def _at(self, cta: int, span: Span, tick: int) -> Life | None:
        """What lies there at a tick."""
        found = [x for x in self._by_cta[cta] if x.birth <= tick and overlap(x.span, span)]
        alive = [x for x in found if x.death < 0 or x.death >= tick]
        return alive[-1] if alive else None

    def _filled(self) -> None:
        groups: dict[tuple[int, int, int, int], dict[int, list[Filling]]] = {}
        for each in self.recorder.fillings:
            key = each.cta, each.owner, each.barrier, each.phase
            groups.setdefault(key, {}).setdefault(each.tensor, []).append(each)
        several = {barrier for (*_, barrier, _), found in groups.items() if len(found) > 1}
        for (cta, owner, barrier, phase), tensors in groups.items():
            family, stage = self.names.mbarrier_parts(barrier)
            ring = self.names.labels.ring(family)
            death = self._given_up(ring.empty, stage, phase, (cta, owner))
            for number, parts in tensors.items():
                tensor = self.names.labels.tensor(number) if number >= 0 else "block"
                name = f"{ring.name}.{tensor}" if barrier in several else ring.name
                span = min(p.span[0] for p in parts), max(p.span[1] for p in parts)
                birth = min(part.start for part in parts)
                self.lives.append(
                    Life(cta, tensor, "smem", f"{name}[{stage}]", stage, span, birth, death=death)
                )

    def _given_up(self, family: str, stage: int, phase: int, ctas: tuple[int, ...]) -> int:
        """When the barrier that says a slot is empty completed a phase; -1 if it never did."""
        for cta in ctas:
            found = self._phases.get((cta, family, stage, phase)) if family else None
            if found is not None:
                return found
        return -1

    def _emptied(self) -> None:
        groups: dict[tuple[int, int, tuple[int, int]], list[int]] = defaultdict(list)
        for i, each in enumerate(self.recorder.emptyings):
            life = self._at(each.cta, each.span, each.event.start)
            if life is not None:
                life.use(each.event.start, each.event.end)  # what was loaded is stored
            else:
                groups[each.cta, each.tensor, each.group].append(i)
        starts: dict[tuple[int, int], set[int]] = defaultdict(set)
        made: list[tuple[int, Life]] = []
        for (cta, number, _), which in groups.items():
            parts = [self.recorder.emptyings[i] for i in which]
            span = min(p.span[0] for p in parts), max(p.span[1] for p in parts)
            tensor = self.names.labels.tensor(number) if number >= 0 else "block"
            start = min(part.event.start for part in parts)
            life = Life(cta, tensor, "smem", "", 0, span, start)
            life.use(start, max(part.event.end for part in parts))
            life.death = life.last_use
            starts[cta, number].add(span[0])
            made.append((number, life))
        freed: dict[tuple[int, Span], int] = {}
        for number, life in sorted(made, key=lambda pair: pair[1].birth):
            life.stage = sorted(starts[life.cta, number]).index(life.span[0])
            life.slot = f"s{life.tensor}[{life.stage}]"
            since = freed.get((life.cta, life.span), -1)
            life.birth = self._first_written(life, since)
            freed[life.cta, life.span] = life.death
            self.lives.append(life)

    def _first_written(self, life: Life, since: int) -> int:
        """The first store of a thread to a place, after the tile before was gone."""
        ticks = (
            tick for tick, cta, first, last in self.recorder.written
            if cta == life.cta and since <= tick < life.first_use
            and overlap(life.span, (first, last)) and life.span[0] <= first
        )  # fmt: skip
        return next(ticks, life.first_use)
