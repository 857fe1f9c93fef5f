"""Softmax steps to compare: configurations, rows of scores, and how a step is launched."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from fa4kernel.compiling import ARCHITECTURE, compile_module
from fa4kernel.emulator import Launch
from fa4kernel.forward.config import TILE, Config
from tests.emulator.device import bits

HOPPER = "sm_90a"
CTAS, ROWS, OUTPUTS = 64, 128, 3
MODULE = "tests.forward.device.step"


@dataclass(frozen=True)
class Step:
    """A configuration whose step is run.

    Attributes:
        name: for reports.
        cfg: of the kernel.
        first: whether it is a tile's first block.
        head_dim: which scale the scores have.
    """

    name: str
    cfg: Config
    first: bool = False
    head_dim: int = 128

    def ptx(self, packed: bool) -> str:
        """The kernel for Blackwell, or, not packed, for Hopper."""
        architecture = ARCHITECTURE if packed else HOPPER
        return compile_module(
            MODULE, architecture=architecture, packed=packed, first=self.first, **asdict(self.cfg)
        )

    def launch(self) -> tuple[Launch, list[NDArray[np.generic]]]:
        """A launch, and its outputs: 2^x and their sum as bits, P as bits."""
        seed = sum(self.name.encode())
        scores, states = drawn(seed, self.first)
        outputs = [
            np.zeros((CTAS * ROWS, TILE), np.uint32),
            np.zeros((CTAS * ROWS, TILE), np.uint16),
            np.zeros((CTAS * ROWS, OUTPUTS), np.uint32),
        ]
        scale = np.float32(self.head_dim**-0.5 * math.log2(math.e))
        arguments = [scores, states, scale, *outputs]
        return Launch((CTAS, 1, 1), (ROWS, 1, 1), arguments=arguments), outputs


def drawn(seed: int, first: bool) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Scores (rows, 128), and (maximum, sum) so far (rows, 2); the same on every machine.

    From row to row the scores are spread wider, until 2^x is denormal and then 0. Some are
    -infinity, as masks make them; in some rows all are. The maximum so far is near the new one,
    far below it or above it, or -infinity.
    """
    rows = CTAS * ROWS
    raw = bits.scrambled(rows * (TILE + 4), seed).reshape(rows, TILE + 4)
    even = (raw >> np.uint64(40)).astype(np.float64) / 2**24  # in [0, 1)
    spread = 2.0 ** (np.arange(rows) % 16 - 3)[:, None]
    scores = ((even[:, :TILE] - 0.5) * 16 * spread).astype(np.float32)
    cut = (even[:, TILE] * 2 * TILE).astype(int)[:, None]  # half of the rows lose their right end
    scores[np.arange(TILE) >= cut] = -np.inf
    top = scores.max(axis=1) + ((even[:, TILE + 1] - 0.7) * 4 * spread[:, 0] * 16)
    top[even[:, TILE + 2] < 0.1] = -np.inf
    total = 1 + 100 * even[:, TILE + 3]
    states = np.stack([top, np.where(np.isinf(top), 0, total)], axis=1).astype(np.float32)
    if first:
        states[:] = -np.inf, 0
    return scores, np.ascontiguousarray(states)


STEPS = (
    Step("bf16", Config()),
    Step("bf16, first block", Config(), first=True),
    Step("fp16", Config(dtype="fp16"), head_dim=64),
    Step("pair", Config(cta_group=2, kv_stages=6, exp2_period=10)),
    Step("causal 192", Config(exp2_period=32), head_dim=192),
    Step("all on MUFU", Config(exp2_period=0)),
    Step("all on FMA", Config(exp2_period=2, exp2_emulated=2, exp2_first_fragment=0)),
    Step("degree 2", Config(exp2_degree=2)),
    Step("degree 5, always rescaled", Config(exp2_degree=5, rescale_threshold=0.0)),
)
