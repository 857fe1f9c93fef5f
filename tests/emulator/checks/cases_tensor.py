"""Twins of tensor memory and MMAs."""

from __future__ import annotations

from tests.emulator.checks.twins import Twin, init, wait

GROUP = "cta_group::1"
#: 64 columns, allocated by warp 0; %a2 is their address. %p1 is warp 0, %p2 warp 4.
ALLOC = f"""shr.u32 %a1, t, 5;
setp.eq.u32 %p1, %a1, 0;
setp.eq.u32 %p2, %a1, 4;
@%p1 tcgen05.alloc.{GROUP}.sync.aligned.shared::cta.b32 [base+256], 64;
bar.sync 0;
ld.shared.u32 %a2, [base+256];
"""
FREE = f"bar.sync 1; @%p1 tcgen05.dealloc.{GROUP}.sync.aligned.b32 %a2, 64;"
PUT = "@%p1 tcgen05.st.sync.aligned.32x32b.x1.b32 [%a2], {t};"
PUT_DONE = "@%p1 tcgen05.wait::st.sync.aligned;"
GET = "@%p2 tcgen05.ld.sync.aligned.32x32b.x1.b32 {%a3}, [%a2];"
GET_DONE = "@%p2 tcgen05.wait::ld.sync.aligned;"

#: A of 128 x 16 and B of 8 x 16 (bf16, K-major, no swizzle) at 1024 and 5120 bytes of shared
#: memory, zero; their descriptors in %d1 and %d2, the instruction descriptor in %a11.
A_FIELDS = (2048 >> 4) << 16 | (128 >> 4) << 32 | 1 << 46
B_FIELDS = (128 >> 4) << 16 | (128 >> 4) << 32 | 1 << 46
SHAPE = (128 >> 4) << 24 | (8 >> 3) << 17 | 1 << 10 | 1 << 7 | 1 << 4
WIDE = SHAPE + (1 << 17)
OPERANDS = f"""shl.b32 %a12, t, 5;
add.u32 %a12, %a12, base;
mov.u32 %a13, 0;
st.shared.v4.u32 [%a12+1024], {{%a13, %a13, %a13, %a13}};
st.shared.v4.u32 [%a12+1040], {{%a13, %a13, %a13, %a13}};
st.shared.v4.u32 [%a12+5120], {{%a13, %a13, %a13, %a13}};
st.shared.v4.u32 [%a12+5136], {{%a13, %a13, %a13, %a13}};
shr.u32 %a10, base, 4;
cvt.u64.u32 %d1, %a10;
add.u64 %d2, %d1, {(5120 >> 4) + B_FIELDS};
add.u64 %d1, %d1, {(1024 >> 4) + A_FIELDS};
mov.u32 %a11, {SHAPE};
fence.proxy.async.shared::cta;
bar.sync 2;
"""
MMA = f"tcgen05.mma.{GROUP}.kind::f16 [%a2], %d1, %d2, %a11, 0;"
COMMIT = f"tcgen05.commit.{GROUP}.mbarrier::arrive::one.shared::cluster.b64 [base];"
#: Each warp's address: its quarter of the lanes.
READ = """and.b32 %a20, t, 96;
shl.b32 %a20, %a20, 16;
add.u32 %a20, %a20, %a2;
tcgen05.ld.sync.aligned.32x32b.x8.b32 {%a21, %a22, %a23, %a24, %a25, %a26, %a27, %a28}, [%a20];
"""
PRODUCT = init(1) + ALLOC + OPERANDS + f"@%p9 {MMA} @%p9 {COMMIT}" + wait("m", 0) + READ
DONE = "tcgen05.wait::ld.sync.aligned;"
#: Thread 0 commits three times to one barrier, then to another, for which warp 1 waits.
COMMITS = (
    init(1).replace("fence", "mbarrier.init.shared.b64 [base+8], 1; @%p9 fence")
    + 3 * f"@%p9 {COMMIT}"
    + f"@%p9 {COMMIT.replace('[base]', '[base+8]')}"
    + "setp.lt.u32 %p3, t, 32; @%p3 bra OVER;"
    + wait("b", 0, "base+8")
    + "mov.u32 %a1, 0;"
    + "OVER:"
)

