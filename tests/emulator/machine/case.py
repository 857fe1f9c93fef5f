"""One test of an instruction: a small kernel, what it is given, and what must come out.

A case is data: the PTX runs on the emulator here, and as it is on a GPU that has the instruction.
Every kernel takes two pointers, to its input and to its output, and finds in registers

- ``src``, ``dst`` (64 bits): these pointers; ``t``: its thread's number; ``rank``: its CTA's rank;
- ``mine``: the address of this thread's output words;
- ``base``: the shared address of ``smem``, aligned to 1024 bytes, of the case's size;
- ``%a0``–``%a31``, ``%b…`` (32 bits), ``%d…`` (64 bits), ``%q…`` (128), ``%f…`` (f32), ``%h…``
  (16), ``%p…``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fa4kernel.emulator import Emulation, Launch, emulate

Array = np.ndarray[Any, Any]

HEAD = """.version 8.8
.target {target}
.address_size 64
.visible .entry k(.param .u64 source, .param .u64 target)
{{
.reg .b64 src, dst, mine, %d<64>;
.reg .b32 t, rank, base, %a<160>, %b<64>;
.reg .f32 %f<160>;
.reg .f64 %g<16>;
.reg .b16 %h<32>;
.reg .b128 %q<4>;
.reg .pred %p<16>;
{shared}
ld.param.u64 src, [source];
ld.param.u64 dst, [target];
mov.u32 t, %tid.x;
mov.u32 rank, %cluster_ctarank;
mov.u32 %a0, %ctaid.x;
mov.u32 %a1, %ntid.x;
mad.lo.u32 %a0, %a0, %a1, t;
mul.wide.u32 %d0, %a0, {bytes};
add.u64 mine, dst, %d0;
{body}
ret;
}}
"""


@dataclass(frozen=True)
class Case:
    """A kernel's body, its input and the output it must give.

    Attributes:
        name: what is tested.
        body: PTX statements.
        expected: the whole output, or a function that makes it of the input.
        source: the input.
        words: 32-bit words of output of each thread.
        threads, ctas, cluster: the launch.
        shared: bytes of ``smem``.
        needs: the oldest architecture that has the instruction.
    """

    name: str
    body: str
    expected: Array | Callable[[Array], Array]
    source: Array
    words: int = 1
    threads: int = 32
    ctas: int = 1
    cluster: int = 1
    shared: int = 0
    needs: str = "sm_90"

    @property
    def ptx(self) -> str:
        """The module."""
        shared = ""
        if self.shared:
            shared = f".shared .align 1024 .b8 smem[{self.shared}];\n mov.u32 base, smem;"
        target = {"sm_90": "sm_90a", "sm_100": "sm_100a"}.get(self.needs, self.needs)
        return HEAD.format(target=target, shared=shared, bytes=4 * self.words, body=self.body)

    @property
    def wanted(self) -> Array:
        """The whole output."""
        found = self.expected(self.source) if callable(self.expected) else self.expected
        return np.ascontiguousarray(found).reshape(-1)


def run(case: Case, **options: Any) -> tuple[Array, Emulation]:
    """The output of a case on the emulator; words that the kernel does not write stay 0xAB…."""
    wanted = case.wanted
    out = np.full(wanted.nbytes, 0xAB, np.uint8)
    launch = Launch(
        (case.ctas, 1, 1), (case.threads, 1, 1), (case.cluster, 1, 1),
        arguments=[np.array(case.source), out],
    )  # fmt: skip
    emulation = emulate(case.ptx, launch, **options)
    return out.view(wanted.dtype), emulation


def complaint(case: Case, got: Array) -> str:
    """What differs from the expectation, or nothing."""
    wanted = case.wanted
    wrong = got.view(f"u{got.itemsize}") != wanted.view(f"u{wanted.itemsize}")
    if not wrong.any():
        return ""
    first = int(np.flatnonzero(wrong)[0])
    return (
        f"{case.name}: {np.count_nonzero(wrong)} of {wrong.size} are wrong, first [{first}] ="
        f" {got[first]!r}, not {wanted[first]!r}"
    )
