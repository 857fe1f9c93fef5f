"""What a kernel's launch must look like, read from the compiler's intermediate representation.

The host function is kept together with the kernel. It says how a tensor becomes parameters, which
box and which swizzle each tensor map has, and how large cluster, block and shared memory are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from fa4kernel.official.layouts import Tree, parse_layout

Kind = Literal["extents", "tensor", "map", "f32", "i32", "divmod", "pointer", "unread"]


@dataclass(frozen=True)
class Argument:
    """One kernel parameter.

    Attributes:
        kind: ``extents`` are a tensor's sizes alone, ``tensor`` its pointer, sizes and strides;
            ``unread`` describes an MMA, which the kernel never asks.
        shape, stride: printed layout of a tensor.
        box, basis: of a map: extents, and the tensor's mode that each dimension runs along.
        swizzle: of a map, as the emulator spells it.
        element: of a tensor or map, as the DSL spells it.
    """

    kind: Kind
    shape: Tree = ()
    stride: Tree = ()
    box: Tree = ()
    basis: Tree = ()
    swizzle: str = "none"
    element: str = ""


@dataclass(frozen=True)
class Facts:
    """A kernel's entry name, its parameters, and the sizes of its launch."""

    entry: str
    arguments: tuple[Argument, ...]
    block: tuple[int, int, int]
    cluster: tuple[int, int, int]
    shared_bytes: int


_SWIZZLES = {"S<3,4,3>": "128B", "S<2,4,3>": "64B", "S<1,4,3>": "32B", "S<0,4,3>": "none"}
_STATIC = ("!cute.composed_layout", "!cute.layout", "!cute.tiled_copy")


def read(ir: str) -> Facts:
    """The facts of the one kernel in a module.

    Args:
        ir: text of the kept representation.

    Raises:
        ValueError: a parameter's type is not known.
    """
    ir = re.sub(r" loc\((?:[^()\"]|\"[^\"]*\")*\)", "", ir)
    types = dict(re.findall(r"^(!\w+) = (.*)$", ir, re.MULTILINE))
    (found,) = re.finditer(r"cuda\.kernel @(\S+?)\(", ir)
    header, _ = _enclosed(ir, found.end())
    attributes = ir[found.end() + len(header) : ir.index("\n", found.end())]
    swizzles = _map_swizzles(ir)
    arguments = []
    for position, declaration in enumerate(_split(header)):
        text = declaration.split(": ", 1)[1]
        text = re.sub(r"!\w+", lambda name: types.get(name[0], name[0]), text)
        argument = _argument(text, swizzles.get(position, "none"))
        if argument is not None:
            arguments.append(argument)
    return Facts(
        entry=found[1],
        arguments=tuple(arguments),
        block=_dim3(attributes, "exact_block_dim") or (1, 1, 1),
        cluster=_dim3(attributes, "exact_cluster_dim") or (1, 1, 1),
        shared_bytes=_shared_bytes(ir, types),
    )


def _argument(text: str, swizzle: str) -> Argument | None:
    if text.startswith(_STATIC):
        assert "?" not in text, text
        return None
    if text in ("f32", "i32"):
        return Argument(text)  # type: ignore[arg-type]
    if text.startswith("!cute.fast_divmod_divisor"):
        return Argument("divmod")
    if text.startswith("!cute.tiled_mma"):
        return Argument("unread")
    if text.startswith("!cute.ptr<"):
        return Argument("pointer")
    if text.startswith("!cute.coord_tensor<"):
        shape, stride = parse_layout(re.findall(r'"([^"]*)"', text)[1])
        return Argument("extents", shape, stride)
    if text.startswith("!cute.memref<"):
        shape, stride = parse_layout(re.findall(r'"([^"]*)"', text)[-1])
        return Argument("tensor", shape, stride, element=re.findall(r"memref<(\w+)", text)[0])
    if text.startswith("!cute_nvgpu.atom.non_exec_tiled_tma"):
        box, basis = parse_layout(re.findall(r'tma_gbasis = <"([^"]*)">', text)[0])
        element = re.findall(r"(bf16|f16|f32|f8\w+), copy_bits", text)[0]
        return Argument("map", box=box, basis=basis, swizzle=swizzle, element=element)
    raise ValueError(f"kernel parameter of type {text} is not known")


def _map_swizzles(ir: str) -> dict[int, str]:
    """Swizzle of each map, by its position among the launch's operands."""
    made = {
        name: _SWIZZLES[swizzle]
        for name, swizzle in re.findall(
            r"(%\w+), %\w+ = cute_nvgpu\.atom\.make_non_exec_tiled_tma_\w+\(.*?"
            r'!cute\.composed_layout<"(S<\d,\d,\d>)',
            ir,
        )
    }
    launch = re.search(r"cuda\.launch_ex @\S+<%\w+> \(([^)]*)\)", ir)
    operands = launch[1].split(", ") if launch else []
    return {n: made[operand] for n, operand in enumerate(operands) if operand in made}


def _shared_bytes(ir: str, types: dict[str, str]) -> int:
    """Dynamic shared memory: the allocations behind each other, each aligned as its type says."""
    total = 0
    for name in re.findall(r"memref\.alloca\(\) \{smem\.[^}]*\} : (!\w+)", ir):
        align = int((re.findall(r"align<(\d+)>", types[name]) or ["1"])[0])
        size = int(re.findall(r'"(\d+):1"', types[name])[0])
        total = -(-total // align) * align + size
    return total


def _dim3(text: str, name: str) -> tuple[int, int, int] | None:
    found = re.search(name + r" = array<i64: (\d+), (\d+), (\d+)>", text)
    return (int(found[1]), int(found[2]), int(found[3])) if found else None


def _enclosed(text: str, start: int) -> tuple[str, int]:
    """The text up to the bracket that closes the one before ``start``, and where that is."""
    depth = 1
    for position, character in _outside_quotes(text, start):
        depth += (character in "([{") - (character in ")]}")
        if depth == 0:
            return text[start:position], position
    raise ValueError("a bracket is not closed")


def _split(text: str) -> Iterator[str]:
    """Pieces between the commas that no bracket encloses."""
    depth = start = 0
    for position, character in _outside_quotes(text, 0):
        depth += (character in "<([{") - (character in ">)]}")
        if character == "," and depth == 0:
            yield text[start:position].strip()
            start = position + 1
    yield text[start:].strip()


def _outside_quotes(text: str, start: int) -> Iterator[tuple[int, str]]:
    quoted = False
    for position in range(start, len(text)):
        character = text[position]
        quoted ^= character == '"'
        if not quoted and character != '"':
            yield position, character
