"""What it costs to load K and V by cp.async through a page table, in instructions of a warp.

Counted in the machine code of the load loop of ``flash-attn-4`` 4.0.0b27 for sm_100a (ptxas 13.0):
as it is, with transposed pointers; and with ``paged_kv.py`` as it was before pull request 2104 in
its place, for naive ones. Head dim 128, bf16, 64 and 128 load threads. What the counts say:

- Page numbers are read in a loop that the compiler does not unroll. Its last instruction but two
  stores the number, so a warp stands there until the number has come, once for every entry. Naive
  pointers need an entry for every row that a thread copies (16 with 64 threads), transposed ones
  one or two.
- A naive thread computes a 64-bit address for every row it copies: page and offset times their
  strides, the base, its column; K's rows also keep what V's reuse. With transposed pointers a
  thread computes one or two such addresses and gets the others by two shuffles each.
- A copy is one instruction for 16 bytes a thread, 512 bytes a warp.
- Before pull request 2156 rows, and the copies of a row, were loops that the source forbids to
  unroll (``"looped"``; counted in the kernel of pull request 1999, commit 5d2cd3bc, compiled with
  the CuTe DSL that it asks for, 4.3.0.dev0). Page numbers that a loop indexes cannot be in
  registers: they are stored in local memory and loaded for each row, and everything from there to
  the copy depends on it. The next copy is computed in the same registers, so it waits until this
  one has read them. Nothing of a row overlaps with another of its warp.

The multiplications run on the FMA pipe, at half its rate; the rest on the ALU.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

from fa4sim.engine.units import Group
from fa4sim.pipelines.fa4.barriers import load_warps
from fa4sim.specs import Design, Machine, Problem

WARP = 32
COPY_BYTES = 16
LINE_BYTES = 128

#: Instructions of one turn of the loop that reads page numbers, and how many of them wait for each
#: other before the load and behind it.
TABLE_SLOTS, TABLE_CHAIN = 31, 12
#: Instructions for one row's address, beside its copies: naive for K and V, then transposed.
NAIVE_SLOTS = {"K": 25, "V": 15}
TRANSPOSED_SLOTS = 5
#: The same in a loop; of a row beside its copies, and of each copy.
LOOPED_SLOTS, LOOPED_COPY_SLOTS = {"K": 28, "V": 33}, 20
#: In a loop: dependent instructions from a row's page number in local memory to its address, and of
#: the loop itself; behind the first of those that compute where the next copy goes.
LOOPED_CHAIN, LOOPED_COPY_CHAIN = 10, 4
#: Instructions for one transposed address before it is handed round, and how many in a chain.
POINTER_SLOTS, POINTER_CHAIN = 20, 8
#: Two shuffles bring one 64-bit address; one keeps a quarter's path busy for two cycles (H200).
SHUFFLES_PER_ROW, SHUFFLE_CYCLES = 2, 2
#: Ring position, predicates of rows, commit and arrival, for every tile.
TILE_SLOTS = 20
#: Of these instructions, the parts that are multiplications and ALU work.
MULTIPLIES, ALU_WORK = 0.41, 0.47
#: Rows of a thread that are issued in one go: the grain at which warps of a quarter alternate.
ROWS_AT_ONCE = 4


@dataclass(frozen=True)
class Piece:
    """Some rows of a tile that one warp copies in one go.

    ``rows`` of each of its row groups, ``group`` their instructions, ``port_cycles`` what they
    keep the path to L1 and the shuffles busy, ``chain_cycles`` what must follow one another.
    """

    rows: int
    group: Group
    port_cycles: int
    chain_cycles: int = 0


@dataclass(frozen=True)
class PagedCosts:
    """What a load warp does for one block.

    ``table_rows`` are the rows of a block whose page numbers the CTA reads at once, by turn of the
    loop; ``table`` is one turn, ``table_latency`` its chain. ``pointers`` come before the pieces
    of a tile (transposed only), ``pointer_latency`` is their chain and the first shuffle.
    ``pieces`` are by tensor. ``row_groups`` of a warp each copy a row of ``row_bytes`` at a time.
    """

    table_rows: tuple[range, ...]
    table: Group
    table_latency: int
    pointers: Group | None
    pointer_latency: int
    pieces: dict[str, tuple[Piece, ...]]
    row_groups: int
    row_bytes: dict[str, int]
    last: Group


def threads_per_row(problem: Problem, design: Design) -> int:
    """Threads that copy a row together, 16 bytes each at a time.

    >>> threads_per_row(Problem(head_dim=96), Design(head_dim_padded=96, head_dim_v_padded=96))
    4
    """
    element = problem.element_bytes
    columns = gcd(design.head_dim_padded, design.head_dim_v_padded, LINE_BYTES // element)
    return columns * element // COPY_BYTES


def paged_costs(problem: Problem, design: Design, machine: Machine) -> PagedCosts:
    """Costs of loading a block by cp.async; see the module for the counts."""
    threads = WARP * load_warps(design)
    per_row = threads_per_row(problem, design)
    at_once = threads // per_row
    rows = -(-design.tile_n // at_once)
    transposed = design.page_pointers == "transposed"
    turn = threads if transposed else at_once
    chain = machine.dependent_issue_cycles

    def work(slots: int) -> Group:
        return Group(
            slots,
            fma=round(MULTIPLIES * slots * 2 * machine.fma_cycles_per_warp),
            alu=round(ALU_WORK * slots * machine.alu_cycles_per_warp),
            factor=machine.beside_mma_factor,
        )

    element = problem.element_bytes
    row_bytes = {
        "K": design.head_dim_padded * element,
        "V": design.head_dim_v_padded * element,
    }
    copy_cycles = WARP * COPY_BYTES // machine.smem_bytes_per_cycle

    def pieces(tensor: str) -> tuple[Piece, ...]:
        copies = row_bytes[tensor] // (COPY_BYTES * per_row)
        slots = (TRANSPOSED_SLOTS if transposed else NAIVE_SLOTS[tensor]) + copies
        shuffles = SHUFFLES_PER_ROW if transposed else 0
        row_chain = 0
        if design.page_pointers == "looped":
            slots = LOOPED_SLOTS[tensor] + copies * LOOPED_COPY_SLOTS
            copy_chain = machine.cp_async_turn_cycles + LOOPED_COPY_CHAIN * chain
            row_chain = machine.load_l1_latency_cycles + LOOPED_CHAIN * chain + copies * copy_chain
        made = []
        for start in range(0, rows, ROWS_AT_ONCE):
            count = min(ROWS_AT_ONCE, rows - start)
            port = count * (copies * copy_cycles + shuffles * SHUFFLE_CYCLES)
            made.append(Piece(count, work(count * slots), port, count * row_chain))
        return tuple(made)

    entries = -(-design.tile_n // turn)
    return PagedCosts(
        table_rows=tuple(
            range(i * turn, min((i + 1) * turn, design.tile_n)) for i in range(entries)
        ),
        table=work(TABLE_SLOTS),
        table_latency=TABLE_CHAIN * chain,
        pointers=work(entries * POINTER_SLOTS) if transposed else None,
        pointer_latency=POINTER_CHAIN * chain + machine.shuffle_cycles,
        pieces={tensor: pieces(tensor) for tensor in ("K", "V")},
        row_groups=WARP // per_row,
        row_bytes=row_bytes,
        last=work(TILE_SLOTS),
    )
