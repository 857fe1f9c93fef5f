"""Shadow memory by blocks and by pieces is one memory."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fa4kernel.emulator.checks.footprints import SHARED_BLOCK, Footprint, accumulator, operand
from fa4kernel.emulator.checks.shadow import Blocks, Layer, Pieces, Shadow, runs
from fa4kernel.emulator.machine.products import Operation
from fa4kernel.emulator.tensor.instruction import InstructionDescriptor

CTAS, PIECES, BLOCK = 2, 32, 8
accesses = st.lists(
    st.tuples(st.booleans(), st.integers(0, CTAS - 1), st.integers(0, PIECES - 1),
              st.integers(1, PIECES), st.booleans()),
    max_size=20,
)  # fmt: skip


@given(accesses)
def test_blocks_and_pieces_hold_what_was_last_put_there(
    steps: list[tuple[bool, int, int, int, bool]],
) -> None:
    layer, plain = Layer(CTAS, PIECES, BLOCK), np.zeros((CTAS, PIECES), np.int32)
    shadow = Shadow("shared", CTAS, PIECES, BLOCK)
    for number, (whole, cta, start, count, putting) in enumerate(steps, 1):
        first, last = start, min(PIECES, start + count)
        if whole:
            first, last = first // BLOCK * BLOCK, -(-last // BLOCK) * BLOCK
        region = shadow.span(np.array([cta]), first, last)
        assert isinstance(region, Blocks if first % BLOCK == last % BLOCK == 0 else Pieces)
        region.get(layer)
        if putting:
            region.put(layer, np.array([[number]], np.int32))
            plain[cta, first:last] = number
        found = region.get(layer)
        wanted = plain[cta, first:last]
        assert (np.repeat(found[0], len(wanted) // found.shape[1]) == wanted).all()


def test_pieces_of_a_mixed_block_are_told_apart() -> None:
    shadow = Shadow("shared", 1, PIECES, BLOCK)
    region = Blocks(np.array([[0, 1]]))
    Pieces(np.array([[9]])).get(shadow.writer)
    Pieces(np.array([[9]])).put(shadow.writer, np.array([[4]], np.int32))
    found = region.get(shadow.writer)
    _, heads, at = runs(found)
    assert heads.tolist() == [0, 4, 0]
    assert region.pieces(0, int(at[1]), int(at[1]), found.shape[1], BLOCK) == (9, 9)


def test_the_k_steps_of_an_operand_are_whole_blocks_together() -> None:
    shape = InstructionDescriptor("f16", 128, 128, "bf16", "bf16", "f32")
    base = 1 << 62 | 1 << 46 | (1024 >> 4) << 32 | 1024 >> 4  # 128-byte swizzle
    steps = tuple(Operation(0, base + 2 * k, False, base + 2 * k, shape, 1, 16) for k in range(4))
    assert operand(steps[:1], False).blocks is None
    whole = operand(steps, False)
    assert whole.blocks is not None
    assert whole.blocks.tolist() == list(range(1, 17))  # 16 KB from byte 1024
    assert len(whole.own) == 16 * SHARED_BLOCK
    d = accumulator(steps[0])
    assert d.blocks is not None and len(d.own) == 8 * 128


def test_a_footprint_that_is_no_whole_blocks_is_pieces() -> None:
    shadow = Shadow("tensor", 1, 64, 16)
    region = Footprint(np.arange(8, 40), 16).of(np.array([0]), shadow)
    assert isinstance(region, Pieces)
