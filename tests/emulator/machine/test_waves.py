"""A wave's memory is free when the next one begins."""

import gc
import weakref

import numpy as np
import pytest

from fa4kernel.emulator import Launch, emulate
from fa4kernel.emulator.machine.machine import Machine

KERNEL = """.version 8.8
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 out)
{
.reg .b64 %d<4>; .reg .b32 %a<4>;
.shared .align 8 .b8 smem[64];
ld.param.u64 %d0, [out];
mov.u32 %a0, %ctaid.x;
mul.wide.u32 %d1, %a0, 4;
add.s64 %d0, %d0, %d1;
st.shared.b32 [smem], %a0;
bar.sync 0;
ld.shared.b32 %a1, [smem];
st.global.b32 [%d0], %a1;
ret;
}
"""


@pytest.mark.parametrize("checks", ["off", "default", "strict-isa"])
@pytest.mark.parametrize("told", [None, lambda *_: None])
def test_waves_do_not_pile_up(checks, told, monkeypatch):
    alive: list[weakref.ref] = []
    most = []
    start = Machine.__init__

    def counted(self, *given, **more):
        start(self, *given, **more)
        most.append(sum(ref() is not None for ref in alive))
        alive.append(weakref.ref(self.registers.words))

    monkeypatch.setattr(Machine, "__init__", counted)
    out = np.zeros(12, np.uint32)
    gc.disable()
    try:
        emulate(
            KERNEL, Launch((12, 1, 1), (32, 1, 1), arguments=[out]), checks=checks,
            resident_ctas=3, progress=told,
        )  # fmt: skip
    finally:
        gc.enable()
    assert out.tolist() == list(range(12))
    assert most == [0, 0, 0, 0]
