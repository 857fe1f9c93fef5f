"""A launch description to start from: valid Python with every parameter and what it seems to be."""

from __future__ import annotations

from fa4kernel.emulator.inspection.parameters import Field, ParameterUse
from fa4kernel.emulator.inspection.report import Kernel
from fa4kernel.emulator.launch import MOST_SHARED_BYTES

#: NumPy types of fields by their size and whether they are floats.
NUMBERS = {("f", 4): "float32", ("f", 8): "float64", ("", 1): "uint8", ("", 2): "uint16",
           ("", 4): "int32", ("", 8): "int64"}  # fmt: skip

HEAD = '''"""How `{short}` is launched in the PTX emulator.

Written by `fa4kernel inspect`: the parameters are those of the PTX, what they are for is a guess,
and every value is made up. Put in what the host code passes, then run

    fa4kernel emulate FILE.ptx --launch THIS_FILE.py
"""

import numpy as np

from fa4kernel.emulator import Launch, Pointer, Struct, TensorMap

# What the kernel reads and writes. bf16 is kept as uint16, fp8 as uint8. An array argument is a
# pointer to its first byte; Pointer(array, byte_offset) points further on.
{arrays}

def launch() -> Launch:
    """Describe the launch; called once, before the run."""
    arguments = [
{arguments}
    ]
    return Launch(
        grid={cluster},  # CTAs: a multiple of the cluster
        block={block},  # threads of a CTA{block_note}
        cluster={cluster},  # {cluster_note}
        shared_bytes={shared},  # dynamic shared memory{shared_note}
        arguments=arguments,
        entry={entry!r},
    )


# def check() -> bool:
#     """Called after the run, when the arrays above hold the outputs: are they right?"""
#     return np.allclose(..., ...)
'''


def template(kernel: Kernel) -> str:
    """Python that describes a launch of a kernel, to be completed by its author."""
    arrays: list[str] = []
    arguments: list[str] = []
    for parameter in kernel.parameters:
        value = _value(parameter, arrays)
        arguments.append(f"        # {_about(parameter)}\n        {value},")
    pair = any("cta_group::2" in i.qualifiers for i in kernel.function.instructions)
    cluster = kernel.cluster or ((2, 1, 1) if pair else (1, 1, 1))
    note = "as the PTX says" if kernel.cluster else "CTAs of a cluster: not in the PTX"
    if pair and not kernel.cluster:
        note += ", but it works in CTA pairs"
    dynamic = any(v.size is None for v in kernel.shared)
    used = f": the kernel uses {kernel.dynamic_bytes:,} bytes or more"
    return HEAD.format(
        short=_short(kernel.name), arrays="\n".join(arrays) + "\n" if arrays else "",
        arguments="\n".join(arguments), block=kernel.block, cluster=cluster, cluster_note=note,
        block_note="" if kernel.block_is_known else ": not in the PTX",
        shared=MOST_SHARED_BYTES if dynamic else 0, shared_note=used if dynamic else ": none",
        entry=kernel.name,
    )  # fmt: skip


def _short(name: str) -> str:
    return name if len(name) <= 60 else f"{name[:57]}..."


def _value(parameter: ParameterUse, arrays: list[str]) -> str:
    """The argument for a parameter; arrays that it needs are added to ``arrays``."""
    name = f"array_{parameter.index}"
    if parameter.kind == "unread":
        return "None"
    if parameter.kind == "tensor map":
        rank = parameter.rank or 2
        shape = (64,) if rank == 1 else (*(1,) * (rank - 2), 128, 128)
        box = (64,) if rank == 1 else (64, 128, *(1,) * (rank - 2))
        order = tuple(range(rank - 1, -1, -1))
        arrays.append(f"{name} = np.zeros({shape}, np.uint16)")
        swizzle = "none" if rank == 1 else "128B"
        return f'TensorMap.of({name}, {order}, {box}, "{swizzle}", dtype="bf16")'
    if parameter.kind == "pointer":
        arrays.append(f"{name} = np.zeros(1024, np.float32)")
        return name
    if parameter.kind == "scalar":
        kind = parameter.type if parameter.type != "b8" else parameter.fields[0].type
        return _number(kind, parameter.size)
    return _struct(parameter, arrays)


def _number(kind: str, size: int) -> str:
    return f"np.{NUMBERS.get((kind[0] if kind[0] == 'f' else '', size), 'int32')}(0)"


def _struct(parameter: ParameterUse, arrays: list[str]) -> str:
    parts, at = [], 0
    for field in parameter.fields:
        if field.offset < at:
            continue  # two loads of one field
        if field.offset > at:
            parts.append(f"bytes({field.offset - at})")
        parts.append(_part(parameter, field, arrays))
        at = field.offset + field.size
    if at < parameter.size:
        parts.append(f"bytes({parameter.size - at})")
    return f"Struct({', '.join(parts)})"


def _part(parameter: ParameterUse, field: Field, arrays: list[str]) -> str:
    if not field.pointer:
        return _number(field.type, field.size)
    name = f"array_{parameter.index}" + (f"_{field.offset}" if field.offset else "")
    arrays.append(f"{name} = np.zeros(1024, np.float32)")
    return name


def _about(parameter: ParameterUse) -> str:
    size = f"{parameter.size} byte{'s' if parameter.size != 1 else ''}"
    text = f"{parameter.index}: {size}, {parameter.words}"
    lines = [*parameter.loads, *parameter.stores][:3]
    if not lines and parameter.kind in ("pointer", "scalar"):
        lines = list(parameter.fields[0].lines[:3])
    if lines:
        plural = "s" if len(lines) > 1 else ""
        text += f" (PTX line{plural} {', '.join(map(str, lines))})"
    return text
