"""The emulator's memory, barriers, TMA and tensor cores against what an H200 gave."""

from __future__ import annotations

import numpy as np
import pytest

from fa4kernel.emulator import EmulationError, emulate
from fa4kernel.emulator.tensor import formats
from fa4kernel.emulator.tensor.descriptors import SmemDescriptor
from fa4kernel.emulator.tensor.product import product
from tests.emulator.device import bits, boxes, lines, products, run, stored
from tests.emulator.machine.case import Case
from tests.emulator.machine.tables import CASES

HOPPER = [case for case in CASES if lines.on_hopper(case.needs)]


@pytest.mark.parametrize("case", HOPPER, ids=lambda case: case.name)
def test_an_h200_gives_what_the_table_says(case: Case) -> None:
    found = stored.result("kernels", case.name)
    if "out" in found:
        got = bits.unpacked(found["out"], "u1")
        assert got.tolist() == case.wanted.view(np.uint8).tolist()
    assert found["crc"] == bits.digest(case.wanted)


@pytest.mark.parametrize("box", boxes.BOXES, ids=lambda box: box.name)
def test_a_box_is_moved_as_an_h200_moves_it(box: boxes.Box) -> None:
    found = stored.result("boxes", box.name)
    launch, out = box.launch()
    emulate(box.ptx(), launch, checks="off")
    raw = out.view(np.uint8).reshape(-1)
    assert np.flatnonzero(raw != bits.unpacked(found["out"], "u1")).tolist() == []


@pytest.mark.parametrize("box", boxes.TRAPS, ids=lambda box: box.name)
def test_a_box_that_an_h200_traps_is_refused(box: boxes.Box) -> None:
    assert "ILLEGAL_INSTRUCTION" in stored.result("boxes", box.name)["refused"]
    launch, _ = box.launch()
    with pytest.raises(EmulationError, match=r"multiple of 16 bytes|negative coordinates"):
        emulate(box.ptx(), launch, checks="off")


@pytest.mark.parametrize("case", products.ROUNDINGS, ids=lambda case: case.name)
def test_wgmma_is_rounded_bit_for_bit_as_an_h200_rounds_it(case: products.Rounding) -> None:
    found = stored.result("rounding", case.name)
    a, b, c = case.operands(run.CTAS)
    values = formats.decode(c, case.kinds[2])
    raw = product(a, b, case.kinds, values, architecture="sm_90a")
    got = formats.encode(raw, "f16") if case.kinds[2] == "f16" else raw.view(np.uint32)
    assert [f"{int(v):x}" for v in got[0, :4].reshape(-1)] == found["first"]
    assert bits.digest(got) == found["crc"]


@pytest.mark.parametrize("operand", ["A", "B"])
@pytest.mark.parametrize("major", ["K", "MN"])
def test_descriptors_point_where_they_do_on_an_h200(operand: str, major: str) -> None:
    found = stored.result("descriptors", f"{operand} {major}")
    some = [p for p in products.POINTINGS if (p.operand, p.major) == (operand, major)]
    wrong = []
    for p, digest in zip(some, found, strict=True):
        offsets = SmemDescriptor.decode_wgmma(p.value()).offsets(64, 16, 2, p.major)
        if bits.digest(offsets.astype(np.int16)) != digest:
            wrong.append(p.name)
    assert not wrong
