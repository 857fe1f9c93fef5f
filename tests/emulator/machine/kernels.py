"""Small kernels for tests that are no case of a table: any parameters, any launch."""

from __future__ import annotations

from typing import Any

from fa4kernel.emulator import Emulation, Launch, emulate


def kernel(body: str, parameters: int = 1, shared: int = 1024, target: str = "sm_100a") -> str:
    """A module whose entry has pointers ``p0``, ``p1``, … and ``base``, the address of ``smem``.

    Registers: ``t`` (thread), ``rank`` (of the CTA), ``%a…`` and ``%b…`` (32 bits), ``%d…`` (64),
    ``%q…`` (128), ``%f…`` (f32), ``%h…`` (16), ``%p…``.
    """
    names = range(parameters)
    declared = ", ".join(f".param .u64 x{i}" for i in names)
    loads = "".join(f"ld.param.u64 p{i}, [x{i}];\n" for i in names)
    pointers = "".join(f", p{i}" for i in names)
    return f""".version 8.8
.target {target}
.address_size 64
.visible .entry k({declared})
{{
.reg .b64 %d<64>{pointers};
.reg .b32 t, rank, base, %a<160>, %b<64>;
.reg .f32 %f<160>;
.reg .b16 %h<32>;
.reg .b128 %q<4>;
.reg .pred %p<16>;
.shared .align 1024 .b8 smem[{shared}];
mov.u32 base, smem;
mov.u32 t, %tid.x;
mov.u32 rank, %cluster_ctarank;
{loads}{body}
ret;
}}
"""


def run(
    body: str, *arguments: Any, threads: int = 32, ctas: int = 1, cluster: int = 1,
    shared: int = 1024, target: str = "sm_100a", checks: str = "off", **options: Any,
) -> Emulation:  # fmt: skip
    """Run a kernel of :func:`kernel`, with the checks off."""
    text = kernel(body, len(arguments), shared, target)
    launch = Launch((ctas, 1, 1), (threads, 1, 1), (cluster, 1, 1), arguments=arguments)
    return emulate(text, launch, checks=checks, **options)
