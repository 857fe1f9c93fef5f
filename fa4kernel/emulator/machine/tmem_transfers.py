"""``tcgen05.ld`` and ``tcgen05.st``: between tensor memory and registers (PTX ISA 9.7.16.8)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fa4kernel.emulator.machine.collectives import whole_warp
from fa4kernel.emulator.machine.convoy import Convoy
from fa4kernel.emulator.machine.program import Context, Handler, Outcome
from fa4kernel.emulator.machine.tmem_access import Access, Piece, Transfer
from fa4kernel.emulator.ptx.module import Instruction
from fa4kernel.emulator.tensor import tmem

if TYPE_CHECKING:
    from fa4kernel.emulator.machine.machine import Machine


def _words(machine: Machine, piece: Piece, count: int) -> NDArray[np.uint32]:
    """A view of a piece's words in tensor memory, (registers, warps, ctas, 32)."""
    lanes = slice(piece.lane, piece.lane + 32 * piece.warps)
    words = machine.tmem.words[:, piece.column : piece.column + count, lanes]
    return words.reshape(len(words), count, piece.warps, 32).transpose(1, 2, 0, 3)


def load(instruction: Instruction, context: Context) -> Handler:
    """``tcgen05.ld``."""
    transfer = Transfer(instruction, context, store=False)
    number, rows = len(transfer.items), transfer.rows

    def handler(machine: Machine, convoy: Convoy) -> Outcome:
        access = transfer.where(machine, convoy)
        if access.pieces and isinstance(rows, slice):
            for piece in access.pieces:
                words = _words(machine, piece, number)
                block = machine.registers.words[rows, piece.lo : piece.hi]
                block.reshape(words.shape)[...] = words
        else:
            _keep(machine, convoy, transfer, access, _loaded(machine, transfer, access))
        if machine.monitor is not None:
            machine.monitor.tmem_access(
                convoy, access.slots, access.ctas, access.lane, access.column, transfer, False
            )
        return None

    return whole_warp(handler)


def _loaded(machine: Machine, transfer: Transfer, access: Access) -> NDArray[np.uint32]:
    """Words from tensor memory, shape (registers, warps, 32)."""
    words, ctas, lane, column = machine.tmem.words, access.ctas, access.lane, access.column
    if transfer.straight:
        quarters = words.reshape(len(words), tmem.COLUMNS, 4, 32)
        columns = column[:, None] + np.arange(len(transfer.items))
        found: NDArray[np.uint32] = quarters[ctas[:, None], columns, (lane // 32)[:, None]]
        return found.swapaxes(0, 1)
    values: NDArray[np.uint32] = words[transfer.index(ctas, lane, column)]
    if transfer.packed:
        index = transfer.index(ctas, lane, column + 1)
        values = values & np.uint32(0xFFFF) | words[index] << np.uint32(16)
    return values.transpose(2, 0, 1)


def _keep(
    machine: Machine, convoy: Convoy, transfer: Transfer, access: Access, values: Any
) -> None:
    """Write the registers of a load."""
    registers = machine.registers.words
    block = slice(convoy.lo, convoy.hi)
    if convoy.mask is None and transfer.rows is not None:
        registers[transfer.rows, block] = values.reshape(len(transfer.items), -1)
        return
    at = access.slots - convoy.lo // 32
    for row, value in zip(rows_of(machine, transfer), values, strict=True):
        if row >= 0:
            registers[row, block].reshape(-1, 32)[at] = value


def rows_of(machine: Machine, transfer: Transfer) -> list[int]:
    """Rows of the transfer's registers."""
    found: list[int] = []
    for item in transfer.items:
        found.extend(machine.registers.rows_of(item))
    return found


def store(instruction: Instruction, context: Context) -> Handler:
    """``tcgen05.st``."""
    transfer = Transfer(instruction, context, store=True)
    values_of = [context.value(item) for item in transfer.items]
    number, rows = len(transfer.items), transfer.rows

    def handler(machine: Machine, convoy: Convoy) -> Outcome:
        access = transfer.where(machine, convoy)
        if access.pieces and rows is not None:
            for piece in access.pieces:
                words = _words(machine, piece, number)
                block = machine.registers.words[rows, piece.lo : piece.hi]
                words[...] = block.reshape(words.shape)
        else:
            values = np.empty((number, len(access.slots), 32), np.uint32)
            lanes = (access.slots[:, None] * 32 + np.arange(32)).reshape(-1)
            picked: Any = slice(convoy.lo, convoy.hi) if convoy.mask is None else lanes
            for i, each in enumerate(values_of):
                values[i] = each.words(machine.registers, picked).reshape(-1, 32)
            _stored(machine, transfer, access, values)
        if machine.monitor is not None:
            machine.monitor.tmem_access(
                convoy, access.slots, access.ctas, access.lane, access.column, transfer, True
            )
        return None

    return whole_warp(handler)


def _stored(machine: Machine, transfer: Transfer, access: Access, values: Any) -> None:
    """Write words (registers, warps, 32) to tensor memory."""
    words, ctas, lane, column = machine.tmem.words, access.ctas, access.lane, access.column
    if transfer.straight:
        quarters = words.reshape(len(words), tmem.COLUMNS, 4, 32)
        columns = column[:, None] + np.arange(len(transfer.items))
        quarters[ctas[:, None], columns, (lane // 32)[:, None]] = values.swapaxes(0, 1)
        return
    values = values.transpose(1, 2, 0)
    index = transfer.index(ctas, lane, column)
    if transfer.packed:
        high = transfer.index(ctas, lane, column + 1)
        words[high] = values >> np.uint32(16)
        values = values & np.uint32(0xFFFF)
    words[index] = values
