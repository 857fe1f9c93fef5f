"""Small PTX kernels for the tests of what people see, and the Python they pretend to be from."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fa4kernel.emulator import Launch

#: Lines that the `.loc` directives of RING name.
SOURCE = """\
def kernel(ring):
    setup(ring)
    meet()
    produce(ring)
    consume(ring)


def produce(ring):
    ring.empty.wait(turn)
    ring.full.arrive(turn)


def consume(ring):
    ring.full.wait(turn)
    ring.empty.arrive(turn)
"""

#: Warp 0 produces, warp 1 consumes, `turns` times over a ring of two slots: `full` at offset 0 and
#: 8 of `bars` (one arrival), `empty` at 16 and 24 (32 arrivals).
RING = """\
.version 8.8
.target sm_100a
.address_size 64
.file 1 "{path}"
.visible .entry ring(.param .u64 ring_out, .param .u32 ring_turns, .param .b32 ring_unused)
.reqntid 64, 1, 1
{{
    .shared .align 8 .b8 bars[32];
    .reg .pred %p<9>;
    .reg .b32 %r<20>;
    .reg .b64 %rd<9>;
    .loc 1 2 4
    mov.u32 %r1, %tid.x;
    shr.u32 %r2, %r1, 5;
    shfl.sync.idx.b32 %r3, %r2, 0, 31, -1;
    mov.b32 %r4, bars;
    setp.ne.b32 %p1, %r1, 0;
    @%p1 bra MEET;
    mbarrier.init.shared.b64 [%r4], 1;
    mbarrier.init.shared.b64 [%r4+8], 1;
    mbarrier.init.shared.b64 [%r4+16], 32;
    mbarrier.init.shared.b64 [%r4+24], 32;
MEET:
    .loc 1 3 4
    bar.sync 0;
    ld.param.u32 %r5, [ring_turns];
    mov.b32 %r6, 0;
    setp.eq.b32 %p2, %r3, 1;
    @%p2 bra CONSUME;
PRODUCE:
    .loc 1 9 4
    and.b32 %r7, %r6, 1;
    shl.b32 %r8, %r7, 3;
    add.s32 %r9, %r4, %r8;
    shr.u32 %r10, %r6, 1;
    and.b32 %r11, %r10, 1;
    xor.b32 %r12, %r11, 1;
EMPTY:
    mbarrier.try_wait.parity.shared.b64 %p3, [%r9+16], %r12;
    @!%p3 bra EMPTY;
    .loc 1 10 4
    setp.eq.b32 %p4, %r1, 0;
    @%p4 mbarrier.arrive.shared.b64 %rd1, [%r9];
    add.s32 %r6, %r6, 1;
    setp.lt.s32 %p5, %r6, %r5;
    @%p5 bra PRODUCE;
    bra END;
CONSUME:
    .loc 1 14 4
    and.b32 %r7, %r6, 1;
    shl.b32 %r8, %r7, 3;
    add.s32 %r9, %r4, %r8;
    shr.u32 %r10, %r6, 1;
    and.b32 %r11, %r10, 1;
FULL:
    mbarrier.try_wait.parity.shared.b64 %p3, [%r9], %r11;
    @!%p3 bra FULL;
    .loc 1 15 4
    mbarrier.arrive.shared.b64 %rd1, [%r9+16];
    add.s32 %r6, %r6, 1;
    setp.lt.s32 %p5, %r6, %r5;
    @%p5 bra CONSUME;
    ld.param.u64 %rd2, [ring_out];
    st.global.b32 [%rd2], %r6;
END:
    ret;
}}
"""
PRODUCER_ARRIVES = "@%p4 mbarrier.arrive.shared.b64 %rd1, [%r9];"

#: One thread has a block copied to shared memory, waits for it, and has it copied out again.
COPY = """\
.version 8.8
.target sm_90a
.address_size 64
.visible .entry copy(.param .u64 copy_from, .param .u64 copy_to)
.reqntid 32, 1, 1
{
    .shared .align 16 .b8 block[256];
    .shared .align 8 .b64 landed;
    .reg .pred %p<4>;
    .reg .b32 %r<4>;
    .reg .b64 %rd<4>;
    mov.u32 %r1, %tid.x;
    setp.ne.b32 %p1, %r1, 0;
    @%p1 bra END;
    mbarrier.init.shared.b64 [landed], 1;
    fence.mbarrier_init.release.cluster;
    fence.proxy.async.shared::cta;
    mbarrier.arrive.expect_tx.shared.b64 %rd1, [landed], 256;
    ld.param.u64 %rd2, [copy_from];
    ld.param.u64 %rd3, [copy_to];
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes
        [block], [%rd2], 256, [landed];
WAIT:
    mbarrier.try_wait.parity.shared.b64 %p2, [landed], 0;
    @!%p2 bra WAIT;
    cp.async.bulk.global.shared::cta.bulk_group [%rd3], [block], 256;
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group 0;
END:
    ret;
}
"""


def ring(folder: Path) -> str:
    """RING with its source in a file of a folder."""
    path = folder / "ring.py"
    path.write_text(SOURCE)
    return RING.format(path=path)


def ring_launch(turns: int = 5, ctas: int = 1) -> Launch:
    """The launch of RING."""
    out = np.zeros(1, np.uint32)
    return Launch(grid=(ctas, 1, 1), block=(64, 1, 1), arguments=[out, turns, None])


def copy_launch() -> tuple[Launch, np.ndarray, np.ndarray]:
    """The launch of COPY, what it reads, and what it writes."""
    source, target = np.arange(64, dtype=np.uint32), np.zeros(64, np.uint32)
    return Launch(grid=(1, 1, 1), block=(32, 1, 1), arguments=[source, target]), source, target