TENSOR = {
    "a phase is known by a later commit": Twin(
        "ambiguous-wait",
        COMMITS.replace("mov.u32 %a1, 0;", wait("a", 0)),
        wait("b", 0, "base+8"),
    ),
    "a store to tensor memory is waited for": Twin(
        "read-before-write",
        ALLOC + PUT + PUT_DONE + "bar.sync 2;" + GET + GET_DONE + FREE,
        PUT_DONE,
        threads=160,
    ),
    "tensor memory between two warps": Twin(
        "read-before-write",
        ALLOC + PUT + PUT_DONE + "bar.sync 2;" + GET + GET_DONE + FREE,
        "bar.sync 2;",
        threads=160,
    ),
    "tensor memory that a load has read is used again": Twin(
        "overwrite-while-read",
        ALLOC
        + PUT
        + PUT_DONE
        + "bar.sync 2;"
        + GET
        + GET_DONE
        + "bar.sync 3;"
        + PUT
        + PUT_DONE
        + FREE,
        GET_DONE,
        threads=160,
    ),
    "a load is complete when its register is used": Twin(
        "overwrite-while-read",
        ALLOC
        + PUT
        + PUT_DONE
        + "bar.sync 2;"
        + GET
        + "add.u32 %a4, %a3, 1; bar.sync 3;"
        + PUT
        + PUT_DONE
        + FREE,
        "add.u32 %a4, %a3, 1; bar.sync 3;",
        "bar.sync 3; add.u32 %a4, %a3, 1;",
        threads=160,
    ),
    "tensor memory is given back": Twin(
        "tmem-leak", ALLOC + FREE, f"@%p1 tcgen05.dealloc.{GROUP}.sync.aligned.b32 %a2, 64;"
    ),
    "tensor memory is given back when all are done": Twin(
        "overwrite-while-read",
        ALLOC + PUT + PUT_DONE + "bar.sync 2;" + GET + GET_DONE + FREE,
        "bar.sync 1;",
        threads=160,
    ),
    "tensor memory is written before it is read": Twin(
        "uninitialised-read",
        ALLOC + PUT + PUT_DONE + "bar.sync 2;" + GET + GET_DONE + FREE,
        PUT,
        threads=160,
    ),
    "an MMA writes into an allocation": Twin(
        "tmem-unallocated",
        PRODUCT + DONE + FREE,
        f"@%p9 {MMA}",
        f"@%p9 add.u32 %a2, %a2, 128; @%p9 {MMA} @%p9 sub.u32 %a2, %a2, 128;",
        threads=128,
    ),
    "the result of an MMA": Twin(
        "read-before-write", PRODUCT + DONE + FREE, wait("m", 0), threads=128
    ),
    "an MMA of what threads wrote": Twin(
        "missing-proxy-fence",
        PRODUCT + DONE + FREE,
        "fence.proxy.async.shared::cta;",
        threads=128,
    ),
    "an operand that an MMA has read is overwritten": Twin(
        "overwrite-while-read",
        PRODUCT + DONE + "st.shared.u32 [%a12+1024], %a13;" + FREE,
        wait("m", 0) + READ + DONE,
        threads=128,
    ),
    "an accumulator that a load has read is overwritten": Twin(
        "overwrite-while-read",
        PRODUCT + DONE + f"bar.sync 3; @%p9 {MMA} @%p9 {COMMIT}" + wait("n", 1) + FREE,
        DONE,
        threads=128,
    ),
    "an MMA multiplies what is there": Twin(
        "uninitialised-read",
        PRODUCT + DONE + FREE,
        "add.u64 %d1, %d1,",
        "add.u64 %d1, %d1, 512; add.u64 %d1, %d1,",
        threads=128,
    ),
}

