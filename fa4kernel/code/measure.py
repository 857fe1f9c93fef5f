"""What one more block of keys makes each warp of a kernel execute, and one more tile.

A kernel is run on problems that differ in one length alone, and the counts are subtracted: what
remains is exactly the steady state, wherever the compiler has put it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fa4kernel.code.counting import Execution, Work, execute
from fa4kernel.code.kernels import Kernel
from fa4kernel.code.loops import Loop, around, loops_of
from fa4kernel.code.roles import name_of
from fa4kernel.code.shapes import Shape, arrays
from fa4kernel.code.units import UNITS, unit_of
from fa4kernel.emulator.emulate import decode
from fa4kernel.emulator.machine.program import Program
from fa4kernel.emulator.ptx.module import Function, Immediate
from fa4sim.specs import B200

#: Blocks of keys of the shortest run: more than any ring of K and V has slots.
FEW = 8
#: Blocks more in the long run: a multiple of 2, 3, 4 and 6, so that unrolled loops come out whole.
MORE = 12
TILES = 2
#: Tiles more in the run with more tiles.
MORE_TILES = 2
#: Of an SM; warp w is on number w mod 4.
SUB_PARTITIONS = 4

Counts = NDArray[np.float64]
Mix = dict[str, float]


@dataclass(frozen=True)
class Role:
    """Warps that do the same.

    Attributes:
        name: what they do.
        warps: their numbers in the CTA.
        registers: of a thread, by the last ``setmaxnreg`` it executes; None without one.
        step: instructions of one warp for one block of keys, by unit.
        rescaled: the same where every block makes O be rescaled.
        tile: instructions of one warp for one tile, beside those of its blocks.
        loop: the smallest loop in the text that holds all instructions of a step (of a tile, for a
            role that does nothing for a block).
        even: whether all its warps execute as many of each unit in a step.
        exact: whether one block more makes as large a difference as each of ``MORE``.
    """

    name: str
    warps: tuple[int, ...]
    registers: int | None
    step: Mix
    rescaled: Mix
    tile: Mix
    loop: Loop | None
    even: bool
    exact: bool


@dataclass(frozen=True)
class Measurement:
    """What a kernel executes on a shape.

    Attributes:
        shape: the problem, but for its lengths.
        kernel: what was measured.
        shared_bytes: shared memory of a CTA, dynamic.
        instructions: in the text.
        roles: in the order of their warps.
        step: work of the units for one block of keys and one tile, by all CTAs.
        tile: the same for one tile, or one share of its keys, beside that of its blocks.
        persistent: whether a CTA works on several tiles; if not, ``tile`` is a CTA's whole life
            with ``FEW`` blocks, less as many steps.
    """

    shape: Shape
    kernel: Kernel
    shared_bytes: int
    instructions: int
    roles: tuple[Role, ...]
    step: dict[str, float]
    tile: dict[str, float]
    persistent: bool

    def role(self, name: str) -> Role | None:
        """The role of that name, if there is one."""
        return next((role for role in self.roles if role.name == name), None)


def slots(mix: Mapping[str, float]) -> float:
    """Issue slots of instructions by unit."""
    return sum(UNITS[unit].slots * count for unit, count in mix.items())


def busiest(measured: Measurement) -> float:
    """Issue slots that a step takes in the busiest of the four sub-partitions."""
    found = [0.0] * SUB_PARTITIONS
    for role in measured.roles:
        for warp in role.warps:
            found[warp % SUB_PARTITIONS] += slots(role.step)
    return max(found)


def pipes(mix: Mapping[str, float]) -> dict[str, float]:
    """Cycles for which a warp's instructions occupy the pipes of its sub-partition (B200)."""
    found: Counter[str] = Counter()
    for name, count in mix.items():
        unit = UNITS[name]
        if unit.pipe:
            found[unit.pipe] += count * getattr(B200, unit.constant)
    return dict(found)


