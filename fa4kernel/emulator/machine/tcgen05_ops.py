"""The ``tcgen05`` instructions (PTX ISA 9.7.16)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fa4kernel.emulator.errors import EmulationError
from fa4kernel.emulator.machine.barrier_address import one_barrier
from fa4kernel.emulator.machine.convoy import Convoy, Mask
from fa4kernel.emulator.machine.layout import RANK_SHIFT
from fa4kernel.emulator.machine.operands import Value, items_of
from fa4kernel.emulator.machine.products import Operation, check_operands
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
from fa4kernel.emulator.machine.registers import Registers
from fa4kernel.emulator.machine.tensor_core import Commit, Mma, Move
from fa4kernel.emulator.machine.tmem_transfers import load, store
from fa4kernel.emulator.ptx.module import Immediate, Instruction, Register, Vector
from fa4kernel.emulator.tensor import tmem, tmem_copy
from fa4kernel.emulator.tensor.descriptors import SmemDescriptor
from fa4kernel.emulator.tensor.instruction import InstructionDescriptor

if TYPE_CHECKING:
    from fa4kernel.emulator.machine.machine import Machine

OFFSET = (1 << RANK_SHIFT) - 1
GROUPS = ("cta_group::1", "cta_group::2")
#: Lanes from which on arrays are quicker than one lane after the other.
MANY = 4
KINDS = {"kind::f16": "f16", "kind::tf32": "tf32", "kind::f8f6f4": "f8f6f4"}


@decodes("tcgen05")
def decode_tcgen05(instruction: Instruction, context: Context) -> Handler:
    """``tcgen05`` and what follows it."""
    name = instruction.qualifiers[0]
    decoder = {
        "mma": _mma,
        "commit": _commit,
        "ld": load,
        "st": store,
        "alloc": _alloc,
        "dealloc": _dealloc,
        "relinquish_alloc_permit": _relinquish,
        "wait::ld": _wait,
        "wait::st": _wait,
        "fence::before_thread_sync": _fence,
        "fence::after_thread_sync": _fence,
        "cp": _copy,
        "shift": _shift,
    }.get(name)
    if decoder is None:
        raise unsupported(instruction)
    return decoder(instruction, context)


def _mma(instruction: Instruction, context: Context) -> Handler:
    kind = next((KINDS[q] for q in instruction.qualifiers if q in KINDS), None)
    if kind is None:
        raise unsupported(instruction, "this kind of MMA")
    collectors = [q for q in instruction.qualifiers if q.startswith("collector::")]
    allow(instruction, "mma", "ws", *GROUPS, *KINDS, *collectors)
    ws = "ws" in instruction.qualifiers
    group = 2 if "cta_group::2" in instruction.qualifiers else 1
    to, a, b, shape, *more = instruction.operands
    a_in_tmem = not isinstance(a, Register)
    disabled = more.pop(0) if more and isinstance(more[0], Vector) else None
    if not more:
        raise unsupported(instruction, "without enable-input-d")
    enable = more.pop(0)
    if ws and more:
        raise unsupported(instruction, "zero-column mask")
    scale = more.pop(0) if more else None
    if more or not isinstance(scale, Immediate | None):
        raise unsupported(instruction)
    d_value, shape_value = context.value(to), context.value(shape)
    a_value = context.value(a, 1 if a_in_tmem else 2)
    b_value = context.value(b, 2)
    lanes_off = [context.value(i) for i in items_of(disabled)] if disabled is not None else []
    exponent = scale.value if scale is not None else 0

    known: dict[tuple[int, ...], Operation] = {}
    values = (d_value, a_value, b_value, shape_value, *lanes_off)

    def operation_of(given: tuple[int, ...]) -> Operation:
        d, a, b, shape, *off = given
        decoded = _shape(shape & 0xFFFFFFFF, kind, instruction)
        masked = sum(v << 32 * w for w, v in enumerate(off))
        return Operation(d, a, a_in_tmem, b, decoded, group, decoded.k, exponent, masked, ws)

    def handler(machine: Machine, convoy: Convoy) -> Outcome:
        registers = machine.registers
        lanes = convoy.lanes()
        enabled = _enabled(registers, enable, lanes)
        ctas: list[int] = machine.cta_of_lane[lanes].tolist()
        works: list[Mma] = []
        given_to = _given(registers, values, lanes)
        for lane, given, adds in zip(lanes.tolist(), given_to, enabled, strict=True):
            operation = known.get(given)
            if operation is None:
                operation = known[given] = operation_of(given)
                check_operands(operation, machine.shared.shape[1], instruction)
            works.append(Mma(operation, adds, lane, instruction))
        if machine.monitor is not None:
            machine.monitor.mmas_issued(convoy, ctas, works)
        for cta, work in zip(ctas, works, strict=True):
            machine.agents.tensor.issue(cta, work)
        return None

    return handler


def _given(
    registers: Registers, values: Sequence[Value], lanes: NDArray[np.intp]
) -> Iterable[tuple[int, ...]]:
    """The values of some operands, unsigned, lane by lane."""
    if len(lanes) < MANY:
        return [tuple([v.one(registers, lane) for v in values]) for lane in lanes.tolist()]
    columns = [v(registers, lanes).view(np.uint64).tolist() for v in values]
    return zip(*columns, strict=True)


@lru_cache(maxsize=256)
def _decoded(value: int, kind: Any) -> InstructionDescriptor:
    return InstructionDescriptor.decode(value, kind)


def _shape(value: int, kind: Any, instruction: Instruction) -> InstructionDescriptor:
    try:
        return _decoded(value, kind)
    except ValueError as error:
        raise EmulationError(str(error), instruction, "instruction-descriptor") from error


def _enabled(registers: Registers, operand: Any, lanes: NDArray[np.intp]) -> list[bool]:
    """Whether the MMA of each lane adds to its accumulator."""
    if isinstance(operand, Immediate):
        return [bool(operand.value)] * len(lanes)
    (row,) = registers.rows_of(operand)
    found: list[bool] = registers.predicates[row][lanes].tolist()
    return found


def _commit(instruction: Instruction, context: Context) -> Handler:
    allow(instruction, "commit", *GROUPS, "mbarrier::arrive::one", "shared::cluster",
          "multicast::cluster", "b64")  # fmt: skip
    address = context.value(instruction.operands[0])
    multicast = "multicast::cluster" in instruction.qualifiers
    mask = context.value(instruction.operands[1]) if multicast else None

    def handler(machine: Machine, convoy: Convoy) -> Outcome:
        works: list[Commit] = []
        for lane in convoy.lanes().tolist():
            target = address.one(machine.registers, lane) & 0xFFFFFFFF
            targets = [target]
            if mask is not None:
                ranks = mask.one(machine.registers, lane)
                targets = [r << RANK_SHIFT | target & OFFSET for r in range(16) if ranks >> r & 1]
            index = np.array([one_barrier(machine, lane, t, instruction, False) for t in targets])
            machine.barriers.check(index, instruction)
            work = Commit(index, lane, instruction)
            works.append(work)
        if machine.monitor is not None:
            machine.monitor.commits_issued(convoy, works)
        for work in works:
            machine.agents.tensor.issue(work.issuer // 32 % machine.shape.ctas, work)
        return None

    return handler


class ColumnsFree(Condition):
    """Warps wait until their CTA has that many free columns."""

    def __init__(self, columns: NDArray[np.int64], slots: NDArray[np.intp]) -> None:
        self.columns = columns
        self.slots = slots

    def ready(self, machine: Machine, convoy: Convoy) -> Mask:
        """Those that can allocate now."""
        slots, _ = convoy.warps()
        owner = machine.tmem.owner
        fits = []
        for slot in slots:
            columns = int(self.columns[np.searchsorted(self.slots, slot)])
            mine = owner[int(slot) % machine.shape.ctas]
            fits.append(
                any(not mine[s : s + columns].any() for s in range(0, tmem.COLUMNS, columns))
            )
        return convoy.with_warps(fits)

    def describe(self, machine: Machine, convoy: Convoy) -> list[str]:
        """How many columns are wanted and taken."""
        found = []
        for slot in convoy.warps()[0]:
            taken = int(np.count_nonzero(machine.tmem.owner[int(slot) % machine.shape.ctas]))
            wanted = int(self.columns[np.searchsorted(self.slots, slot)])
            found.append(f"{wanted} columns of tensor memory; {taken} of 512 are allocated")
        return found


def _alloc(instruction: Instruction, context: Context) -> Handler:
    allow(instruction, "alloc", "sync", "aligned", "b32", "shared::cta", *GROUPS)
    target = context.value(instruction.operands[0])
    amount = context.value(instruction.operands[1])

    def handler(machine: Machine, convoy: Convoy) -> Outcome:
        from fa4kernel.emulator.machine.loads import shared_places

        slots, leaders = convoy.warps()
        addresses = target(machine.registers, leaders) & 0xFFFFFFFF
        columns = amount(machine.registers, leaders)
        ctas, offsets = shared_places(machine, leaders, addresses, 4, instruction, True)
        late = np.zeros(len(slots), np.bool_)
        for i, cta in enumerate(ctas):
            start = machine.tmem.allocate(int(cta), int(columns[i]), instruction)
            if start is None:
                late[i] = True
                continue
            machine.shared[cta].view(np.uint32)[offsets[i] // 4] = start
            if machine.monitor is not None:
                machine.monitor.allocated(
                    int(slots[i]), int(cta), start, int(columns[i]), int(offsets[i]), instruction
                )
        if late.any():
            return Wait(convoy.with_warps(late), ColumnsFree(columns, slots), again=True)
        return None

    return handler


def _dealloc(instruction: Instruction, context: Context) -> Handler:
    allow(instruction, "dealloc", "sync", "aligned", "b32", *GROUPS)
    address = context.value(instruction.operands[0])
    amount = context.value(instruction.operands[1])

    def handler(machine: Machine, convoy: Convoy) -> Outcome:
        slots, leaders = convoy.warps()
        starts = address(machine.registers, leaders) & 0xFFFF
        columns = amount(machine.registers, leaders)
        for i, cta in enumerate(machine.ctas_of(slots)):
            machine.tmem.free(int(cta), int(starts[i]), int(columns[i]), instruction)
            if machine.monitor is not None:
                machine.monitor.freed(
                    int(slots[i]), int(cta), int(starts[i]), int(columns[i]), instruction
                )
        return None

    return handler


def _relinquish(instruction: Instruction, context: Context) -> Handler:
    allow(instruction, "relinquish_alloc_permit", "sync", "aligned", *GROUPS)

    def handler(machine: Machine, convoy: Convoy) -> Outcome:
        machine.tmem.relinquished[machine.ctas_of(convoy.warps()[0])] = True
        return None

    return handler


def _wait(instruction: Instruction, context: Context) -> Handler:
    allow(instruction, "wait::ld", "wait::st", "sync", "aligned")
    return _told("tcgen05_wait", instruction)


def _fence(instruction: Instruction, context: Context) -> Handler:
    return _told("tcgen05_fence", instruction)


def _told(event: str, instruction: Instruction) -> Handler:
    """Accesses of tensor memory by warps complete at once here; only the checks need to know."""

    def handler(machine: Machine, convoy: Convoy) -> Outcome:
        if machine.monitor is not None:
            getattr(machine.monitor, event)(convoy, instruction)
        return None

    return handler


def _copy(instruction: Instruction, context: Context) -> Handler:
    qualifiers = instruction.qualifiers
    shape = next((q for q in qualifiers if q[0].isdigit()), "")
    multicast = ".".join(q for q in qualifiers if q.startswith("warpx"))
    allow(instruction, "cp", shape, *GROUPS, *[q for q in qualifiers if q.startswith("warpx")])
    try:
        layout = tmem_copy.copy_shape(shape, multicast)
    except ValueError as error:
        raise unsupported(instruction, str(error)) from error
    address, source = (
        context.value(instruction.operands[0]),
        context.value(instruction.operands[1], 2),
    )
    pair = "cta_group::2" in qualifiers

    def handler(machine: Machine, convoy: Convoy) -> Outcome:
        lanes = convoy.lanes()
        targets = address(machine.registers, lanes)
        sources = source(machine.registers, lanes)
        for i, lane in enumerate(lanes):
            cta = int(lane) // 32 % machine.shape.ctas
            rank = int(machine.rank_of(cta))
            ctas = [machine.cta_at(cta, r) for r in (rank & ~1, rank | 1)] if pair else [cta]
            descriptor = SmemDescriptor.decode(int(sources[i]) & (1 << 64) - 1)
            start = int(targets[i])
            if machine.monitor is not None:
                chunks = descriptor.chunks(max(8, layout.rows), layout.words * 4, 1)
                into = (start >> 16) + layout.lane, (start & 0xFFFF) + np.arange(layout.words)
                machine.monitor.move_issued(convoy, int(lane), ctas, chunks, into, instruction)

            def act(ctas: Any = ctas, descriptor: Any = descriptor, start: int = start) -> None:
                rows = max(8, layout.rows)
                chunks = descriptor.chunks(rows, layout.words * 4, 1)
                for c in ctas:
                    data = machine.shared.view(np.complex128)[c][chunks].view(np.uint32)
                    lane0, column = start >> 16, start & 0xFFFF
                    at = np.arange(column, column + layout.words)
                    machine.tmem.words[c][at[:, None], lane0 + layout.lane] = data[layout.source].T

            machine.agents.tensor.issue(cta, Move(act, int(lane), instruction))
        return None

    return handler


def _shift(instruction: Instruction, context: Context) -> Handler:
    allow(instruction, "shift", "down", *GROUPS)
    address = context.value(instruction.operands[0])

    def handler(machine: Machine, convoy: Convoy) -> Outcome:
        lanes = convoy.lanes()
        targets = address(machine.registers, lanes)
        for i, lane in enumerate(lanes):
            cta = int(lane) // 32 % machine.shape.ctas
            lane0, column = int(targets[i]) >> 16, int(targets[i]) & 0xFFFF
            if machine.monitor is not None:
                into = lane0 + np.arange(32), column + np.arange(8)
                machine.monitor.move_issued(convoy, int(lane), [cta], None, into, instruction)

            def act(cta: int = cta, lane0: int = lane0, column: int = column) -> None:
                block = machine.tmem.words[cta, column : column + 8, lane0 : lane0 + 32]
                block[:] = tmem_copy.shift_down(np.ascontiguousarray(block.T)).T

            machine.agents.tensor.issue(cta, Move(act, int(lane), instruction))
        return None

    return handler
