"""wgmma on a GPU: how it rounds, and where its descriptors point.

Rounding: each CTA multiplies matrices of its own, 64 x K by K x 8 for one instruction's K, and adds
an accumulator. Addresses: shared memory holds 16,384 f16 numbers, each its own index as bits; one
factor is read through the descriptor under test, the other is the identity, so that D says for
each element where it was read.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

from fa4kernel.emulator.tensor import formats
from fa4kernel.emulator.tensor.fragments import wgmma_accumulator
from tests.emulator.device import bits
from tests.emulator.machine.tables.warpgroup_products import core_matrices, descriptor

N = 8
_HEAD = """.version 8.8
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 source, .param .u64 target{more})
{{
.reg .b64 src, dst, %d<16>;
.reg .b32 t, cta, base, %a<64>;
.reg .f32 %f<64>;
.reg .pred %p<8>;
.shared .align 1024 .b8 smem[{shared}];
mov.u32 base, smem;
mov.u32 t, %tid.x;
mov.u32 cta, %ctaid.x;
ld.param.u64 src, [source];
ld.param.u64 dst, [target];
"""
_COPY = """mov.u32 %a1, t;
mad.lo.u32 %a0, t, 4, base;
mad.wide.u32 %d1, t, 4, %d0;
more:
ld.global.u32 %a2, [%d1];
st.shared.u32 [%a0], %a2;
add.u32 %a0, %a0, 512;
add.u64 %d1, %d1, 512;
add.u32 %a1, %a1, 128;
setp.lt.u32 %p1, %a1, {words};
@%p1 bra more;
fence.proxy.async.shared::cta;
bar.sync 0;
and.b32 %a0, base, 0x3FFFF;
shr.u32 %a0, %a0, 4;
cvt.u64.u32 %d2, %a0;
"""

#: Types of A, B and D; how the numbers lie.
KINDS = (
    ("f16", "f16", "f32"), ("f16", "f16", "f16"), ("bf16", "bf16", "f32"), ("tf32", "tf32", "f32"),
    ("e4m3", "e4m3", "f32"), ("e4m3", "e4m3", "f16"), ("e5m2", "e5m2", "f32"),
    ("e5m2", "e4m3", "f32"),
)  # fmt: skip
CLASSES = ("ordinary", "spread", "cancelling", "subnormal", "any", "one large", "underflow")
_SIZE = {"f16": 2, "bf16": 2, "tf32": 4, "e4m3": 1, "e5m2": 1}


def _raw(kind: str, shape: tuple[int, ...], how: str, seed: int) -> np.ndarray:
    """Bits of a factor or an accumulator of a class."""
    form = formats.format_of(kind)
    count = int(np.prod(shape))
    words = bits.scrambled(count, seed)
    exponents = bits.scrambled(count, seed + 1000)
    top = 1 << form.exponent
    sign = (words >> np.uint64(60) & np.uint64(1)) << np.uint64(form.bits - 1)
    fraction = words & np.uint64((1 << form.fraction) - 1)
    if how == "any":
        found = words & np.uint64((1 << form.bits) - 1)
    else:
        spread = {
            "ordinary": 2,
            "cancelling": 2,
            "spread": 12,
            "subnormal": 0,
            "one large": 1,
            "underflow": 6,
        }[how]
        spread = min(spread, form.bias - 2)
        exponent = np.uint64(form.bias - spread) + exponents % np.uint64(2 * spread + 1)
        if how == "subnormal":
            exponent = exponents % np.uint64(3)
        if how == "underflow" and form.exponent == 8:
            # Products near the smallest float32 there is.
            spread = np.uint64(3)
            exponent = np.uint64(127 - 75) - spread + exponents % np.uint64(7)
        if how == "one large":
            far = exponents >> np.uint64(20)
            exponent = np.where(far % np.uint64(8) == 0, exponent + np.uint64(min(12, top // 4)),
                                exponent)  # fmt: skip
        exponent = np.minimum(exponent, np.uint64(top - 2))
        found = sign | exponent << np.uint64(form.fraction) | fraction
    return (found << np.uint64(form.shift)).astype(form.storage).reshape(shape)


@dataclass(frozen=True)
class Rounding:
    """Products of one type and class.

    Attributes:
        kinds: types of A, B and D.
        how: which numbers.
    """

    kinds: tuple[str, str, str]
    how: str

    @property
    def name(self) -> str:
        """What is multiplied."""
        return f"{'.'.join(self.kinds)} {self.how}"

    @property
    def k(self) -> int:
        """Elements along K."""
        return 32 // _SIZE[self.kinds[0]]

    def operands(self, ctas: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Bits of A (ctas, 64, k), B (ctas, k, 8) and C (ctas, 64, 8)."""
        seed = 100 * KINDS.index(self.kinds) + 10 * CLASSES.index(self.how) + 50000
        a = _raw(self.kinds[0], (ctas, 64, self.k), self.how, seed)
        b = _raw(self.kinds[1], (ctas, self.k, N), self.how, seed + 1)
        c = _raw(self.kinds[2], (ctas, 64, N), self.how, seed + 2)
        if self.how == "cancelling":
            half = self.k // 2
            sign = a.dtype.type(1 << 8 * a.itemsize - 1)
            a[..., half:] = a[..., :half] ^ sign
            b[:, half:] = b[:, :half]
            b[:, -1] ^= b.dtype.type(1 << formats.format_of(self.kinds[1]).shift)
        if self.how == "subnormal" and self.kinds[2] == "f32":
            # As small as the products, not as float32 can be.
            lowest = 2 * formats.format_of(self.kinds[0]).lowest_exponent
            c = (c & 0x80FFFFFF) + np.uint32(max(lowest + 127, 0) << 23)
        if self.how == "underflow" and self.kinds[2] == "f32":
            c = c & np.uint32(0x80000007)
        c[::2, :, : N // 2] = 0
        return a, b, c

    def source(self, ctas: int) -> np.ndarray:
        """What the kernel is given: A, B and the registers of C, one CTA after the other."""
        a, b, c = self.operands(ctas)
        where = wgmma_accumulator(N)
        parts = []
        for i in range(ctas):
            registers = np.ascontiguousarray(c[i][where.row, where.column])
            parts += [core_matrices(a[i]), core_matrices(np.ascontiguousarray(b[i].T)),
                      registers.view(np.uint8).reshape(-1)]  # fmt: skip
        return np.concatenate(parts)

    @property
    def registers(self) -> int:
        """Registers of D in a thread."""
        return N // 4 if self.kinds[2] == "f16" else N // 2

    def ptx(self) -> str:
        """The kernel."""
        factors = 2048 + 32 * N
        stride = factors + 512 * self.registers
        a, b, d = self.kinds
        names = ", ".join(f"%a{10 + i}" for i in range(self.registers))
        text = _HEAD.format(shared=4096, more="")
        text += f"mad.wide.u32 %d0, cta, {stride}, src;\n" + _COPY.format(words=factors // 4)
        text += f"mad.wide.u32 %d1, t, {4 * self.registers}, %d0;\n"
        for i in range(self.registers):
            text += f"ld.global.u32 %a{10 + i}, [%d1+{factors + 4 * i}];\n"
        immediates = ", 1, 1" + (", 0, 0" if a in ("f16", "bf16") else "")
        text += f"""add.u64 %d3, %d2, {descriptor(1024, 128)};
add.u64 %d4, %d2, {descriptor(128, 128) + (2048 >> 4)};
setp.eq.u32 %p2, t, t;
wgmma.fence.sync.aligned;
wgmma.mma_async.sync.aligned.m64n{N}k{self.k}.{d}.{a}.{b} {{{names}}}, %d3, %d4, %p2{immediates};
wgmma.commit_group.sync.aligned;
wgmma.wait_group.sync.aligned 0;
mad.lo.u32 %a1, cta, 128, t;
mad.wide.u32 %d1, %a1, {4 * self.registers}, dst;
"""
        for i in range(self.registers):
            text += f"st.global.u32 [%d1+{4 * i}], %a{10 + i};\n"
        return text + "ret;\n}\n"

    def matrices(self, words: np.ndarray, ctas: int) -> np.ndarray:
        """Bits of D, (ctas, 64, 8), of the words the kernel stores."""
        kind = np.dtype("u2" if self.kinds[2] == "f16" else "u4")
        where = wgmma_accumulator(N)
        found = np.empty((ctas, 64, N), kind)
        found[:, where.row, where.column] = words.view(kind).reshape(ctas, 128, -1)
        return found


ROUNDINGS = tuple(Rounding(kinds, how) for kinds, how in product(KINDS, CLASSES))

_IMAGE = 32768
_MODES = {"none": 0, "128B": 1, "64B": 2, "32B": 3}


@dataclass(frozen=True)
class Pointing:
    """One descriptor: what it says, and for which operand."""

    operand: str
    major: str
    swizzle: str
    start: int
    leading: int
    stride: int
    base_offset: int = 0

    @property
    def name(self) -> str:
        """Its fields."""
        return (
            f"{self.operand} {self.major} {self.swizzle} at {self.start} lbo {self.leading}"
            f" sbo {self.stride} base {self.base_offset}"
        )

    def value(self, base: int = 0) -> int:
        """The 64 bits, for an image at a shared address."""
        return (
            (self.start + base) >> 4 | self.leading >> 4 << 16 | self.stride >> 4 << 32
            | self.base_offset << 49 | _MODES[self.swizzle] << 62
        )  # fmt: skip

    @property
    def rows(self) -> int:
        """Rows of A or columns of B."""
        return 64


def _pointings() -> tuple[Pointing, ...]:
    found = []
    for operand, swizzle in product("AB", ("none", "128B", "64B", "32B")):
        width = {"none": 16, "128B": 128, "64B": 64, "32B": 32}[swizzle]
        atom = 8 * width
        starts = sorted({0, 16, 32, 64, 96, 128, 384, 1024, 896, 2048 + 128})
        for start in starts:
            for base_offset in (0,) if swizzle == "none" else (0, (start >> 7) & 7):
                if base_offset or start == 0 or (start >> 7) & 7 == 0 or True:
                    for leading, stride in ((1024, atom), (atom, 2048)):
                        found.append(Pointing(operand, "K", swizzle, start, leading, stride,
                                              base_offset))  # fmt: skip
                    for leading, stride in ((4096, atom), (atom, 4096), (2048, 1024)):
                        found.append(Pointing(operand, "MN", swizzle, start, leading, stride,
                                              base_offset))  # fmt: skip
    for operand, base_offset, swizzle in product("AB", range(1, 8), ("128B", "64B", "32B")):
        for start in (0, 128, 128 * base_offset, 1024 + 512, 32 + 128 * 5):
            found.append(Pointing(operand, "K", swizzle, start, 16, 1024, base_offset))
        found.append(Pointing(operand, "MN", swizzle, 128 * base_offset, 4096, 1024, base_offset))
    return tuple(dict.fromkeys(found))


POINTINGS = _pointings()


def pointing_image() -> np.ndarray:
    """The numbers that say where they are, and the identity of 64 rows in core matrices."""
    numbers = np.arange(_IMAGE // 2, dtype=np.uint16) + np.uint16(0x0400)
    identity = np.zeros((64, 16), np.uint16)
    identity[:16] = np.eye(16, dtype=np.uint16) * np.uint16(0x3C00)
    return np.concatenate([numbers.view(np.uint8), core_matrices(identity)])


def pointing_ptx(operand: str, major: str) -> str:
    """The kernel for one operand and direction; a CTA takes the descriptor of its number."""
    n = 16 if operand == "A" else 64
    count = n // 2
    turned = (int(major == "MN"), 0) if operand == "A" else (0, int(major == "MN"))
    # The identity: as A 64 rows, as B 16 columns, of which the core matrices lie 1024 apart.
    still = descriptor(1024, 128) + (_IMAGE >> 4)
    names = ", ".join(f"%f{i}" for i in range(count))
    factors = "%d3, %d4" if operand == "A" else "%d4, %d3"
    text = _HEAD.format(shared=_IMAGE + 2048, more=", .param .u64 descriptors")
    text += "mov.u64 %d0, src;\n" + _COPY.format(words=(_IMAGE + 2048) // 4)
    text += f"""ld.param.u64 %d5, [descriptors];
mad.wide.u32 %d5, cta, 8, %d5;
ld.global.u64 %d3, [%d5];
add.u64 %d3, %d3, %d2;
add.u64 %d4, %d2, {still};
setp.ne.u32 %p2, t, t;
"""
    text += "".join(f"mov.f32 %f{i}, 0f00000000;\n" for i in range(count))
    text += f"""wgmma.fence.sync.aligned;
wgmma.mma_async.sync.aligned.m64n{n}k16.f32.f16.f16 {{{names}}}, {factors}, %p2, 1, 1, {turned[0]},
    {turned[1]};
wgmma.commit_group.sync.aligned;
wgmma.wait_group.sync.aligned 0;
mad.lo.u32 %a1, cta, 128, t;
mad.wide.u32 %d1, %a1, {4 * count}, dst;
"""
    text += "".join(f"st.global.f32 [%d1+{4 * i}], %f{i};\n" for i in range(count))
    return text + "ret;\n}\n"


def pointed(operand: str, words: np.ndarray, ctas: int) -> np.ndarray:
    """Byte offsets in the image of each element, (ctas, 64, 16); -1 for what is no number."""
    n = 16 if operand == "A" else 64
    where = wgmma_accumulator(n)
    d = np.empty((ctas, 64, n), np.float32)
    d[:, where.row, where.column] = words.view(np.float32).reshape(ctas, 128, -1)
    read = d if operand == "A" else d[:, :16].swapaxes(1, 2)
    with np.errstate(all="ignore"):
        codes = read.astype(np.float16).view(np.uint16).astype(np.int32)
    found: np.ndarray = np.where(codes >= 0x0400, (codes - 0x0400) * 2, -1)
    return found