@dataclass
class _Runs:
    """Runs of one kernel on problems of one shape."""

    kernel: Kernel
    shape: Shape
    program: Program | None = None
    ctas: dict[int, int] = field(default_factory=dict)

    def __call__(self, blocks: int, tiles: int = TILES, rising: bool = False) -> Execution:
        launch = self.kernel.launch(arrays(self.shape, tiles, blocks, rising))
        if self.program is None:
            self.program = decode(self.kernel.ptx, launch)
        self.ctas[tiles] = launch.ctas
        return execute(self.program, launch)

    def tiles_of_a_cta(self, tiles: int) -> int:
        """How many of the tiles of such a run the first CTA (or pair) works on, or on its share."""
        return tiles * self.shape.ctas * self.shape.splits // self.ctas[tiles]


def measure(kernel: Kernel, shape: Shape) -> Measurement:
    """Run a kernel on a few small problems of a shape, and compare what it executed.

    Raises:
        EmulationError: as by any run.
    """
    runs = _Runs(kernel, shape)
    few, next_, many = runs(FEW), runs(FEW + 1), runs(FEW + MORE)
    rising = [runs(blocks, rising=True) for blocks in (FEW, FEW + MORE)]
    mine = runs.tiles_of_a_cta(TILES)
    step = (many.counts - few.counts) / (MORE * mine)
    rescaled = (rising[1].counts - rising[0].counts) / (MORE * mine)
    step_work = _work(many.work, few.work, MORE * TILES * shape.splits)
    more = runs(FEW, TILES + MORE_TILES)
    persistent = runs.tiles_of_a_cta(TILES + MORE_TILES) > mine
    tile = (more.counts - few.counts) / MORE_TILES if persistent else few.counts.astype(float)
    tile = tile - FEW * step
    tile_work = _work(more.work, few.work, MORE_TILES * shape.splits)
    if not shape.causal:
        tile_work = {name: n - FEW * step_work[name] for name, n in tile_work.items()}
    function = _decoded(runs).context.function
    return Measurement(
        shape,
        kernel,
        kernel.launch(arrays(shape, TILES, FEW, False)).shared_bytes,
        len(function.instructions),
        _roles(function, few, step, rescaled, tile, (next_.counts - few.counts) / mine),
        step_work,
        tile_work,
        persistent,
    )


def _decoded(runs: _Runs) -> Program:
    assert runs.program is not None
    return runs.program


def _work(more: Work, less: Work, by: int) -> dict[str, float]:
    return {name: n / by for name, n in vars(more.minus(less)).items()}


def _roles(
    function: Function, run: Execution, step: Counts, rescaled: Counts, tile: Counts, one: Counts
) -> tuple[Role, ...]:
    """Warps by role; ``one`` is the difference that a single block makes."""
    units = np.array([unit_of(each) for each in function.instructions])
    warps: dict[str, list[int]] = {}
    for warp in range(step.shape[1]):
        name = name_of(function, step[:, warp], tile[:, warp])
        if name:
            warps.setdefault(name, []).append(warp)
    loops = loops_of(function)
    found = []
    for name, members in warps.items():
        mixes = [_mix(units, step[:, warp]) for warp in members]
        first = members[0]
        steady = step[:, first] if step[:, first].any() else tile[:, first]
        found.append(
            Role(
                name,
                tuple(members),
                _registers(function, run, first),
                mixes[0],
                _mix(units, rescaled[:, first]),
                _mix(units, tile[:, first]),
                around(loops, np.flatnonzero(steady).tolist()),
                all(mix == mixes[0] for mix in mixes),
                bool(np.array_equal(one[:, members], step[:, members])),
            )
        )
    return tuple(found)


def _mix(units: NDArray[np.str_], counts: Counts) -> Mix:
    """Counts of one warp by unit; those of none are left out."""
    return {
        name: total
        for name in UNITS
        if (total := float(counts[units == name].sum()))
    }  # fmt: skip


def _registers(function: Function, run: Execution, warp: int) -> int | None:
    """What the ``setmaxnreg`` that a warp executes asks for."""
    found = None
    for index in np.flatnonzero(run.counts[:, warp]).tolist():
        instruction = function.instructions[index]
        if instruction.opcode == "setmaxnreg" and isinstance(instruction.operands[0], Immediate):
            found = instruction.operands[0].value
    return found
