"""The products of warpgroups under way: ``wgmma.mma_async`` (PTX ISA 9.7.15).

Each warpgroup's products run in the order of issue. Results stay with the agent, where the next
product into the same registers finds them, until the warps wait for their group; then they appear
in the registers.
"""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fa4kernel.emulator.errors import EmulationError
from fa4kernel.emulator.ptx.module import Instruction
from fa4kernel.emulator.tensor import formats
from fa4kernel.emulator.tensor.descriptors import SmemDescriptor
from fa4kernel.emulator.tensor.faithful import Architecture
from fa4kernel.emulator.tensor.fragments import wgmma_accumulator
from fa4kernel.emulator.tensor.product import product

if TYPE_CHECKING:
    from fa4kernel.emulator.machine.machine import Machine
    from fa4kernel.emulator.machine.schedule import Schedule

#: Containers of the elements.
RAW: dict[str, Any] = {
    "f16": np.uint16, "bf16": np.uint16, "tf32": np.uint32, "e4m3": np.uint8, "e5m2": np.uint8,
    "s8": np.int8, "u8": np.uint8, "f32": np.float32, "s32": np.int32,
}  # fmt: skip
ROWS = 64


@dataclass(frozen=True, slots=True)
class Shape:
    """What one instruction multiplies.

    Attributes:
        n, k: columns, and the inner dimension.
        a, b, d: element types.
        a_major, b_major: "K", or "MN" if transposed.
        negate: whether the product's sign is turned.
        saturate: integers stop at the limits of int32.
        architecture: whose rounding is modelled; None for the fast arithmetic.
    """

    n: int
    k: int
    a: str
    b: str
    d: str
    a_major: Any = "K"
    b_major: Any = "K"
    negate: bool = False
    saturate: bool = False
    architecture: Architecture | None = None


@dataclass(slots=True, eq=False)
class Product:
    """One product of one warpgroup.

    Attributes:
        a: a descriptor, or the elements themselves (64, k).
        b: a descriptor.
        accumulate: whether D is added to.
        slots: the four warps.
        cta: where shared memory is read.
        rows: register-file rows of D, in the order of its registers.
        group: which of its warps' groups it belongs to.
    """

    shape: Shape
    a: int | NDArray[Any]
    b: int
    accumulate: bool
    slots: NDArray[np.intp]
    cta: int
    rows: tuple[int, ...]
    group: int
    instruction: Instruction
    note: Any = None

    @property
    def warpgroup(self) -> int:
        """The slot of its first warp."""
        return int(self.slots[0])

    def same(self, other: Product) -> bool:
        """Whether it does in its CTA what the other does in another."""
        return (
            self.shape == other.shape
            and self.b == other.b
            and self.rows == other.rows
            and self.accumulate == other.accumulate
            and (not isinstance(self.a, int) or self.a == other.a)
        )


@dataclass(slots=True)
class Result:
    """Words of D (128 threads, registers) that have not appeared yet; the last product's group."""

    words: NDArray[np.uint32]
    group: int
    slots: NDArray[np.intp]


