"""``wgmma`` (PTX ISA 9.7.15): products of small whole numbers from shared memory and registers.

Operands lie in shared memory without swizzle, in core matrices of 8 rows of 16 bytes, one after
the other: along K first, or along M and N first where an operand is transposed.
"""

from __future__ import annotations

import numpy as np

from tests.emulator.machine.case import Case
from tests.emulator.machine.tables.warp_products import encoded

_BYTES = {"f16": 2, "bf16": 2, "tf32": 4, "e4m3": 1, "e5m2": 1, "s8": 1, "u8": 1}
CORE = 128  # bytes of a core matrix


def core_matrices(matrix: np.ndarray) -> np.ndarray:
    """A matrix (rows, columns) as core matrices of 8 rows of 16 bytes, column by column of them."""
    per = 16 // matrix.itemsize
    rows, columns = matrix.shape
    cores = matrix.reshape(rows // 8, 8, columns // per, per)
    return np.ascontiguousarray(cores.transpose(2, 0, 1, 3)).view(np.uint8).reshape(-1)


def descriptor(leading: int, stride: int) -> int:
    """The upper part of a descriptor without swizzle; the start address is to be added."""
    return (leading >> 4) << 16 | (stride >> 4) << 32


def _d_words(matrix: np.ndarray) -> np.ndarray:
    """Registers of D for each of 128 threads: row 16w + t/4 (+8), columns 8j + 2(t%4) (+1)."""
    n = matrix.shape[1]
    found = np.zeros((128, n // 2), matrix.dtype)
    for thread in range(128):
        warp, t = divmod(thread, 32)
        for i in range(n // 2):
            row = 16 * warp + t // 4 + 8 * (i % 4 // 2)
            found[thread, i] = matrix[row, 8 * (i // 4) + 2 * (t % 4) + i % 2]
    return found.view(np.uint32)


def _a_words(matrix: np.ndarray) -> np.ndarray:
    """Registers of A for each of 128 threads: four, of 4 bytes along K each."""
    per = 4 // matrix.itemsize
    found = np.zeros((128, 4 * per), matrix.dtype)
    for thread in range(128):
        warp, t = divmod(thread, 32)
        for r in range(4):
            row = 16 * warp + t // 4 + 8 * (r % 2)
            column = per * (t % 4 + 4 * (r // 2))
            found[thread, r * per : (r + 1) * per] = matrix[row, column : column + per]
    return found.view(np.uint32)


def product(
    n: int, kinds: tuple[str, str, str], *, registers: bool = False,
    turned: tuple[int, int] = (0, 0), signs: tuple[int, int] = (1, 1), steps: int = 1,
    fresh: bool = False, name: str = "",
) -> Case:  # fmt: skip
    """A case: D = A B (+ D), in ``steps`` products along K; D begins as ones."""
    a_kind, b_kind, d_kind = kinds
    k = 32 // _BYTES[a_kind] * steps
    rng = np.random.default_rng(n + k)
    low = {"u8": 0}
    a = rng.integers(low.get(a_kind, -2), 3, (64, k))
    b = rng.integers(low.get(b_kind, -2), 3, (n, k))
    d = signs[0] * signs[1] * (a @ b.T) + (0 if fresh else 1)
    a_raw, b_raw = encoded(a, a_kind), encoded(b, b_kind)
    blocks, descriptors, offset = [], [], 0
    for raw, turn in ((a_raw, turned[0]), (b_raw, turned[1])):
        blocks.append(core_matrices(raw.T if turn else raw))
        # K-major: cores go along rows, then along K. Transposed: along K, then along M or N.
        rows, columns = raw.shape
        across = CORE * (rows // 8) if not turn else CORE
        along = CORE if not turn else CORE * (columns // 8)
        descriptors.append((descriptor(across, along), offset))
        offset += raw.nbytes
    if registers:
        blocks[0] = np.concatenate(
            [_a_words(p).view(np.uint8).reshape(-1) for p in np.split(a_raw, steps, axis=1)]
        )
    data = np.concatenate(blocks)
    count = n // 4 if d_kind == "f16" else n // 2
    d_names = ", ".join(f"%a{10 + i}" for i in range(count))
    one = {"f32": 0x3F800000, "f16": 0x3C003C00, "s32": 1}[d_kind]
    body = f"""mul.wide.u32 %d1, t, 16; add.u64 %d1, src, %d1; mad.lo.u32 %a2, t, 16, base;
        mov.u32 %a3, t;
        more: ld.global.v4.u32 {{%a4, %a5, %a6, %a7}}, [%d1];
        st.shared.v4.u32 [%a2], {{%a4, %a5, %a6, %a7}};
        add.u64 %d1, %d1, 2048; add.u32 %a2, %a2, 2048; add.u32 %a3, %a3, 128;
        setp.lt.u32 %p1, %a3, {len(data) // 16};
        @%p1 bra more;
        fence.proxy.async.shared::cta;
        bar.sync 0;
        and.b32 %a3, base, 0x3FFFF; shr.u32 %a3, %a3, 4; cvt.u64.u32 %d2, %a3;
        """
    body += "".join(f"mov.b32 %a{10 + i}, {one};" for i in range(count)) + "\n"
    for step in range(steps if registers else 0):
        body += f"mad.lo.u32 %a2, t, 16, base;\nld.shared.v4.b32 {{%b{4 * step}, %b{4 * step + 1},"
        body += f" %b{4 * step + 2}, %b{4 * step + 3}}}, [%a2+{2048 * step}];\n"
    body += "wgmma.fence.sync.aligned;\n"
    width = 32 // _BYTES[a_kind]
    for step in range(steps):
        for i, ((upper, start), raw, turn) in enumerate(
            zip(descriptors, (a_raw, b_raw), turned, strict=True)
        ):
            rows = raw.shape[0]
            skip = CORE * (rows // 8) * 2 * step if not turn else CORE * (width // 8) * step
            body += f"add.u64 %d{3 + i}, %d2, {upper + ((start + skip) >> 4)};\n"
        left = f"{{%b{4 * step}, %b{4 * step + 1}, %b{4 * step + 2}, %b{4 * step + 3}}}"
        immediates = [] if d_kind == "s32" else [*signs]
        if a_kind in ("f16", "bf16"):
            immediates += [turned[1]] if registers else [*turned]
        more = "".join(f", {x}" for x in immediates)
        scale = 0 if fresh and step == 0 else 1
        body += f"setp.ne.b32 %p2, {scale}, 0;\n"
        body += (
            f"wgmma.mma_async.sync.aligned.m64n{n}k{width}.{d_kind}.{a_kind}.{b_kind}"
            f" {{{d_names}}}, {left if registers else '%d3'}, %d4, %p2{more};\n"
        )
    body += "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n"
    body += "".join(f"st.global.u32 [mine+{4 * i}], %a{10 + i};" for i in range(count))
    text = name or "from registers" if registers else name
    return Case(
        f"wgmma.n{n}.{'.'.join(kinds)} x{steps} turned {turned} signs {signs} {text}", body,
        _d_words(encoded(d, d_kind)), data, words=count, threads=128,
        shared=max(1024, -(-len(data) // 2048) * 2048),
    )  # fmt: skip


CASES = (
    product(8, ("f16", "f16", "f32")),
    product(64, ("bf16", "bf16", "f32"), steps=4),
    product(256, ("bf16", "bf16", "f32")),
    product(24, ("f16", "f16", "f16"), fresh=True),
    product(16, ("f16", "f16", "f32"), turned=(1, 0)),
    product(16, ("f16", "f16", "f32"), turned=(0, 1), steps=2),
    product(64, ("bf16", "bf16", "f32"), turned=(1, 1), steps=2),
    product(32, ("bf16", "bf16", "f32"), signs=(-1, 1)),
    product(32, ("f16", "f16", "f32"), signs=(-1, -1), fresh=True),
    product(32, ("bf16", "bf16", "f32"), registers=True, steps=2),
    product(32, ("bf16", "bf16", "f32"), registers=True, turned=(0, 1), signs=(1, -1)),
    product(16, ("tf32", "tf32", "f32"), steps=2),
    product(16, ("tf32", "tf32", "f32"), registers=True),
    product(40, ("e4m3", "e4m3", "f32"), steps=2),
    product(40, ("e5m2", "e4m3", "f32"), registers=True),
    product(8, ("e4m3", "e4m3", "f16")),
    product(48, ("s8", "u8", "s32")),
    product(32, ("u8", "s8", "s32"), registers=True),
)
