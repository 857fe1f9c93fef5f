"""TMA copies of one box: swizzles, edges, fills, conversions, element strides.

A load fills shared memory with 0xAB, has one box brought there, and stores all of it; a store has
one box of shared memory, which holds its own word numbers, written into the tensor.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fa4kernel.emulator import Launch
from fa4kernel.emulator.tensor.tensor_map import ELEMENT_TYPES, TensorMap
from tests.emulator.device import bits

WINDOW = 4096
TX = "mbarrier::complete_tx::bytes"
_THREADS = 128

_HEAD = """.version 8.8
.target sm_90a
.address_size 64
.visible .entry k(.param .align 64 .b8 map[128], .param .u64 target, .param .u32 expected,
    .param .u32 c0, .param .u32 c1, .param .u32 c2, .param .u32 c3, .param .u32 c4)
{{
.reg .b64 m, dst, %d<8>;
.reg .b32 t, base, bytes, %a<16>, %c<5>;
.reg .pred %p<8>;
.shared .align 1024 .b8 smem[{total}];
mov.u32 base, smem;
mov.u32 t, %tid.x;
mov.b64 m, map;
cvta.param.u64 m, m;
ld.param.u64 dst, [target];
ld.param.u32 bytes, [expected];
ld.param.u32 %c0, [c0];
ld.param.u32 %c1, [c1];
ld.param.u32 %c2, [c2];
ld.param.u32 %c3, [c3];
ld.param.u32 %c4, [c4];
setp.eq.u32 %p0, t, 0;
mad.lo.u32 %a0, t, 4, base;
mov.u32 %a1, t;
fill:
{value}
st.shared.u32 [%a0], %a2;
add.u32 %a0, %a0, 512;
add.u32 %a1, %a1, 128;
setp.lt.u32 %p1, %a1, {words};
@%p1 bra fill;
@%p0 mbarrier.init.shared::cta.b64 [base+{window}], 1;
fence.mbarrier_init.release.cluster;
fence.proxy.async.shared::cta;
bar.sync 0;
"""

_LOAD = """@!%p0 bra issued;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [base+{window}], bytes;
cp.async.bulk.tensor.{rank}d.shared::cluster.global.tile.{tx}
    [base+{offset}], [m, {{{coordinates}}}], [base+{window}];
issued:
mov.u32 %a3, 0;
wait:
mbarrier.try_wait.parity.shared::cta.b64 %p2, [base+{window}], 0, 10000;
@%p2 bra landed;
add.u32 %a3, %a3, 1;
setp.lt.u32 %p1, %a3, 100;
@%p1 bra wait;
landed:
selp.u32 %a4, 1, 0, %p2;
mad.wide.u32 %d1, t, 4, dst;
mad.lo.u32 %a0, t, 4, base;
mov.u32 %a1, t;
copy:
ld.shared.u32 %a2, [%a0];
st.global.u32 [%d1], %a2;
add.u32 %a0, %a0, 512;
add.u64 %d1, %d1, 512;
add.u32 %a1, %a1, 128;
setp.lt.u32 %p1, %a1, {words};
@%p1 bra copy;
@%p0 st.global.u32 [dst+{window}], %a4;
ret;
}}
"""

_STORE = """@!%p0 ret;
cp{reduce}.async.bulk.tensor.{rank}d.global.shared::cta{op}.tile.bulk_group
    [m, {{{coordinates}}}], [base+{offset}];