STRICT = {"checks": "strict-isa"}
FENCED = (
    PUT + PUT_DONE + "tcgen05.fence::before_thread_sync; bar.sync 2;"
    "tcgen05.fence::after_thread_sync;" + GET
)
#: Advisories: only when strict.
ADVISORIES = {
    "a phase is known without the order of commits": Twin(
        "commit-order", COMMITS, "mov.u32 %a1, 0;", wait("a", 0), options=STRICT
    ),
    "a tcgen05 fence before a barrier": Twin(
        "tmem-fence",
        ALLOC
        + "tcgen05.fence::after_thread_sync;"
        + FENCED
        + GET_DONE
        + "tcgen05.fence::before_thread_sync;"
        + FREE,
        "tcgen05.fence::before_thread_sync; bar.sync 2;",
        "bar.sync 2;",
        threads=160,
        options=STRICT,
    ),
    "a tcgen05 fence after a barrier": Twin(
        "tmem-fence",
        ALLOC
        + "tcgen05.fence::after_thread_sync;"
        + FENCED
        + GET_DONE
        + "tcgen05.fence::before_thread_sync;"
        + FREE,
        "bar.sync 2;tcgen05.fence::after_thread_sync;",
        "bar.sync 2;",
        threads=160,
        options=STRICT,
    ),
    "a load of tensor memory that is waited for": Twin(
        "tmem-load-unwaited",
        "mov.u32 %a3, 0;"
        + ALLOC
        + "tcgen05.fence::after_thread_sync;"
        + FENCED
        + GET_DONE
        + "@%p2 add.u32 %a4, %a3, 1;"
        + "tcgen05.fence::before_thread_sync; bar.sync 3; tcgen05.fence::after_thread_sync;"
        + PUT
        + PUT_DONE
        + "tcgen05.fence::before_thread_sync;"
        + FREE,
        GET_DONE,
        threads=160,
        options=STRICT,
    ),
    "two MMAs of different shapes": Twin(
        "mma-order",
        init(1)
        + ALLOC
        + "tcgen05.fence::after_thread_sync;"
        + OPERANDS
        + f"tcgen05.fence::after_thread_sync; @%p9 {MMA} @%p9 {MMA} @%p9 {COMMIT}"
        + wait("m", 0)
        + "tcgen05.fence::after_thread_sync;"
        + FREE,
        f"@%p9 {MMA} @%p9 {MMA}",
        f"@%p9 {MMA} mov.u32 %a11, {WIDE}; @%p9 {MMA}",
        threads=128,
        options=STRICT,
    ),
    "a register that nothing sets": Twin(
        "unset-register",
        "mov.u32 %a5, 3; add.u32 %a6, %a5, 1; st.shared.u32 [base], %a6;",
        "mov.u32 %a5, 3;",
        threads=1,
        options=STRICT,
    ),
    "a register that some ways set": Twin(
        "unset-register",
        "setp.eq.u32 %p1, t, 0; mov.u32 %a5, 0; @%p1 mov.u32 %a5, 3; st.shared.u32 [base], %a5;",
        "mov.u32 %a5, 0;",
        threads=1,
        options=STRICT,
    ),
    "shared memory that nobody wrote": Twin(
        "uninitialised-load",
        "st.shared.u32 [base], 1; ld.shared.u32 %a2, [base];",
        "st.shared.u32 [base], 1;",
        threads=1,
        options=STRICT,
    ),
    "an MMA of what cp.async copied": Twin(
        "copy-proxy-fence",
        init(1)
        + ALLOC
        + "tcgen05.fence::after_thread_sync;"
        + OPERANDS.replace(
            "fence.proxy",
            "cp.async.cg.shared.global [%a12+1024], [p0], 16; cp.async.wait_all;\nfence.proxy",
        )
        + f"tcgen05.fence::after_thread_sync; @%p9 {MMA} @%p9 {COMMIT}"
        + wait("m", 0)
        + "tcgen05.fence::after_thread_sync;"
        + FREE,
        "cp.async.wait_all;\nfence.proxy.async.shared::cta;",
        "cp.async.wait_all;",
        threads=128,
        options=STRICT,
    ),
}
