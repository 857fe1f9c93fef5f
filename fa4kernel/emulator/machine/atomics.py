"""Atomics: ``atom`` and ``red`` (PTX ISA 9.7.13.5 to 9.7.13.7).

Lanes that mean one address act in the order of their numbers; those that mean different ones act
together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fa4kernel.emulator.errors import EmulationError
from fa4kernel.emulator.machine.convoy import Convoy
from fa4kernel.emulator.machine.layout import RANK_SHIFT
from fa4kernel.emulator.machine.loads import bits_of, spread
from fa4kernel.emulator.machine.memory import aligned, check_aligned
from fa4kernel.emulator.machine.operands import items_of
from fa4kernel.emulator.machine.places import (
    HINTS,
    MEMORY,
    SPACES,
    Place,
    data_type,
    local_places,
    register_type,
    shared_places,
)
from fa4kernel.emulator.machine.program import Context, Handler, Outcome, decodes, unsupported
from fa4kernel.emulator.machine.registers import DTYPES
from fa4kernel.emulator.ptx.module import Instruction, Sink
from fa4kernel.emulator.tensor.reductions import reduced

if TYPE_CHECKING:
    from fa4kernel.emulator.machine.machine import Machine

Array = NDArray[Any]

FLOATS = ("f32", "f64", "f16", "bf16", "f16x2", "bf16x2")
INTEGERS = ("u32", "s32", "u64", "s64")
#: Types that each operation takes (PTX ISA 9.7.13.5 "atom", 9.7.13.6 "atom" with vectors).
TYPES = {
    "add": (*FLOATS, "u32", "s32", "u64"),
    "min": (*INTEGERS, "f16", "bf16", "f16x2", "bf16x2"),
    "max": (*INTEGERS, "f16", "bf16", "f16x2", "bf16x2"),
    "inc": ("u32",),
    "dec": ("u32",),
    "and": ("b32", "b64"),
    "or": ("b32", "b64"),
    "xor": ("b32", "b64"),
    "exch": ("b32", "b64", "b128"),
    "cas": ("b16", "b32", "b64", "b128"),
}
#: Types and lengths of vectors, in global memory only, of add, min and max.
VECTORS = {"v2": ("f32", "f16", "bf16", "f16x2", "bf16x2"), "v4": ("f32", "f16", "bf16", "f16x2",
           "bf16x2"), "v8": ("f16", "bf16")}  # fmt: skip


class Operation:
    """What an atomic does to the values in memory."""

    def __init__(self, instruction: Instruction) -> None:
        qualifiers = instruction.qualifiers
        known = {*SPACES, *HINTS, *MEMORY, *TYPES, *VECTORS, "noftz", "ftz"}
        for qualifier in qualifiers:
            if qualifier not in known:
                raise unsupported(instruction, f"unknown qualifier .{qualifier}")
        names = [q for q in qualifiers if q in TYPES]
        kind = data_type(instruction)
        if len(names) != 1 or kind not in TYPES[names[0]]:
            raise unsupported(instruction, f"type .{kind}")
        self.name, self.kind = names[0], kind
        self.vector = next((q for q in qualifiers if q in VECTORS), "")
        if self.vector and (
            self.name not in ("add", "min", "max")
            or kind not in VECTORS[self.vector]
            or (kind == "f32" and self.name != "add")
        ):
            raise unsupported(instruction, "no such vector")
        #: f32 sums in global memory flush subnormals (PTX ISA 9.7.13.5).
        self.flushes = kind == "f32" and self.name == "add"
        pairs = kind in ("f16x2", "bf16x2")
        self.element = kind[:-2] if pairs else kind
        self.dtype = np.dtype(MEMORY[kind])
        letter = {"b": "u"}.get(kind[0], kind[0])
        if self.element in ("f16", "f32", "f64"):
            self.view = np.dtype(f"f{np.dtype(MEMORY[self.element]).itemsize}")
        elif self.element == "bf16" or kind == "b128":
            self.view = np.dtype("u2")
        else:
            self.view = np.dtype(f"{letter.replace('s', 'i')}{self.dtype.itemsize}")

    def __call__(self, old: Array, given: list[Array], in_global: bool) -> Array:
        """What is left in memory, of what is there and the operands (all of ``dtype``)."""
        if self.name == "exch":
            return given[0]
        if self.name == "cas":
            parts = (-1, max(1, self.dtype.itemsize // 8))
            raw = np.dtype(f"u{min(8, self.dtype.itemsize)}")
            is_old = old.view(raw).reshape(parts) == given[0].view(raw).reshape(parts)
            return np.where(is_old.all(axis=1), given[1], old)
        a, b = old.view(self.view), given[0].view(self.view)
        kind = self.element.replace("b32", "u32").replace("b64", "u64")
        if self.flushes and in_global:
            return flushed(reduced(flushed(a), flushed(b), kind, "add")).view(self.dtype)
        return np.asarray(reduced(a, b, kind, self.name)).view(self.dtype)  # type: ignore[arg-type]


def flushed(values: Array) -> Array:
    """Float32 values with subnormals replaced by zeros of their sign."""
    tiny = np.abs(values) < np.finfo(np.float32).tiny
    return np.where(tiny, np.copysign(np.float32(0), values), values)


def one_after_the_other(memory: Array, at: NDArray[np.intp], given: list[Array],
                        act: Any) -> Array:  # fmt: skip
    """Let lanes act on the elements ``at``, those with the same one in turn; what each found."""
    old = np.empty(len(at), memory.dtype)
    left = np.arange(len(at))
    while len(left):
        _, first = np.unique(at[left], return_index=True)
        now = left[first]
        where = at[now]
        old[now] = memory[where]
        memory[where] = act(old[now], [g[now] for g in given])
        left = np.delete(left, first)
    return old


@decodes("atom", "red")
def decode_atom(instruction: Instruction, context: Context) -> Handler:
    """``atom`` and ``red`` in global, shared and local memory, scalars and vectors."""
    if "async" in instruction.qualifiers:
        from fa4kernel.emulator.machine.remote_stores import decode_red_async

        return decode_red_async(instruction, context)
    operation = Operation(instruction)
    gives = instruction.opcode == "atom"
    first = 1 if gives else 0
    place = Place(instruction, context, first)
    if operation.vector and place.space not in ("global", "generic"):
        raise unsupported(instruction, "vectors in other than global memory")
    wanted = 2 if operation.name == "cas" else 1
    operands = instruction.operands[first + 1 : first + 1 + wanted]
    if len(operands) != wanted:
        raise unsupported(instruction, f"{wanted} operands are wanted")
    sources = [[bits_of(context, i, operation.kind) for i in items_of(o)] for o in operands]
    targets = items_of(instruction.operands[0]) if gives else ()
    dtype = operation.dtype
    raw = dtype if dtype.kind == "c" else np.dtype(f"u{dtype.itemsize}")
    count = int(operation.vector[1:] or 1)
    if len(sources[0]) != count or (gives and len(targets) not in (1, count)):
        raise unsupported(instruction, f"{count} elements are wanted")
    total = dtype.itemsize * count

    def handler(machine: Machine, convoy: Convoy) -> Outcome:
        lanes = convoy.lanes()
        space, addresses = place.split(machine, lanes)
        check_aligned(addresses, total, instruction)
        if space == "param":
            raise EmulationError("parameters are read-only", instruction, "read-only")
        if space.startswith("shared") and machine.monitor is not None:
            owners = machine.cta_at(lanes // 32 % machine.shape.ctas, addresses >> RANK_SHIFT)
            where = addresses & ((1 << RANK_SHIFT) - 1)
            machine.monitor.shared_access(convoy, lanes, owners, where, total, True, instruction)
        if space == "global" and machine.monitor is not None:
            machine.monitor.global_access(lanes, addresses, total, True, instruction)
        for i in range(count):
            given = [s[i](machine.registers, lanes).astype(raw, copy=False).view(dtype)
                     for s in sources]  # fmt: skip
            old = apply(machine, space, lanes, addresses + i * dtype.itemsize, given, operation,
                        instruction)  # fmt: skip
            if gives and not isinstance(targets[i], Sink):
                kind = register_type(operation.kind, targets[i])
                column = old if kind == "b128" else old.view(raw).astype(DTYPES[kind])
                if dtype.kind == "f":
                    column = old
                spread(machine, convoy, targets[i], kind, column)
        return None

    return handler


def apply(
    machine: Machine,
    space: str,
    lanes: NDArray[np.intp],
    addresses: NDArray[np.int64],
    given: list[Array],
    operation: Operation,
    instruction: Instruction,
) -> Array:
    """Do an operation on one element for each lane; what was there before."""
    size = operation.dtype.itemsize
    if space == "global":
        return _in_global(machine, addresses, given, operation, instruction)
    if space == "local":
        memory = aligned(machine.local.reshape(-1), operation.dtype)
        at = local_places(machine, lanes, addresses, size, instruction) // size
    else:
        own = space != "shared::cluster"
        ctas, offsets = shared_places(machine, lanes, addresses, size, instruction, own)
        memory = aligned(machine.shared.reshape(-1), operation.dtype)
        at = ctas * (machine.shared.shape[1] // size) + offsets // size
    return one_after_the_other(memory, at, given, lambda o, g: operation(o, g, False))


def _in_global(
    machine: Machine,
    addresses: NDArray[np.int64],
    given: list[Array],
    operation: Operation,
    instruction: Instruction,
) -> Array:
    size = operation.dtype.itemsize
    found = machine.memory.region_of(addresses, size, instruction)
    if found is None:
        parts = [
            _in_global(machine, addresses[i : i + 1], [g[i : i + 1] for g in given], operation,
                       instruction) for i in range(len(addresses))
        ]  # fmt: skip
        return np.concatenate(parts)
    region, offsets = found
    check_aligned(offsets, size, instruction)
    if not region.memory.flags.writeable:
        raise EmulationError(f"{region.name} is read-only", instruction, "read-only")
    memory = aligned(region.memory, operation.dtype)
    return one_after_the_other(memory, offsets // size, given, lambda o, g: operation(o, g, True))
