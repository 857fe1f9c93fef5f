"""Our kernel on a bench: run it in the emulator, find its lines in the PTX and change them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from fa4kernel.code.loops import around, loops_of
from fa4kernel.code.units import unit_of
from fa4kernel.emulator import Emulation, Launch, emulate, inspect
from fa4kernel.emulator.ptx.module import Instruction
from fa4kernel.emulator.ptx.printer import replace_instruction
from fa4kernel.emulator.tensor.formats import decode, encode
from fa4kernel.forward.barrier_table import table
from fa4kernel.forward.compile import compile_ptx
from fa4kernel.forward.config import Config
from fa4kernel.forward.design import design_for
from fa4kernel.forward.launch import Arrays, launch
from fa4kernel.traces import in_simulator_words
from fa4sim import B200, Fault, Problem, Run, simulate
from fa4sim.numerics import attention_float64, round_to
from fa4sim.numerics.formats import Float32Array

NOT_A_NUMBER = 0x7FFF  # in bf16: what is not written shows
MOST_STEPS = 200_000  # a kernel that spins for ever ends here
Window = tuple[int | None, int | None]


@dataclass(frozen=True)
class Tried:
    """What came of a run: the emulator's report, O as float32, and its relative error."""

    run: Emulation
    out: Float32Array
    error: float

    @property
    def kinds(self) -> list[str]:
        """The kinds of hazards, each once, in the order found."""
        return list(dict.fromkeys(hazard.kind for hazard in self.run.hazards))


