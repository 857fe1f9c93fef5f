"""A kernel that is small enough to know all about: two warps and a ring of two slots.

Warp 0 writes five turns of numbers into the ring, warp 1 adds them up. `full` and `empty` are rows
of two mbarriers with an arrival from every lane.
"""

from __future__ import annotations

import numpy as np

from fa4kernel.emulator.launch import Launch
from fa4kernel.emulator.mutation.problem import Prepared, Problem

TURNS = 5

PTX = """
.version 8.6
.target sm_100a
.address_size 64

.visible .entry ring(.param .u64 ring_param_0)
.reqntid 64, 1, 1
{
    .reg .pred %p<12>;
    .reg .b32 %r<40>;
    .reg .b64 %rd<12>;
    .shared .align 16 .b8 memory[288];

    mov.u32 %r1, %tid.x;
    mov.u32 %r2, memory;
    and.b32 %r3, %r1, 31;
    shl.b32 %r4, %r3, 2;
    mov.b32 %r5, 32;
    setp.ne.u32 %p1, %r1, 0;
    @%p1 bra READY;
    mbarrier.init.shared.b64 [%r2], %r5;
    mbarrier.init.shared.b64 [%r2+8], %r5;
    mbarrier.init.shared.b64 [%r2+16], %r5;
    mbarrier.init.shared.b64 [%r2+24], %r5;
READY:
    bar.sync 0;
    mov.b32 %r6, 0;
    mov.b32 %r7, 0;
    mov.b32 %r8, 0;
    mov.b32 %r9, 0;
    setp.gt.u32 %p2, %r1, 31;
    @%p2 bra CONSUMER;
PRODUCER:
    shl.b32 %r10, %r6, 3;
    add.s32 %r11, %r2, %r10;
    xor.b32 %r12, %r7, 1;
EMPTY:
    mbarrier.try_wait.parity.shared.b64 %p3, [%r11+16], %r12;
    @%p3 bra WRITE;
    bra EMPTY;
WRITE:
    shl.b32 %r13, %r6, 7;
    add.s32 %r14, %r2, %r13;
    add.s32 %r15, %r14, %r4;
    add.s32 %r16, %r3, %r8;
    st.shared.b32 [%r15+32], %r16;
    mbarrier.arrive.shared.b64 %rd1, [%r11];
    add.s32 %r17, %r6, 1;
    setp.eq.s32 %p4, %r17, 2;
    selp.b32 %r6, 0, %r17, %p4;
    selp.b32 %r18, 1, 0, %p4;
    xor.b32 %r7, %r7, %r18;
    add.s32 %r8, %r8, 1;
    setp.lt.s32 %p5, %r8, 5;
    @%p5 bra PRODUCER;
    ret;
CONSUMER:
    shl.b32 %r20, %r6, 3;
    add.s32 %r21, %r2, %r20;
FULL:
    mbarrier.try_wait.parity.shared.b64 %p6, [%r21], %r7;
    @!%p6 bra FULL;
    shl.b32 %r23, %r6, 7;
    add.s32 %r24, %r2, %r23;
    add.s32 %r25, %r24, %r4;
    ld.shared.b32 %r26, [%r25+32];
    add.s32 %r9, %r9, %r26;
    mbarrier.arrive.shared.b64 %rd2, [%r21+16];
    add.s32 %r27, %r6, 1;
    setp.eq.s32 %p7, %r27, 2;
    selp.b32 %r6, 0, %r27, %p7;
    selp.b32 %r28, 1, 0, %p7;
    xor.b32 %r7, %r7, %r28;
    add.s32 %r8, %r8, 1;
    setp.lt.s32 %p8, %r8, 5;
    @%p8 bra CONSUMER;
    ld.param.u64 %rd3, [ring_param_0];
    cvta.to.global.u64 %rd4, %rd3;
    mul.wide.u32 %rd5, %r3, 4;
    add.s64 %rd6, %rd4, %rd5;
    st.global.b32 [%rd6], %r9;
    ret;
}
"""


def expected() -> np.ndarray:
    """What each lane of warp 1 adds up."""
    return TURNS * np.arange(32) + sum(range(TURNS))


def ring(ptx: str = PTX) -> Problem:
    """The kernel as a problem."""

    def prepare() -> Prepared:
        out = np.zeros(32, np.int32)
        launch = Launch(grid=(1, 1, 1), block=(64, 1, 1), arguments=[out])

        def problems() -> list[str]:
            return [] if (out == expected()).all() else ["wrong sums"]

        return Prepared(launch, lambda: [out], problems)

    return Problem("ring", "a ring of two slots", ptx, prepare, [0.0])
