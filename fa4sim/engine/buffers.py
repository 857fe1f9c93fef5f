"""What is in which slot: tags that catch a barrier that does not do its work.

Every buffer that roles share carries a tag, the tile and step whose data it holds. A reader says
what it expects to find, a writer that nobody needs the old contents any more. If the barriers are
right nothing is ever said; if one is broken, the buffer that it guards says so at once, whatever
the timing.

Invariant: a tag changes only when a tile has arrived whole, or has been given up.
"""

from __future__ import annotations

from fa4sim.engine.core import Core
from fa4sim.engine.errors import Hazard
from fa4sim.trace import NONE

#: Tags pack (tile, step) into one integer, so that a skipped steady stretch shifts them by adding.
TILE_STRIDE = 1 << 24
EMPTY = -1


def tag(tile: int, step: int) -> int:
    """The tag of one step of one tile."""
    return tile * TILE_STRIDE + step


class Buffer:
    """A slot that one producer fills and one consumer empties: sQ, a ring slot, sO.

    ``full`` and ``empty`` name the barriers that guard it. Times are engine times.
    """

    def __init__(
        self, core: Core, name: str, slot: str, sm: int, cta: int, stage: int, full: str, empty: str
    ) -> None:
        self.core = core
        self.name = name
        self.slot = slot
        self.sm = sm
        self.cta = cta
        self.stage = stage
        self.full = full
        self.empty = empty
        self.holds = EMPTY
        self.tensor = ""
        self.filling = False
        self.parts = 0
        self.claimed = False
        self.readers = 0
        self.given_up = 0
        self.tile_id = NONE
        self.block = NONE
        self.wrap = 0
        self.birth = 0
        self.first_use = NONE
        self.last_use = NONE
        self._space = core.trace.code("smem")
        self._slot_code = core.trace.code(slot)

    def begin_fill(
        self, by: str, tensor: str, what: int, tile_id: int, block: int, parts: int = 1
    ) -> None:
        """A producer starts to write ``what`` in ``parts``; the slot must have been given up."""
        if self.claimed:
            held = f"{self.tensor} of tile {self.tile_id}, block {self.block}"
            state = "still being read" if self.readers else "not yet released"
            self._say(
                "overwrite_while_read", self.empty, by, "tensor", tile_id, block,
                f"{by} writes {tensor} (tile {tile_id}, block {block}) into {self.slot}, where "
                f"{held} is {state}",
            )  # fmt: skip
        self.tensor = tensor
        self.claimed = True
        self.filling = True
        self.parts = parts
        self.holds = what
        self.tile_id = tile_id
        self.block = block
        self.birth = self.core.env.cycle
        self.first_use = self.last_use = NONE

    def end_fill(self) -> None:
        """One part has arrived; with the last one the slot is full."""
        self.parts -= 1
        self.filling = self.parts > 0

    def check(self, by: str, tensor: str, what: int, tile_id: int, block: int) -> None:
        """A reader is about to use ``what``; it must be there, and whole."""
        if self.holds == what and self.tensor == tensor and self.claimed and not self.filling:
            return
        if self.holds == what and self.filling:
            text = f"{tensor} of tile {tile_id}, block {block} is still on its way"
        elif not self.claimed:
            text = f"it holds nothing; {tensor} of tile {tile_id}, block {block} is meant"
        else:
            text = (
                f"it holds {self.tensor} of tile {self.tile_id}, block {self.block}, not "
                f"{tensor} of tile {tile_id}, block {block}"
            )
        self._say(
            "read_before_full", self.full, by, "tma", tile_id, block,
            f"{by} reads {self.slot}: {text}",
        )  # fmt: skip

    def begin_use(self) -> None:
        """A reader starts; the first one is noted."""
        self.readers += 1
        now = self.core.env.cycle
        if self.first_use == NONE:
            self.first_use = now

    def end_use(self) -> None:
        """A reader is done."""
        self.readers -= 1
        self.last_use = self.core.env.cycle

    def release(self) -> None:
        """The consumer gives the slot up; its life is recorded."""
        if not self.claimed:
            return
        self.claimed = False
        core = self.core
        skipped = core.skipped
        now = core.env.cycle
        core.trace.append["life"](
            (self.sm, self.cta, core.trace.code(self.tensor), self.tile_id, self.block,
             self.stage, self._space, self._slot_code, self.birth + skipped,
             NONE if self.first_use == NONE else self.first_use + skipped,
             NONE if self.last_use == NONE else self.last_use + skipped, now + skipped)
        )  # fmt: skip

    def give_up(self, of: int) -> bool:
        """One of ``of`` readers needs it no more; the last one releases it and hears True."""
        self.given_up += 1
        if self.given_up < of:
            return False
        self.given_up = 0
        self.release()
        return True

    def move(self, stage: int) -> None:
        """Stand for another slot of the same ring."""
        self.stage = stage
        self.slot = f"{self.slot.split('[')[0]}[{stage}]"
        self._slot_code = self.core.trace.code(self.slot)

    def shift(self, tiles: int, steps: int, ids: int) -> None:
        """Hold the same thing later; ``ids`` is what the tile's number grows by."""
        if self.holds != EMPTY:
            self.holds += tag(tiles, steps)
            self.tile_id += ids
            if self.block != NONE:
                self.block -= steps

    def _say(
        self, kind: str, barrier: str, by: str, other: str, tile: int, block: int, text: str
    ) -> None:
        self.core.report(
            Hazard(kind, barrier, self.stage, self.cta, by, other, tile, block, self.core.now, text)
        )

    def state(self, base: int, now: int | None = None) -> tuple[object, ...]:
        """What matters for comparing two moments: tags from ``base``, ages at ``now`` if given."""
        relative = self.holds - base if self.holds != EMPTY else EMPTY
        ages: tuple[object, ...] = ()
        if now is not None and self.claimed:
            ages = (now - self.birth, now - self.first_use if self.first_use >= 0 else NONE)
        return (
            relative, self.tensor, self.filling, self.claimed, self.readers, self.given_up, ages,
        )  # fmt: skip


class Shards:
    """A TMEM region that four warps fill or empty, 32 lanes each: S, P, O, statistics.

    ``done[w]`` is the tag of the last step that warp ``w`` finished with it.
    """

    __slots__ = ("done",)

    def __init__(self) -> None:
        self.done = [EMPTY] * 4

    def mark(self, warp: int, what: int) -> None:
        """Warp ``warp`` has finished ``what``."""
        self.done[warp] = what

    def all_at(self, what: int) -> bool:
        """Whether all four warps have finished ``what``."""
        done = self.done
        return done[0] == what and done[1] == what and done[2] == what and done[3] == what

    def behind(self, what: int) -> list[int]:
        """The warps that have not finished ``what``."""
        return [warp for warp in range(4) if self.done[warp] != what]

    def shift(self, by: int) -> None:
        """Hold the same things ``by`` tags later."""
        self.done = [EMPTY if value == EMPTY else value + by for value in self.done]

    def state(self, base: int) -> tuple[int, ...]:
        """The tags counted from ``base``."""
        return tuple(EMPTY if value == EMPTY else value - base for value in self.done)