class Workbench:
    """One problem of one head, bf16, seed 0; its kernel's PTX, whole or changed.

    Args:
        problem: batch 1, one head.
        design: fields of the design to change.
    """

    def __init__(self, problem: Problem, **design: Any) -> None:
        self.problem = problem
        self.design = design_for(problem, B200, **design)
        self.config = Config.of(problem, self.design)
        self.ptx = compile_ptx(self.config)
        rng = np.random.default_rng(0)
        self.q, self.k, self.v = (
            round_to(rng.standard_normal((1, rows, 1, 128)).astype(np.float32), "bf16")
            for rows in (problem.seqlen_q, problem.seqlen_k, problem.seqlen_k)
        )
        self.window: Window = (None, 0) if problem.causal else (None, None)
        self.exact = self.attention(self.window)

    def attention(self, window: Window = (None, None), scale: float | None = None) -> Any:
        """softmax(Q Kᵀ · scale) V in float64, each row seeing a window of keys."""
        sides = None if window == (None, None) else window
        return attention_float64(self.q, self.k, self.v, window=sides, softmax_scale=scale)[0]

    def nothing_yet(self) -> Any:
        """Memory for O, in which everything shows that is not written."""
        return np.full((1, self.problem.seqlen_q, 1, 128), NOT_A_NUMBER, np.uint16)

    def launch(
        self, out: Any = None, scale: float | None = None, window: Window | None = None
    ) -> Launch:
        """A launch that writes to ``out``; scale and mask are right unless they are given."""
        out = self.nothing_yet() if out is None else out
        arrays = Arrays(
            *(encode(each, "bf16") for each in (self.q, self.k, self.v)),
            out,
            np.full((1, 1, self.problem.seqlen_q), np.nan, np.float32),
        )
        return launch(
            self.config, arrays, softmax_scale=128**-0.5 if scale is None else scale,
            window=self.window if window is None else window,
        )  # fmt: skip

    def run(
        self, ptx: str | None = None, schedule: str | int = "lockstep", *, trace: bool = False,
        scale: float | None = None, window: Window | None = None,
    ) -> Tried:  # fmt: skip
        """Run the kernel, or a changed one, in some order of events."""
        out = self.nothing_yet()
        run = emulate(
            self.ptx if ptx is None else ptx, self.launch(out, scale, window), schedule=schedule,
            trace=trace, most_steps=MOST_STEPS,
        )  # fmt: skip
        values = decode(out, "bf16")
        return Tried(run, values, self.error_of(values))

    def error_of(self, out: Any) -> float:
        """How far an output is from the exact one: ‖out − exact‖ / ‖exact‖."""
        return float(np.linalg.norm(out - self.exact) / np.linalg.norm(self.exact))

    def simulate(self, *faults: Fault) -> Run:
        """The same problem and design in the simulator, with faults put in; all hazards kept."""
        design = replace(self.design, faults=faults)
        return simulate(self.problem, design, B200, scope="cta", on_hazard="record")

    def told(self, trace: Any) -> Any:
        """A trace in the simulator's words."""
        return in_simulator_words(trace, self.problem, self.design, B200)

    @cached_property
    def kernel(self) -> Any:
        """What the PTX tells about itself, in the names of the barrier table."""
        return inspect(self.ptx, self.launch().labels)[0]

    def statements(self, source: str, opcode: str = "mbarrier") -> list[Instruction]:
        """The PTX statements that the compiler made of the source lines with this text."""
        names = self.kernel.names
        return [
            each for each in self.kernel.function.instructions
            if each.opcode == opcode and source in names.source(each)
        ]  # fmt: skip

    def step_mix(self) -> dict[str, int]:
        """Instructions of a softmax warp for a block that no mask cuts, by unit, in the PTX."""
        function = self.kernel.function
        place = {id(each): i for i, each in enumerate(function.instructions)}
        # Such blocks come last in the text, and behind them only the end of a softmax warp.
        begin = self.statements("barriers.S_full.wait")[-1]
        end = self.statements("barriers.softmax_stats_empty.wait_previous")[-2]
        step = around(loops_of(function), [place[id(begin)], place[id(end)]])
        assert step is not None
        return dict(Counter(unit_of(function.instructions[i]) for i in sorted(step.body)))

    def broken(
        self, source: str, opcode: str = "mbarrier", *,
        by: Callable[[str], str] | None = None, only: slice = slice(None),
    ) -> str:  # fmt: skip
        """The PTX with those statements left out, or replaced: ``by`` makes the new from the old.

        Raises:
            ValueError: there are no such statements.
        """
        found = self.statements(source, opcode)[only]
        if not found:
            raise ValueError(f"the kernel has no {opcode} from a line with {source!r}")
        ptx = self.ptx
        for statement in found:
            ptx = replace_instruction(ptx, statement, by(statement.text) if by else None)
        return ptx

    def with_count(self, barrier: str, count: int) -> str:
        """The PTX in which this many arrivals complete a phase of a barrier, all its stages."""
        ptx = self.ptx
        for each in self.kernel.mbarriers:
            for site in each.sites if each.family == barrier else ():
                if site.way == "init":
                    head = site.instruction.text.rpartition(",")[0]
                    ptx = replace_instruction(ptx, site.instruction, f"{head}, {count};")
        if ptx == self.ptx and count != self.counts().get(barrier):
            raise ValueError(f"the kernel has no barrier {barrier!r}; it has {[*self.counts()]}")
        return ptx

    def table(self) -> dict[str, tuple[int, int]]:
        """Stages and arrivals by barrier, as the kernel's own table says."""
        return table(self.config)

    def counts(self) -> dict[str, int]:
        """Arrivals that complete a phase, by barrier."""
        return {each.family: each.count for each in self.kernel.mbarriers}


def arrives_at_once(commit: str) -> str:
    """Instead of a commit an arrival of the warp itself: now, not when the MMAs are complete."""
    return "mbarrier.arrive.shared::cta.b64 _, " + commit[commit.index("[") :]


def next_slot(copy: str) -> str:
    """A TMA copy into the K/V ring that goes one slot (128 × 128 bf16) further on."""
    return re.sub(r"\+(\d+)\]", lambda at: f"+{int(at[1]) + 2 * 128 * 128}]", copy, count=1)


def passes(wait: str) -> str:
    """A wait that does not: as if the phase were always complete."""
    return f"mov.pred {wait.split()[1]} 1;"
