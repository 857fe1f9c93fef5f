"""Scalar lines on a GPU: one kernel per line, many lines in a module.

A kernel loads a thread's bits of each source register, executes the line, and stores the bits of
each result; both are arrays of 64-bit words, one row per register.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from tests.emulator.device import bits
from tests.emulator.isa.case import Case, register_type

if TYPE_CHECKING:
    from fa4kernel.device import Gpu

HEAD = ".version 8.8\n.target sm_90a\n.address_size 64\n"
_THREADS = 128


def kernel(name: str, case: Case) -> str:
    """A kernel that executes a case's line on every thread's own inputs."""
    names = {n: register_type(kind) for n, kind in (*case.sources, *case.results)}
    body = "".join(f".reg .{kind} {n};\n" for n, kind in names.items())
    for i, (n, _) in enumerate(case.sources):
        body += f"mad.wide.u32 %at, %count, {8 * i}, %from;\n"
        if names[n] == "pred":
            body += f"ld.global.b32 %i, [%at];\nsetp.ne.u32 {n}, %i, 0;\n"
        else:
            body += f"ld.global.b{_width(names[n])} {n}, [%at];\n"
    body += case.text + "\n"
    for i, (n, _) in enumerate(case.results):
        body += f"mad.wide.u32 %at, %count, {8 * i}, %to;\n"
        if names[n] == "pred":
            body += f"selp.u32 %i, 1, 0, {n};\nst.global.b32 [%at], %i;\n"
        else:
            body += f"st.global.b{_width(names[n])} [%at], {n};\n"
    return f""".visible .entry {name}(.param .u64 {name}_s, .param .u64 {name}_d,
    .param .u32 {name}_n)
{{
.reg .b64 %from, %to, %at;
.reg .b32 %i, %j, %count;
.reg .pred %over;
ld.param.u64 %from, [{name}_s];
ld.param.u64 %to, [{name}_d];
ld.param.u32 %count, [{name}_n];
mov.u32 %i, %ctaid.x;
mov.u32 %j, %tid.x;
mad.lo.u32 %i, %i, {_THREADS}, %j;
setp.ge.u32 %over, %i, %count;
@%over ret;
mad.wide.u32 %from, %i, 8, %from;
mad.wide.u32 %to, %i, 8, %to;
{body}ret;
}}
"""


def _width(register: str) -> int:
    return int("".join(c for c in register if c.isdigit()))


def inputs(case: Case, count: int) -> list[np.ndarray]:
    """Bits of each source register, uint64 (count,); all 65,536 of a single one of 16 bits."""
    kinds = [kind for _, kind in case.sources]
    return [bits.values(kind, count, 10 + i) for i, kind in enumerate(kinds)]


def on_gpu(
    gpu: Gpu, cases: Sequence[Case], sources: Sequence[Sequence[np.ndarray]]
) -> list[list[np.ndarray] | str]:
    """Results of each case on its inputs, uint64 per register; a text where it is refused."""
    from fa4kernel.device import Refused

    text = HEAD + "".join(kernel(f"k{i}", case) for i, case in enumerate(cases))
    try:
        module = gpu.load(text)
    except Refused as refused:
        if len(cases) == 1:
            return [str(refused)]
        half = len(cases) // 2
        return on_gpu(gpu, cases[:half], sources[:half]) + on_gpu(gpu, cases[half:], sources[half:])
    found: list[list[np.ndarray] | str] = []
    for i, (case, columns) in enumerate(zip(cases, sources, strict=True)):
        count = len(columns[0])
        given = np.stack(columns).astype(np.uint64)
        got = np.zeros((len(case.results), count), np.uint64)
        source, target = gpu.allocate(given.nbytes), gpu.allocate(got.nbytes)
        gpu.upload(source, given)
        gpu.upload(target, got)
        parameters = [p.to_bytes(8, "little") for p in (source, target)]
        prepared = gpu.prepare(
            gpu.function(module, f"k{i}"), [*parameters, count.to_bytes(4, "little")],
            (-(-count // _THREADS), 1, 1), (_THREADS, 1, 1),
        )  # fmt: skip
        gpu.start(prepared)
        gpu.wait()
        gpu.download(target, got)
        gpu.free(source)
        gpu.free(target)
        found.append(list(got))
    gpu.unload(module)
    return found
