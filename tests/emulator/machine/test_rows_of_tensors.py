"""Four rows of a tensor at once: ``.tile::gather4`` and ``.tile::scatter4`` (PTX ISA 5.5.3.4)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fa4kernel.emulator import EmulationError, Launch, emulate
from fa4kernel.emulator.ptx.module import PtxError
from fa4kernel.emulator.tensor.tensor_map import TensorMap

HEAD = """.version 8.8
.target sm_100a
.address_size 64
.visible .entry k(.param .align 64 .b8 m[128], .param .align 64 .b8 o[128])
{
.reg .b64 %d<8>; .reg .b32 %a<8>; .reg .pred %p<4>;
.shared .align 1024 .b8 smem[4096];
mov.b64 %d0, m; cvta.param.u64 %d1, %d0;
mov.b64 %d2, o; cvta.param.u64 %d3, %d2;
mov.u32 %a0, %tid.x;
setp.ne.u32 %p0, %a0, 0;
@%p0 bra over;
mov.u32 %a1, smem;
mbarrier.init.shared::cta.b64 [%a1+2048], 1;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%a1+2048], BYTES;
BODY
over: ret;
}
"""
GATHER = """cp.async.bulk.tensor.2d.shared::cta.global.tile::gather4.mbarrier::complete_tx::bytes
    [%a1], [%d1, {8, 5, 0, 11, 30}], [%a1+2048];
wait: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%a1+2048], 0;
@!%p1 bra wait;
"""
SCATTER = """cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group
    [%d3, {8, 1, 3, 0, 2}], [%a1];
cp.async.bulk.commit_group;
cp.async.bulk.wait_group 0;
"""


def run(body: str, source: Any, target: Any, count: int = 512, **options: Any) -> None:
    text = HEAD.replace("BODY", body).replace("BYTES", str(count))
    launch = Launch((1, 1, 1), (32, 1, 1), arguments=[source, target])
    emulate(text, launch, checks="off", **options)


@pytest.mark.parametrize("swizzle", ["none", "128B"])
@pytest.mark.parametrize("schedule", ["lockstep", 3])
def test_rows_come_from_and_go_to_where_they_are_told(swizzle: str, schedule: str | int) -> None:
    rows = np.arange(12 * 72, dtype=np.uint16).reshape(12, 72)
    out = np.zeros((4, 72), np.uint16)
    maps = [TensorMap.of(x, (1, 0), (64, 1), swizzle) for x in (rows, out)]
    run(GATHER + SCATTER, *maps, schedule=schedule)
    expected = np.zeros_like(out)
    for place, row in zip((1, 3, 0, 2), (5, 0, 11, 30), strict=True):
        expected[place, 8:] = rows[row, 8:] if row < 12 else 0
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize(
    "body",
    [GATHER.replace("[%a1],", "[%a1+3968],"), SCATTER.replace("[%a1];", "[%a1+3968];")],
)
def test_a_copy_past_shared_memory_is_an_error(body: str) -> None:
    x = TensorMap.of(np.zeros((12, 64), np.uint16), (1, 0), (64, 1))
    with pytest.raises(EmulationError, match=r"a copy of 512 bytes .* a CTA has"):
        run(body, x, x)


def test_a_box_of_several_rows_is_refused() -> None:
    x = np.zeros((12, 64), np.uint16)
    maps = [TensorMap.of(x, (1, 0), (64, 2)) for _ in range(2)]
    with pytest.raises(EmulationError, match="box one row high"):
        run(GATHER, *maps)


@pytest.mark.parametrize(
    "line",
    [
        GATHER.replace("tile::gather4", "im2col"),
        GATHER.replace("8, 5, 0, 11, 30", "8, 5, 0"),
        GATHER.replace(".2d", ".3d"),
    ],
)
def test_other_forms_are_refused_with_their_text(line: str) -> None:
    x = TensorMap.of(np.zeros((12, 64), np.uint16), (1, 0), (64, 1))
    with pytest.raises(PtxError, match=r"line 16: .*cp\.async\.bulk\.tensor"):
        run(line, x, x)
