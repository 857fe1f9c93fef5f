"""The ``wgmma`` instructions of Hopper (PTX ISA 9.7.15)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fa4kernel.emulator.machine.convoy import Convoy, Mask
from fa4kernel.emulator.machine.dataflow import read, written
from fa4kernel.emulator.machine.operands import Value, items_of
from fa4kernel.emulator.machine.program import (
    Condition,
    Context,
    Handler,
    Outcome,
    Wait,
    allow,
    decodes,
    unsupported,
)
from fa4kernel.emulator.machine.warp_mma import architecture_of
from fa4kernel.emulator.machine.warpgroup_mma import RAW, ROWS, Product, Shape
from fa4kernel.emulator.machine.warps import lanes_of_whole_warps, warpgroups, whole_warpgroup
from fa4kernel.emulator.ptx.module import Immediate, Instruction, Not, Operand, Register, Vector
from fa4kernel.emulator.tensor.fragments import wgmma_a

if TYPE_CHECKING:
    from fa4kernel.emulator.machine.machine import Machine

#: K and the types of D for each type of A.
SHAPES = {
    "f16": (16, ("f16", "f32")), "bf16": (16, ("f32",)), "tf32": (8, ("f32",)),
    "e4m3": (32, ("f16", "f32")), "e5m2": (32, ("f16", "f32")), "s8": (32, ("s32",)),
    "u8": (32, ("s32",)),
}  # fmt: skip
FAMILIES = ({"f16"}, {"bf16"}, {"tf32"}, {"e4m3", "e5m2"}, {"s8", "u8"})
MASK = (1 << 64) - 1


@decodes("wgmma")
def decode_wgmma(instruction: Instruction, context: Context) -> Handler:
    """``wgmma`` and what follows it."""
    name = instruction.qualifiers[0]
    decoder = {
        "mma_async": _mma,
        "fence": _fence,
        "commit_group": _commit,
        "wait_group": _wait,
    }.get(name)
    if decoder is None:
        raise unsupported(instruction)
    return decoder(instruction, context)


def _shape(instruction: Instruction, context: Context) -> Shape:
    """Read qualifiers and immediate operands."""
    shapes = [q for q in instruction.qualifiers if re.fullmatch(r"m64n\d+k\d+", q)]
    types = [q for q in instruction.qualifiers if q in RAW]
    allow(instruction, "mma_async", "sync", "aligned", "satfinite", *shapes, *types)
    if len(shapes) != 1 or len(types) != 3:
        raise unsupported(instruction)
    n, k = (int(x) for x in re.findall(r"[nk](\d+)", shapes[0]))
    d, a, b = types
    wanted, results = SHAPES.get(a, (0, ()))
    if k != wanted or d not in results or not any({a, b} <= f for f in FAMILIES):
        raise unsupported(instruction, "this combination of shape and types")
    fits = n % 8 == 0 and 8 <= n <= 256
    if d == "s32":
        fits = n in (8, 16, 24, 32) or (n % 16 == 0 and 48 <= n <= 224)
    if not fits:
        raise unsupported(instruction, f"N is {n}")
    scales, turned = _immediates(instruction, a, d)
    return Shape(
        n, k, a, b, d, "MN" if turned[0] else "K", "MN" if turned[1] else "K",
        scales[0] != scales[1], "satfinite" in instruction.qualifiers,
    )  # fmt: skip


def _immediates(
    instruction: Instruction, a: str, d: str
) -> tuple[tuple[int, int], tuple[int, int]]:
    """The operands after scale-d: signs of A and B, and whether each is transposed."""
    more = instruction.operands[4:]
    values = [o.value for o in more if isinstance(o, Immediate)]
    in_registers = isinstance(instruction.operands[1], Vector)
    transposes = 0 if a not in ("f16", "bf16") else 1 if in_registers else 2
    count = 0 if d == "s32" else 2 + transposes
    if len(values) != len(more) or len(values) != count:
        raise unsupported(instruction, f"{count} immediate operands are wanted at the end")
    if not count:
        return (1, 1), (0, 0)
    scales, turns = (values[0], values[1]), values[2:]
    if any(s not in (1, -1) for s in scales) or any(t not in (0, 1) for t in turns):
        raise unsupported(instruction, "a scale must be 1 or -1, a transpose 0 or 1")
    turned = (0, *turns) if in_registers and turns else tuple(turns) or (0, 0)
    return scales, (turned[0], turned[1])


def _mma(instruction: Instruction, context: Context) -> Handler:
    shape = _shape(instruction, context)
    to, a, b, enable = instruction.operands[:4]
    if len(items_of(to)) != shape.n // (4 if shape.d == "f16" else 2):
        raise unsupported(instruction, f"{len(items_of(to))} registers for D")
    a_values = [context.value(i) for i in items_of(a)] if isinstance(a, Vector) else []
    if isinstance(a, Vector) and len(a_values) != 4:
        raise unsupported(instruction, f"{len(a_values)} registers for A")
    a_descriptor = None if a_values else context.value(a, 2)
    b_descriptor = context.value(b, 2)
    rounded = Shape(
        shape.n, shape.k, shape.a, shape.b, shape.d, shape.a_major, shape.b_major, shape.negate,
        shape.saturate, architecture_of(context, True),
    )  # fmt: skip

    def handler(machine: Machine, convoy: Convoy) -> Outcome:
        lanes_of_whole_warps(convoy, instruction)
        registers, agent = machine.registers, machine.agents.warpgroups
        groups = warpgroups(machine, convoy)
        leaders = groups[:, 0] * 32
        b = b_descriptor(registers, leaders)
        a = None if a_descriptor is None else a_descriptor(registers, leaders)
        fragments = _fragments(machine, a_values, groups, shape) if a_values else None
        rows = tuple(registers.rows_of(to))
        adds = _enabled(machine, enable, leaders)
        for i, slots in enumerate(groups):
            left = fragments[i] if fragments is not None else int(a[i]) & MASK  # type: ignore[index]
            each = Product(
                rounded if machine.faithful else shape, left, int(b[i]) & MASK, bool(adds[i]),
                slots, int(machine.ctas_of(slots[0])), rows, int(agent.committed[slots[0]]),
                instruction,
            )  # fmt: skip
            if machine.monitor is not None:
                machine.monitor.wgmma_issued(convoy, each)
            agent.issue(each)
        return None

    return whole_warpgroup(handler)


def _fragments(
    machine: Machine, values: list[Value], groups: NDArray[np.intp], shape: Shape
) -> NDArray[Any]:
    """A from registers, as of now: (warpgroups, 64, k)."""
    raw = np.dtype(RAW[shape.a])
    lanes = (groups[:, :, None] * 32 + np.arange(32)).reshape(-1)
    words = np.stack([v.words(machine.registers, lanes) for v in values], axis=1)
    elements = np.ascontiguousarray(words).view(raw).reshape(len(groups), 128, -1)
    where = wgmma_a(raw.itemsize)
    found = np.empty((len(groups), ROWS, shape.k), raw)
    found[:, where.row, where.column] = elements
    return found


def _enabled(machine: Machine, operand: Operand, leaders: NDArray[np.intp]) -> NDArray[np.bool_]:
    if isinstance(operand, Immediate):
        return np.full(len(leaders), operand.value != 0)
    register = operand.register if isinstance(operand, Not) else operand
    assert isinstance(register, Register)
    view = machine.registers.predicate(register, 0, machine.shape.lanes)[leaders]
    return ~view if isinstance(operand, Not) else view


def _fence(instruction: Instruction, context: Context) -> Handler:
    allow(instruction, "fence", "sync", "aligned")

    def handler(machine: Machine, convoy: Convoy) -> Outcome:
        if machine.monitor is not None:
            machine.monitor.wgmma_fence(convoy, instruction)
        return None

    return handler


def _commit(instruction: Instruction, context: Context) -> Handler:
    allow(instruction, "commit_group", "sync", "aligned")

    def handler(machine: Machine, convoy: Convoy) -> Outcome:
        machine.agents.warpgroups.committed[convoy.warps()[0]] += 1
        return None

    return handler


class ProductsDone(Condition):
    """Warps wait until at most ``most`` of their newest groups of products are under way."""

    def __init__(self, most: int) -> None:
        self.most = most

    def ready(self, machine: Machine, convoy: Convoy) -> Mask:
        """Those with few enough."""
        slots, _ = convoy.warps()
        return convoy.with_warps(~machine.agents.warpgroups.late(slots, self.most))

    def describe(self, machine: Machine, convoy: Convoy) -> list[str]:
        """What is waited for."""
        return [f"all but the newest {self.most} groups of wgmma"] * len(convoy.warps()[0])


def _wait(instruction: Instruction, context: Context) -> Handler:
    allow(instruction, "wait_group", "sync", "aligned")
    most = context.value(instruction.operands[0]).constant
    if most is None:
        raise unsupported(instruction, "the number of groups must be a constant")
    condition = ProductsDone(most)

    def handler(machine: Machine, convoy: Convoy) -> Outcome:
        waiting = ~condition.ready(machine, convoy) & convoy.full_mask()
        if waiting.any():
            return Wait(waiting, condition, again=True, others_again=True)
        machine.agents.warpgroups.show(convoy.warps()[0], most)
        if machine.monitor is not None:
            machine.monitor.wgmma_waited(convoy, most, instruction)
        return None

    return handler


def settled_first(handler: Handler, instruction: Instruction, context: Context) -> Handler:
    """The handler of an instruction that may touch registers of products under way.

    These are completed first, as ptxas does where it finds such an instruction.
    """
    used = {r.name for r in (*read(instruction), *written(instruction))}
    names = used & context.in_flight.names

    def settled(machine: Machine, convoy: Convoy) -> Outcome:
        rows = {
            row
            for name in names
            for row in machine.registers.rows_of(context.function.registers[name])
        }
        unwaited = machine.agents.warpgroups.settle(convoy.warps()[0], rows)
        if unwaited and machine.monitor is not None:
            machine.monitor.wgmma_unwaited(convoy, instruction)
        return handler(machine, convoy)

    return settled
