"""Options: what is fixed about an attention call before it sees any values."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fa4sim.numerics.exp2 import COEFFICIENTS, emulated_columns
from fa4sim.numerics.formats import FP8_DTYPES, LARGEST, BoolArray
from fa4sim.numerics.masks import Window
from fa4sim.numerics.mma import k_step_of
from fa4sim.numerics.scales import is_number, is_whole
from fa4sim.numerics.splits import check_split

WARP_ROWS = 32

#: Rise of the row maximum that is tolerated, and power of two that P is scaled by: the kernel's
#: choice for 16-bit and for 8-bit inputs (flash_attn/cute/flash_fwd_sm100.py, ``softmax_loop``).
THRESHOLD, THRESHOLD_FP8 = 8.0, 0.0
MAX_OFFSET, MAX_OFFSET_FP8 = 0, 8

#: Base-2 logarithm of the largest number of each format that P can have.
LOG2_MAX = {name: math.log2(LARGEST[name]) for name in ("bf16", "fp16", *FP8_DTYPES)}


_FLAGS = ("causal", "pack_gqa", "rescale_per_warp", "allow_saturation")
_WHOLE = (
    "tile_m", "tile_n", "q_stage", "emulation_freq", "emulation_res", "emulation_start",
    "emulation_degree", "num_splits",
)  # fmt: skip
#: Options that may be None: the kernel's choice.
_NONE = ("threshold", "max_offset", "emulation_freq")


@dataclass(frozen=True)
class Options:
    """Options of :func:`~fa4sim.numerics.attention_blockwise`, which describes them.

    ``None`` for ``threshold``, ``max_offset`` and ``emulation_freq`` means the kernel's choice:
    :attr:`tolerated`, :attr:`offset` and :meth:`emulation_period` say what is used.

    Raises:
        ValueError: a value is out of range, or P could outgrow ``dtype``.
    """

    causal: bool = False
    window: Window | None = None
    softmax_scale: float | None = None
    softcap: float = 0.0
    dtype: str = "bf16"
    tile_m: int = 128
    tile_n: int = 128
    q_stage: int = 2
    threshold: float | None = None
    max_offset: float | None = None
    emulation_freq: int | None = None
    emulation_res: int = 4
    emulation_start: int = 1
    emulation_degree: int = 3
    pack_gqa: bool = False
    split_pv: float = 0.75
    rescale_per_warp: bool = True
    num_splits: int = 1
    allow_saturation: bool = False

    def __post_init__(self) -> None:
        self._check_kinds()
        k_step = k_step_of(self.dtype)
        if self.tile_m < 32 or self.tile_m % 32:
            raise ValueError(
                f"tile_m={self.tile_m} must be a positive multiple of 32 (the kernel: 128)"
            )
        part = k_step if self.emulation_freq == 0 else 32
        if self.tile_n < part or self.tile_n % part:
            raise ValueError(
                f"tile_n={self.tile_n} must be a positive multiple of {part} (the kernel: 128)"
            )
        if self.q_stage < 1:
            raise ValueError(f"q_stage={self.q_stage} must be at least 1 (the kernel: 1 or 2)")
        self._check_range()
        if self.emulation_degree not in COEFFICIENTS:
            raise ValueError(f"emulation_degree={self.emulation_degree} must be one of 1 to 5")
        if not 0 <= self.split_pv <= 1:
            raise ValueError(
                f"split_pv={self.split_pv} must be a share between 0 and 1 (the kernel: 0.75)"
            )
        check_split(0, self.num_splits)

    def _check_kinds(self) -> None:
        """Refuse what is no number where there should be one, no truth value, and the like."""
        for name in _FLAGS:
            if not isinstance(getattr(self, name), bool | np.bool_):
                raise ValueError(f"{name}={getattr(self, name)!r} must be True or False")
        for name in _WHOLE:
            self._check_kind(name, is_whole, "a whole number")
        for name in ("threshold", "max_offset", "split_pv"):
            self._check_kind(name, is_number, "a number")

    def _check_kind(self, name: str, is_kind: Callable[[object], bool], word: str) -> None:
        value = getattr(self, name)
        if not (is_kind(value) or (value is None and name in _NONE)):
            raise ValueError(f"{name}={value!r} must be {word}")

    def _check_range(self) -> None:
        """Refuse a threshold and an offset that let P outgrow its format."""
        most = LOG2_MAX[self.dtype]
        if not 0 <= self.tolerated < 127:
            raise ValueError(
                f"threshold={self.tolerated} must be 0 (always rescale) or more, and below 127; "
                "the kernel uses 8, for 8-bit inputs 0"
            )
        if not 0 <= self.offset < 127 or self.offset != int(self.offset):
            raise ValueError(
                f"max_offset={self.offset} must be a whole number from 0 to 126; the kernel uses "
                "0, for 8-bit inputs 8"
            )
        exponent = self.tolerated + self.offset
        if exponent < most or self.allow_saturation:
            return
        kernels = f"{THRESHOLD_FP8:g} and {MAX_OFFSET_FP8}" if self.is_fp8 else "8 and 0"
        raise ValueError(
            f"threshold={self.tolerated} and max_offset={self.offset:g} let P grow to "
            f"2^{exponent:g}, and {self.dtype} ends at {LARGEST[self.dtype]:g}, below "
            f"2^{most:.3f}; larger weights would saturate and shrink the output. Make their sum "
            f"smaller (the kernel: {kernels}), or see it happen with allow_saturation=True"
        )

    @property
    def is_fp8(self) -> bool:
        """Whether the inputs have 8 bits."""
        return self.dtype in FP8_DTYPES

    @property
    def tolerated(self) -> float:
        """Rise of the row maximum without a rescale, in powers of two."""
        default = THRESHOLD_FP8 if self.is_fp8 else THRESHOLD
        return default if self.threshold is None else float(self.threshold)

    @property
    def offset(self) -> float:
        """P is 2**offset times as large as the weights it stands for."""
        default = MAX_OFFSET_FP8 if self.is_fp8 else MAX_OFFSET
        return float(default if self.max_offset is None else self.max_offset)

    @property
    def out_dtype(self) -> str:
        """Format of the output of a tile: float32 if splits have yet to be combined."""
        if self.num_splits > 1:
            return "fp32"
        return self.final_dtype

    @property
    def final_dtype(self) -> str:
        """Format of the output of the call."""
        return "bf16" if self.is_fp8 else self.dtype

    @property
    def k_step(self) -> int:
        """Elements that an MMA instruction sums over."""
        return k_step_of(self.dtype)

    @property
    def pv_steps(self) -> tuple[range, range]:
        """K-steps of P V that run before the last part of P exists, and after."""
        first = int(self.split_pv * self.tile_n / 32) * 32 // self.k_step
        return range(first), range(first, self.tile_n // self.k_step)

    @property
    def vote_rows(self) -> int:
        """Rows that decide together on a rescale."""
        return WARP_ROWS if self.rescale_per_warp else self.tile_m

    def emulation_period(self, head_dim: int) -> int:
        """Period of the columns that use the polynomial, for a head dim."""
        if self.emulation_freq is not None:
            return self.emulation_freq
        return 8 if self.is_fp8 and self.causal and 112 < head_dim <= 128 else 16

    def emulated(self, head_dim: int) -> BoolArray:
        """Columns (tile_n,) that use the polynomial, for a head dim."""
        freq = self.emulation_period(head_dim)
        return emulated_columns(self.tile_n, freq, self.emulation_res, self.emulation_start)
