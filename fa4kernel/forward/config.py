"""What is fixed when the kernel is compiled: types, tile sizes, masks, warps, registers.

A :class:`Config` is the part of a simulated :class:`~fa4sim.specs.Design` and
:class:`~fa4sim.specs.Problem` that the compiler must know, under the same names. Lengths, numbers
of heads and sequences, strides and the scale of the scores are arguments of the launch.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields

from fa4kernel.forward.config_checks import SCHEDULERS as SCHEDULERS
from fa4kernel.forward.config_checks import check
from fa4sim.specs import FP8, Design, Problem

TILE = 128  # rows of a Q tile and keys of a K/V block: lanes of tensor memory
FRAGMENT = 32  # columns of S that a softmax thread handles at a time
WARP, WARPGROUP = 32, 128

# Warps by role. The two softmax warpgroups come first: a warp reaches only the lanes of tensor
# memory that belong to its number modulo 4. More warps load if threads copy (`Config.load_warps`).
CORRECTION_WARPS = range(8, 12)
MMA_WARP, EPILOGUE_WARP, LOAD_WARP = 12, 13, 14
WARPS = 16

# Barriers and the like, rounded up so that what follows begins at a multiple of 1,024; statistics.
SMALL_BYTES = 1024 + 2 * 2 * TILE * 4


@dataclass(frozen=True)
class Config:
    """One kernel to compile.

    Fields named as in :class:`~fa4sim.specs.Design` mean the same. ``head_dim`` and
    ``head_dim_v`` are multiples of 16, of FP8 of 32: the 32 bytes of an MMA (TMA fills what a
    tensor lacks with zeros). ``group`` query heads share a K/V head; ``pack_gqa`` puts them into
    one tile. ``window_left`` and ``window_right`` say that a window bounds that side; causal is
    ``window_right`` with no key to the right. With ``varlen_q`` or ``varlen_k`` sequences lie end
    to end in one array. With ``seqused_k`` their keys are fewer than there is room for; if
    ``paged``, a table tells in which pages they lie. With ``descale`` each sequence and K/V head
    has factors for FP8 values. With ``split`` the keys of a tile are shared out among CTAs, which
    leave partial results in float32 for the combine kernel (`fa4kernel.combine`).

    Raises:
        ValueError: the kernel has no such form.
    """

    dtype: str = "bf16"
    head_dim: int = 128
    head_dim_v: int = 128
    group: int = 1
    pack_gqa: bool = False
    causal: bool = False
    window_left: bool = False
    window_right: bool = False
    varlen_q: bool = False
    varlen_k: bool = False
    seqused_k: bool = False
    paged: bool = False
    lse: bool = True
    sink: bool = False
    descale: bool = False
    split: bool = False
    q_stages: int = 2
    cta_group: int = 1
    kv_stages: int = 3
    uneven_kv_ring: bool = False
    overlap_o_q: bool = False
    q_load: str = "tma"
    kv_load: str = "tma"
    epilogue: str = "tma"
    scheduler: str = "static_persistent"
    registers_softmax: int = 192
    registers_correction: int = 80
    registers_other: int = 48
    exp2_period: int = 16
    exp2_emulated: int = 4
    exp2_first_fragment: int = 1
    exp2_degree: int = 3
    rescale_threshold: float = 8.0
    p_first_columns: int = 96
    max_offset: int = 0

    def __post_init__(self) -> None:
        check(self, TILE)

    @classmethod
    def of(
        cls, problem: Problem, design: Design, *, lse: bool = True, descale: bool = False
    ) -> Config:
        """The kernel that runs ``problem`` in the way of ``design``.

        Args:
            problem, design: what, and how.
            lse: whether it writes LSE.
            descale: whether Q, K and V of FP8 have factors.

        Raises:
            ValueError: the kernel does not do what they ask for.
        """
        if problem.softcap:
            raise ValueError(f"softcap={problem.softcap}: the forward kernel has none; use 0")
        if design.tile_n != TILE:
            raise ValueError(
                f"tile_n={design.tile_n}: the forward kernel has blocks of {TILE} keys; use {TILE}"
            )
        left, right = problem.window or (None, None)
        end_to_end = problem.seqlens_q is not None and problem.page_size is None
        own = {field.name for field in fields(cls)}
        shared = {name: value for name, value in asdict(design).items() if name in own}
        return cls(
            **shared
            | {
                "dtype": problem.dtype,
                "head_dim": design.head_dim_padded,
                "head_dim_v": design.head_dim_v_padded,
                "group": problem.group,
                "causal": problem.causal,
                "window_left": left is not None,
                "window_right": problem.causal or right is not None,
                "varlen_q": problem.seqlens_q is not None,
                "varlen_k": end_to_end and problem.seqlens_k is not None,
                "seqused_k": problem.seqlens_k is not None and not end_to_end,
                "paged": problem.page_size is not None,
                "lse": lse,
                "sink": bool(problem.sink),
                "descale": descale,
                "split": design.num_splits > 1,
            }
        )

    # -- derived -------------------------------------------------------------------------------

    @property
    def is_fp8(self) -> bool:
        """Whether Q, K, V and P have 8 bits; O then is bf16."""
        return self.dtype in FP8

    @property
    def element_bytes(self) -> int:
        """Bytes of an element of Q, K, V and P."""
        return 1 if self.is_fp8 else 2

    @property
    def out_dtype(self) -> str:
        """The type of O as this kernel writes it."""
        if self.split:
            return "fp32"
        return "bf16" if self.is_fp8 else self.dtype

    @property
    def out_bytes(self) -> int:
        """Bytes of an element of O."""
        return 4 if self.split else 2

    @property
    def k_step(self) -> int:
        """Columns of A and rows of B that one MMA takes: 32 bytes."""
        return 32 // self.element_bytes

    @property
    def pair(self) -> bool:
        """Whether two CTAs share their MMAs."""
        return self.cta_group == 2

    @property
    def masked(self) -> bool:
        """Whether a mask depends on the row."""
        return self.window_left or self.window_right

    @property
    def ratio(self) -> int:
        """Query heads whose rows lie side by side in a tile."""
        return self.group if self.pack_gqa else 1

    @property
    def load_warps(self) -> range:
        """Warps that load: one tells TMA; where threads copy and softmax1 is absent, its four."""
        if self.q_stages == 1 and "cp_async" in (self.q_load, self.kv_load):
            return range(4, 8)
        return range(LOAD_WARP, LOAD_WARP + (2 if self.kv_load == "cp_async" else 1))

    @property
    def tile_rows(self) -> int:
        """Rows of a work tile, both CTAs of a pair together."""
        return TILE * self.q_stages * self.cta_group

    @property
    def tile_n(self) -> int:
        """Keys of a block."""
        return TILE

    @property
    def k_rows(self) -> int:
        """Keys of a K tile that one CTA loads: of a pair, each loads half."""
        return TILE // self.cta_group

    @property
    def v_columns(self) -> int:
        """Columns of a V tile that one CTA loads: of a pair, each loads half."""
        return self.head_dim_v // self.cta_group

    @property
    def q_bytes(self) -> int:
        """Bytes of a Q tile."""
        return self.element_bytes * TILE * self.head_dim

    @property
    def k_bytes(self) -> int:
        """Bytes of a CTA's part of a K tile."""
        return self.element_bytes * self.k_rows * self.head_dim

    @property
    def v_bytes(self) -> int:
        """Bytes of a CTA's part of a V tile."""
        return self.element_bytes * TILE * self.v_columns

    @property
    def o_bytes(self) -> int:
        """Bytes of an O tile."""
        return self.out_bytes * TILE * self.head_dim_v

    @property
    def ring_bytes(self) -> int:
        """Bytes of the K/V ring; an uneven one holds two K and one V, or one K and two V."""
        if self.uneven_kv_ring:
            return 2 * self.k_bytes + self.v_bytes
        return self.kv_stages * max(self.k_bytes, self.v_bytes)

    @property
    def shared_bytes(self) -> int:
        """Dynamic shared memory of a CTA.

        >>> Config().shared_bytes
        232448
        """
        q, o = self.q_stages * self.q_bytes, self.q_stages * self.o_bytes
        large = (max(q, o) if self.overlap_o_q else q + o) + self.ring_bytes
        return large + SMALL_BYTES

    @property
    def load_epi(self) -> bool:
        """Whether the next tile's Q must wait until O has left the memory that they share."""
        return self.overlap_o_q and self.scheduler == "static_persistent"

    @property
    def softmax_threads(self) -> int:
        """Threads of all softmax warpgroups."""
        return WARPGROUP * self.q_stages

    def emulated(self, fragment: int, column: int) -> bool:
        """Whether a column of a fragment takes its exponential from the FMA units."""
        last = TILE // FRAGMENT - 1
        if not self.exp2_period or not self.exp2_first_fragment <= fragment < last:
            return False
        return column // 2 * 2 % self.exp2_period >= self.exp2_period - self.exp2_emulated


def swizzle_bytes(columns: int, element_bytes: int = 2) -> int:
    """Width of the slabs in which a tile of so many columns lies in shared memory.

    TMA and the tensor core agree on a pattern that spreads 8 rows of 128, 64 or 32 bytes over all
    banks; the widest that divides a row is used.

    >>> swizzle_bytes(128), swizzle_bytes(96), swizzle_bytes(80)
    (128, 64, 32)
    """
    return next(width for width in (128, 64, 32) if element_bytes * columns % width == 0)
