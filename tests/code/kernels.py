"""Small PTX texts whose counts can be told by reading them."""

from __future__ import annotations

import numpy as np

from fa4kernel.emulator import Launch

HEAD = """\
.version 8.8
.target sm_100a
.address_size 64
"""

#: Lane n goes round the loop n + 1 times; odd and even lanes of warp 0 then part, and lane 0 alone
#: stores. Warp 1 ends at once.
PARTING = (
    HEAD
    + """\
.visible .entry parting(.param .u64 parting_out)
.reqntid 64, 1, 1
{
    .reg .pred %p<9>;
    .reg .b32 %r<9>;
    .reg .b64 %rd<3>;
    mov.u32 %r1, %tid.x;
    setp.ge.u32 %p1, %r1, 32;
    @%p1 bra END;
    mov.b32 %r2, 0;
AGAIN:
    add.s32 %r2, %r2, 1;
    setp.le.u32 %p2, %r2, %r1;
    @%p2 bra AGAIN;
    and.b32 %r3, %r1, 1;
    setp.eq.b32 %p3, %r3, 1;
    @%p3 bra ODD;
    shl.b32 %r4, %r1, 1;
    bra.uni MEET;
ODD:
    xor.b32 %r4, %r1, 1;
MEET:
    setp.eq.b32 %p4, %r1, 0;
    ld.param.u64 %rd1, [parting_out];
    @%p4 st.global.b32 [%rd1], %r4;
END:
    ret;
}
"""
)


def parting_launch() -> Launch:
    """The launch of PARTING."""
    out = np.zeros(1, np.uint32)
    return Launch(grid=(1, 1, 1), block=(64, 1, 1), arguments=[out])


#: A kernel that acts as attention does, as far as lengths go: for each of its tiles and for each
#: block it waits for nothing, computes `EXPONENTIALS` exponentials and one maximum, and for each
#: tile it makes one conversion. Warp 1 does `scalar` multiplications for each block.
EXPONENTIALS = 8


def stand_in(extra: str = "", guarded: str = "") -> str:
    """The text; ``extra`` is one more instruction of a step, ``guarded`` of every second step."""
    exponentials = "\n".join("    ex2.approx.ftz.f32 %f1, %f1;" for _ in range(EXPONENTIALS))
    return (
        HEAD
        + f"""\
.visible .entry stand_in(.param .u32 stand_in_blocks, .param .u32 stand_in_tiles)
.reqntid 32, 1, 1
{{
    .reg .pred %p<9>;
    .reg .b16 %h<3>;
    .reg .b32 %r<9>;
    .reg .f32 %f<9>;
    ld.param.u32 %r1, [stand_in_blocks];
    ld.param.u32 %r2, [stand_in_tiles];
    mov.f32 %f1, 0f00000000;
    mov.b32 %r3, 0;
TILE:
    mov.b32 %r4, 0;
BLOCK:
{exponentials}
    max.f32 %f2, %f1, %f2;
    {extra}
    and.b32 %r5, %r4, 1;
    setp.eq.b32 %p3, %r5, 0;
    @%p3 bra EVEN;
    {guarded}
EVEN:
    add.s32 %r4, %r4, 1;
    setp.lt.s32 %p1, %r4, %r1;
    @%p1 bra BLOCK;
    cvt.rn.f16.f32 %h1, %f1;
    add.s32 %r3, %r3, 1;
    setp.lt.s32 %p2, %r3, %r2;
    @%p2 bra TILE;
    ret;
}}
"""
    )


def stand_in_launch(given, persistent: bool = True) -> Launch:
    """The launch of a stand-in on arrays of a problem."""
    tiles, blocks = given.q.shape[1] // 256, given.k.shape[1] // 128
    return Launch(
        grid=(1 if persistent else tiles, 1, 1),
        block=(32, 1, 1),
        shared_bytes=1024,
        arguments=[blocks, tiles if persistent else 1],
    )
