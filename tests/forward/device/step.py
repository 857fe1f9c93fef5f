"""The arithmetic of a softmax step as a small kernel: scores in, P, factor, maximum and sum out.

Nothing is written anew: the kernel calls what the softmax warps call, `forward.rows` and
`forward.exp2`, for one row a thread. On Blackwell that uses instructions for two float32 at once
and maxima of three numbers, which Hopper has not. `build(packed=False)` puts in their place one
instruction for each number, with the same rounding, so that an H200 can run the step.
"""

from __future__ import annotations

from typing import Any

import cutlass.cute as cute
from cutlass import AddressSpace, Constexpr, Float32, Int32
from cutlass.cute.runtime import make_fake_stream, make_ptr

from fa4kernel.forward import rows
from fa4kernel.forward.config import FRAGMENT, TILE, Config
from fa4kernel.forward.memory import element_type

ROWS = 128  # threads of a CTA, a row each
OUTPUTS = 3  # numbers of a row beside its P: factor, maximum, sum
USES = ("fa4kernel.forward", "fa4sim.numerics")


@cute.kernel
def step_kernel(
    scores: cute.Pointer,
    states: cute.Pointer,
    scale: Float32,
    exponentials: cute.Pointer,
    probabilities: cute.Pointer,
    numbers: cute.Pointer,
    cfg: Constexpr,
    first: Constexpr,
) -> None:
    """One step of one row a thread."""
    thread, _, _ = cute.arch.thread_idx()
    cta, _, _ = cute.arch.block_idx()
    row = cta * ROWS + thread
    fragments = [cute.make_rmem_tensor(FRAGMENT, Float32) for _ in range(TILE // FRAGMENT)]
    for number, fragment in enumerate(fragments):
        cute.autovec_copy(part(scores, row, number, FRAGMENT), fragment)
    state = cute.make_tensor(states + 2 * row, cute.make_layout(2))
    top, total = state[0], state[1]

    highest = rows.maximum(fragments, top)
    factor, new_top, shift = rows.rescaling(cfg, highest, top, scale, first)
    for number, fragment in enumerate(fragments):
        rows.exponentiate(cfg, fragment, number, scale, shift)
        rounded = cute.make_rmem_tensor(FRAGMENT, element_type(cfg))
        rounded.store(fragment.load().to(element_type(cfg)))
        cute.autovec_copy(fragment, part(exponentials, row, number, FRAGMENT))
        cute.autovec_copy(rounded, part(probabilities, row, number, FRAGMENT))
    out = cute.make_tensor(numbers + OUTPUTS * row, cute.make_layout(OUTPUTS))
    out[0], out[1] = factor, new_top
    out[2] = rows.row_sum(fragments, total * factor, first)


def part(memory: Any, row: Any, number: int, columns: int) -> Any:
    """A fragment of a row of 128 numbers."""
    place = memory + (row * TILE + number * columns)
    return cute.make_tensor(place.align(16), cute.make_layout(columns))


@cute.jit
def start(
    scores: cute.Pointer,
    states: cute.Pointer,
    scale: Float32,
    exponentials: cute.Pointer,
    probabilities: cute.Pointer,
    numbers: cute.Pointer,
    ctas: Int32,
    stream: Any,
    cfg: Constexpr,
    first: Constexpr,
) -> None:
    """Start it."""
    step_kernel(scores, states, scale, exponentials, probabilities, numbers, cfg, first).launch(
        grid=(ctas, 1, 1), block=(ROWS, 1, 1), stream=stream
    )


def build(packed: bool, first: bool, **config: Any) -> Any:
    """Compile; called by `fa4kernel.compiling`, in its own process."""
    if not packed:
        one_by_one()
    cfg = Config(**config)

    def pointer(dtype: Any = Float32) -> Any:
        return make_ptr(dtype, 16, AddressSpace.gmem, assumed_align=16)

    return cute.compile(
        start, pointer(), pointer(), Float32(1.0), pointer(), pointer(element_type(cfg)),
        pointer(), Int32(1), make_fake_stream(), cfg, first,
    )  # fmt: skip


def one_by_one() -> None:
    """Replace the instructions that Hopper lacks, in this process."""
    for name in ("add", "sub", "fma"):
        setattr(cute.arch, f"{name}_packed_f32x2", _twice(name))
    rows.max3 = lambda a, b, c: cute.arch.fmax(cute.arch.fmax(a, b), c)


def _twice(name: str) -> Any:
    """An operation on pairs as two instructions, rounded as it is; no denormal is flushed."""

    def packed(*operands: Any, rnd: str = "rn") -> tuple[Any, Any]:
        places = ", ".join(f"{{$r{i}}}" for i in range(len(operands)))
        code = f"{name}.{rnd}.f32 {{$w0}}, {places};"
        return tuple(
            cute.arch.inline_ptx(
                code,
                write_only_types=[Float32],
                read_only_args=[Float32(operand[i]) for operand in operands],
            )
            for i in range(2)
        )

    return packed
