"""Operands that make no sense are refused before anything runs, with their line and text."""

from __future__ import annotations

import pytest

from fa4kernel.emulator import Launch
from fa4kernel.emulator.emulate import decode
from fa4kernel.emulator.inspection.report import inspect
from fa4kernel.emulator.ptx.module import PtxError
from tests.emulator.machine.kernels import kernel

#: An instruction, and what the error says of it.
WRONG = {
    "bra %a1;": "bra takes one label",
    "@%p1 bra;": "bra takes one label",
    "add.u32 5, %a1, %a2;": "5 is nothing that can be written to",
    "mov.u32 %tid.x, 1;": "%tid.x is nothing that can be written to",
    "mov.u32 %a1, %tid;": "%tid is not modelled",
    "mov.u32 %a1, %envreg3;": "%envreg3 is not modelled",
    "setp.eq.u32 %a1, %a2, %a3;": "%a1 is .b32, not a predicate",
    "selp.b32 %a1, %a2, %a3, %a4;": "%a4 is .b32, not a predicate",
    "add.u32 %p1, %a1, %a2;": "%p1 is .pred, not .u32",
    "ld.shared.v4.u32 %a1, [base];": "1 values, not 4",
    "ld.shared.v2.u32 {%a1, %a2, %a3}, [base];": "3 values, not 2",
    "st.shared.u32 [base], {%a1, %a2};": "2 values, not 1",
    "st.shared.u32 [base];": "not those that st takes",
    "mbarrier.arrive.expect_tx.shared.b64 _, [base], %p1;": "%p1 is a predicate, not a value",
    "bar.sync;": "not those that bar takes",
    "bar.warp.sync;": "not those that bar takes",
    "tcgen05.ld.sync.aligned.32x32b.x3.b32 {%a1, %a2, %a3}, [%a4];": "not those that tcgen05 takes",
    "mov.b64 %d1, 99999999999999999999;": "does not fit into 64 bits",
}


@pytest.mark.parametrize("text", WRONG)
def test_the_line_and_the_text_are_told(text: str) -> None:
    body = "mov.u32 %a9, 1;\n" + text
    ptx = kernel(body)
    with pytest.raises(PtxError) as caught:
        decode(ptx, Launch((1, 1, 1), (32, 1, 1), arguments=[None]))
    assert WRONG[text] in caught.value.message
    assert caught.value.line == ptx.split("\n").index(text) + 1
    assert caught.value.text == text


def test_inspect_lists_what_is_wrong_and_goes_on() -> None:
    (found,) = inspect(kernel("mov.u32 %a1, %envreg3;\nbar.sync;\nmov.u32 %a2, %tid;"))
    assert [each.text.split()[0] for each in found.refused] == ["mov.u32", "bar.sync;", "mov.u32"]


def test_inspect_needs_branches_that_lead_somewhere() -> None:
    with pytest.raises(PtxError, match="line 17: bra takes one label"):
        inspect(kernel("bra %a1;"))


def test_more_shared_memory_than_there_is_is_refused() -> None:
    with pytest.raises(ValueError, match="k wants 100,000,000,000 bytes of shared memory"):
        decode(kernel("", shared=100_000_000_000), Launch((1,), (32,), arguments=[None]))
    launch = Launch((1,), (32,), shared_bytes=232_448, arguments=[None])
    with pytest.raises(ValueError, match="k wants 233,472 bytes"):
        decode(kernel("", shared=1024), launch)


def test_addresses_have_64_bits() -> None:
    with pytest.raises(PtxError, match="line 3: addresses have 64 bits here"):
        inspect(kernel("").replace(".address_size 64", ".address_size 32"))