class WarpgroupMmas:
    """Queues by warpgroup.

    Attributes:
        queues: products under way, oldest first.
        results: of complete ones that have not appeared, by warpgroup and rows of D.
        committed: how many groups each warp has closed.
    """

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.queues: dict[int, deque[Product]] = defaultdict(deque)
        self.results: dict[int, dict[tuple[int, ...], Result]] = defaultdict(dict)
        self.committed = np.zeros(machine.shape.lanes // 32, np.int64)

    @property
    def busy(self) -> bool:
        """Whether a queue holds work."""
        return any(self.queues.values())

    def issue(self, product: Product) -> None:
        """Put a product at the end of its warpgroup's queue."""
        self.queues[product.warpgroup].append(product)

    def advance(self, schedule: Schedule) -> bool:
        """Complete the products at the head of all queues, or of some."""
        busy = [w for w, queue in self.queues.items() if queue]
        if not busy:
            return False
        chosen = schedule.completes(len(busy))
        if chosen is None:
            while busy:
                self._heads(busy)
                busy = [w for w in busy if self.queues[w]]
        else:
            for warpgroup, yes in zip(busy, chosen, strict=True):
                if yes:
                    self._heads([warpgroup])
        return True

    def _heads(self, busy: list[int]) -> None:
        heads = [self.queues[w].popleft() for w in busy]
        while heads:
            first = heads[0]
            group = [h for h in heads if h.same(first)]
            heads = [h for h in heads if h not in group]
            self._multiply(group)

    def _multiply(self, group: list[Product]) -> None:
        machine, first = self.machine, group[0]
        shape = first.shape
        ctas = np.array([p.cta for p in group])
        try:
            b = self._operand(ctas, first.b, shape.n, shape.k, shape.b, shape.b_major)
            if isinstance(first.a, int):
                a = self._operand(ctas, first.a, ROWS, shape.k, shape.a, shape.a_major)
            else:
                a = np.stack([p.a for p in group])
        except (ValueError, IndexError) as error:
            raise EmulationError(str(error), first.instruction, "mma") from error
        if shape.negate:
            a = a ^ RAW[shape.a](1 << 8 * a.itemsize - 1)
        c = np.stack([self._accumulator(p) for p in group]) if first.accumulate else None
        found = product(
            a, b.swapaxes(1, 2), (shape.a, shape.b, shape.d), c, saturate=shape.saturate,
            architecture=shape.architecture,
        )  # fmt: skip
        raw = formats.encode(found, "f16") if shape.d == "f16" else found
        where = wgmma_accumulator(shape.n)
        words = np.ascontiguousarray(raw[:, where.row, where.column]).view(np.uint32)
        for each, result in zip(group, words, strict=True):
            self.results[each.warpgroup][each.rows] = Result(result, each.group, each.slots)
            if machine.monitor is not None:
                machine.monitor.wgmma_done(each)

    def _operand(
        self, ctas: NDArray[np.intp], descriptor: int, rows: int, k: int, dtype: str, major: Any
    ) -> NDArray[Any]:
        """A matrix in shared memory, shape (n, rows, k)."""
        raw, shared = np.dtype(RAW[dtype]), self.machine.shared
        chunks = SmemDescriptor.decode_wgmma(descriptor).chunks(rows, k, raw.itemsize, major)
        if chunks.max() * 16 + 16 > shared.shape[1]:
            raise IndexError(
                f"a matrix operand reaches past the {shared.shape[1]:,} bytes of a CTA"
            )
        matrix: NDArray[Any] = shared.view(np.complex128)[ctas[:, None, None], chunks].view(raw)
        return matrix if major == "K" else matrix.swapaxes(1, 2)

    def _accumulator(self, each: Product) -> NDArray[Any]:
        """Values of D before a product, (64, n)."""
        results = self.results[each.warpgroup]
        if each.rows in results:
            words = results[each.rows].words
        else:
            for rows in [r for r in results if not set(r).isdisjoint(each.rows)]:
                self._appear(results.pop(rows), rows)
            lanes = (each.slots[:, None] * 32 + np.arange(32)).reshape(-1)
            words = np.stack([self.machine.registers.words[r][lanes] for r in each.rows], axis=1)
        shape = each.shape
        kept = np.uint16 if shape.d == "f16" else RAW[shape.d]
        elements = np.ascontiguousarray(words).view(kept)
        where = wgmma_accumulator(shape.n)
        found = np.empty((ROWS, shape.n), kept)
        found[where.row, where.column] = elements
        return formats.decode(found, "f16") if shape.d == "f16" else found

    def _appear(self, result: Result, rows: tuple[int, ...]) -> None:
        """Write a result to the registers."""
        lanes = (result.slots[:, None] * 32 + np.arange(32)).reshape(-1)
        for i, row in enumerate(rows):
            if row >= 0:
                self.machine.registers.words[row, lanes] = result.words[:, i]

    def late(self, slots: NDArray[np.intp], most: int) -> NDArray[np.bool_]:
        """Warps with more than ``most`` closed groups under way."""
        found = np.zeros(len(slots), np.bool_)
        for i, slot in enumerate(slots):
            queue = self.queues.get(self.warpgroup_of(slot))
            if queue:
                found[i] = queue[0].group < self.committed[slot] - most
        return found

    def warpgroup_of(self, slot: Any) -> int:
        """The slot of the first warp of a warp's warpgroup."""
        ctas = self.machine.shape.ctas
        return int(slot // ctas // 4 * 4 * ctas + slot % ctas)

    def show(self, slots: NDArray[np.intp], most: int) -> None:
        """Let the results appear of all but the newest ``most`` groups that these warps closed."""
        for slot in slots:
            warpgroup = self.warpgroup_of(slot)
            results = self.results.get(warpgroup)
            if not results:
                continue
            newest = int(self.committed[slot]) - most
            busy = {p.rows for p in self.queues.get(warpgroup, ())}
            for rows in [r for r, x in results.items() if x.group < newest and r not in busy]:
                self._appear(results.pop(rows), rows)

    def settle(self, slots: NDArray[np.intp], rows: set[int]) -> bool:
        """Complete and show what these warps have in flight into these rows; True if anything."""
        found = False
        for warpgroup in {self.warpgroup_of(s) for s in slots}:
            queue, results = self.queues.get(warpgroup, deque()), self.results[warpgroup]
            if not any(rows & set(r) for r in (*results, *(p.rows for p in queue))):
                continue
            found = True
            while queue:
                self._heads([warpgroup])
            for each in list(results):
                self._appear(results.pop(each), each)
        return found