cp.async.bulk.commit_group;
cp.async.bulk.wait_group 0;
ret;
}}
"""


@dataclass(frozen=True)
class Box:
    """One copy of one box.

    Attributes:
        name: what is tested.
        dims, box, dtype, swizzle, oob, strides, element_strides: of the tensor map.
        at: coordinates of the box.
        offset: where it lies in shared memory.
        data: the tensor's memory, bytes; its own byte or element numbers if empty.
        store: "" for a load, "store", or a reduction.
        given: the words of shared memory before a store.
    """

    name: str
    dims: tuple[int, ...]
    box: tuple[int, ...]
    at: tuple[int, ...]
    dtype: str = "u32"
    swizzle: str = "none"
    oob: Any = "zero"
    strides: tuple[int, ...] = ()
    element_strides: tuple[int, ...] = ()
    offset: int = 0
    data: Any = None
    store: str = ""
    given: Any = field(default=None)

    @property
    def array(self) -> np.ndarray:
        """A fresh tensor."""
        kind = ELEMENT_TYPES[self.dtype]
        if self.data is not None:
            return np.array(self.data).view(kind).reshape(-1).copy()
        size = kind.itemsize
        last = self.dims[-1] * (self.strides[-1] if self.strides else 1)
        count = last // size if self.strides else int(np.prod(self.dims))
        if self.store:
            return np.ones(count, f"u{size}").view(kind)
        return (np.arange(count) % 65521 + 1).astype(f"u{size}").view(kind)

    def ptx(self) -> str:
        """The kernel."""
        rank = len(self.dims)
        value = "mov.u32 %a2, 0xABABABAB;" if not self.store else (
            "mul.lo.u32 %a2, %a1, 0x01000193; xor.b32 %a2, %a2, 0x0badcafe;"
            if self.given is None
            else self.given
        )  # fmt: skip
        text = _HEAD + (_STORE if self.store else _LOAD)
        plain = self.store in ("", "store")
        return text.format(
            total=WINDOW + 1024, window=WINDOW, words=WINDOW // 4, value=value, rank=rank, tx=TX,
            coordinates=", ".join(f"%c{i}" for i in range(rank)), offset=self.offset,
            reduce="" if plain else ".reduce", op="" if plain else f".{self.store}",
        )  # fmt: skip

    def launch(self) -> tuple[Launch, np.ndarray]:
        """The launch, and the array that has what comes out: shared memory, or the tensor."""
        array, window = self.array, np.full(WINDOW + 4, 0xEE, np.uint8)
        tensor_map = TensorMap(
            array, self.dims, box=self.box, dtype=self.dtype, swizzle=self.swizzle, oob=self.oob,
            strides=self.strides, element_strides=self.element_strides,
        )  # fmt: skip
        at = [*self.at, 0, 0, 0, 0][:5]
        arguments = [tensor_map, window, tensor_map.box_bytes, *at]
        launch = Launch((1, 1, 1), (_THREADS, 1, 1), arguments=arguments)
        return launch, array if self.store else window


def _swizzles() -> list[Box]:
    found = []
    for mode, width in (
        ("none", 128), ("32B", 32), ("64B", 64), ("128B", 128),
    ):  # fmt: skip
        for inner in (128, 96, 64, 48, 32, 16):
            if inner <= width:
                found.append(Box(f"{mode}, {inner} bytes wide", (64, 40), (inner // 4, 17), (4, 2),
                                 swizzle=mode))  # fmt: skip
        if mode != "none":
            for offset in (128, 384, 896):
                found.append(Box(f"{mode} at {offset}", (64, 40), (width // 4, 11), (0, 1),
                                 swizzle=mode, offset=offset))  # fmt: skip
    found.append(Box("no swizzle at 128", (64, 40), (12, 9), (8, 1), offset=128))
    return found


def _edges() -> list[Box]:
    found = []
    places = [(-4, -2), (56, 35), (-100, 0), (64, 3), (0, 40), (-16, -8), (60, 39), (-12, 38)]
    for i, at in enumerate(places):
        for mode in ("none", "128B"):
            found.append(Box(f"edge {i}, {mode}", (64, 40), (16, 8), at, swizzle=mode))
    kinds = ("f16", "bf16", "f32", "f64", "tf32", "f32_ftz", "tf32_ftz")
    for kind in kinds:
        size = ELEMENT_TYPES[kind].itemsize
        found.append(Box(f"NaN beyond {kind}", (20, 6), (48 // size, 4), (-16 // size, 4), kind,
                         oob="nan", strides=(160,)))  # fmt: skip
    for kind in ("u8", "u16", "s32", "u64", "s64", *kinds):
        size = ELEMENT_TYPES[kind].itemsize
        found.append(Box(f"zero beyond {kind}", (20, 6), (48 // size, 4), (16 // size, -1), kind,
                         strides=(160,)))  # fmt: skip
    found += [
        Box("rank 1", (100,), (64,), (72,)),
        Box("rank 3", (12, 5, 4), (8, 3, 2), (-4, 3, -1)),
        Box("rank 4", (12, 5, 4, 3), (8, 3, 2, 2), (8, -1, 3, 1)),
        Box("rank 5", (12, 5, 4, 3, 2), (4, 3, 2, 2, 2), (8, 3, -1, 2, 1)),
        Box("256 wide", (300, 3), (256, 2), (52, 1)),
        Box("256 high", (8, 300), (4, 256), (4, 60)),
        Box("dims that are no multiple of the stride", (13, 7), (8, 4), (8, 5), strides=(64,)),
        Box(
            "strides that overlap",
            (32, 5),
            (16, 4),
            (4, 0),
            strides=(32,),
            data=np.arange(96, dtype=np.uint32),
        ),
        Box(
            "a stride of zero",
            (16, 5),
            (16, 4),
            (0, 0),
            strides=(0,),
            data=np.arange(16, dtype=np.uint32),
        ),
    ]
    return found


#: Boxes whose first element is at no multiple of 16 bytes, and stores at negative coordinates:
#: illegal instructions to an H200.
TRAPS = (
    Box("1 element in", (64, 40), (16, 8), (1, 0)),
    Box("3 elements before", (64, 40), (16, 8), (-3, 0)),
    Box("half 16 bytes in, f16", (64, 40), (16, 8), (4, 0), "f16"),
    Box("3 elements in, wholly beyond", (64, 40), (16, 8), (67, 0)),
    Box("store 1 element in", (64, 40), (16, 8), (1, 0), store="store"),
    Box("store before the tensor", (64, 40), (16, 8), (-4, 0), store="store"),
    Box("store above the tensor", (64, 40), (16, 8), (0, -2), store="store"),
    Box("add before the tensor", (64, 40), (16, 8), (-4, 0), store="add"),
)


def _strided() -> list[Box]:
    found = []
    for i, (steps, box, at) in enumerate(
        [((1, 2), (16, 8), (0, 0)), ((1, 3), (16, 8), (0, 1)), ((2, 1), (16, 8), (0, 0)),
         ((1, 8), (8, 32), (0, 3)), ((1, 2), (16, 8), (0, -3)), ((1, 3), (16, 8), (4, -4)),
         ((1, 2), (16, 7), (0, 36)), ((1, 3), (16, 9), (56, 35)), ((4, 2), (16, 6), (4, 0))]
    ):  # fmt: skip
        found.append(Box(f"element strides {i}: {steps} of {box}", (64, 40), box, at,
                         element_strides=steps))  # fmt: skip
    found.append(Box("element strides of three", (16, 12, 10), (16, 5, 7), (0, -2, 4),
                     element_strides=(1, 2, 3)))  # fmt: skip
    found.append(Box("element strides, swizzled", (64, 40), (32, 16), (0, 0), swizzle="128B",
                     element_strides=(1, 2)))  # fmt: skip
    return found


def _conversions() -> list[Box]:
    given = bits.floats("f32", 512, 77, spread=3).astype(np.uint32)
    tiny = (bits.scrambled(256, 5) & np.uint64(0x80FFFFFF)).astype(np.uint32)
    ties = np.uint32(0x3F800000) + (np.arange(256, dtype=np.uint32) << np.uint32(11))
    data = np.concatenate([given, tiny, ties])
    found = []
    for kind in ("tf32", "tf32_ftz", "f32_ftz", "f32"):
        for part in range(2):
            found.append(Box(f"{kind} of any bits, part {part}", (512, 2), (256, 2),
                             (256 * part, 0), kind, data=data))  # fmt: skip
    halves = bits.floats("f16", 512, 78).astype(np.uint16)
    found.append(Box("f16 of any bits", (512,), (256,), (0,), "f16", data=halves))
    return found


def _stores() -> list[Box]:
    found = []
    for mode in ("none", "32B", "64B", "128B"):
        width = {"none": 16, "32B": 8, "64B": 16, "128B": 32}[mode]
        found.append(Box(f"store, {mode}", (64, 20), (width, 8), (4, 3), swizzle=mode,
                         offset=1024, store="store"))  # fmt: skip
    for i, at in enumerate([(56, 15), (60, 19), (64, 3), (0, 20), (0, 0)]):
        found.append(Box(f"store at edge {i}", (64, 20), (16, 8), at, store="store"))
    found += [
        Box("store of rank 3", (12, 5, 4), (8, 3, 2), (8, 3, 3), store="store"),
        Box("store with element strides", (64, 20), (16, 8), (4, 1), element_strides=(1, 3),
            store="store"),
        Box("store of tf32", (64, 8), (64, 8), (0, 0), "tf32", store="store"),
        Box("store of f32_ftz", (64, 8), (64, 8), (0, 0), "f32_ftz", store="store",
            given="mul.lo.u32 %a2, %a1, 0x40001;"),
    ]  # fmt: skip
    for op, kind in (
        ("add", "u32"), ("add", "s32"), ("add", "u64"), ("min", "u32"), ("max", "s32"),
        ("min", "s64"), ("max", "u64"), ("inc", "u32"), ("dec", "u32"), ("and", "u32"),
        ("or", "u32"), ("xor", "u64"),
    ):  # fmt: skip
        size = ELEMENT_TYPES[kind].itemsize
        data = bits.integers(8 * size, 512, 9).astype(f"u{size}")
        found.append(Box(f"{op} of {kind}", (32, 16), (32, 8), (16, 2), kind, data=data, store=op))
    for op, kind in (("add", "f16"), ("min", "f16"), ("max", "f16"), ("add", "bf16"),
                     ("min", "bf16"), ("max", "bf16"), ("add", "f32"), ("add", "f64"),
                     ("add", "f32_ftz")):  # fmt: skip
        size = ELEMENT_TYPES[kind].itemsize
        data = bits.floats({2: "f16", 4: "f32", 8: "f64"}[size], 512, 9).astype(f"u{size}")
        if kind == "bf16":
            data = bits.floats("bf16", 512, 9).astype(np.uint16)
        found.append(Box(f"{op} of {kind}", (32, 16), (32, 8), (0, 2), kind, data=data, store=op))
    return found


BOXES = (*_swizzles(), *_edges(), *_strided(), *_conversions(), *_stores())
