"""The order of barrier operations of every role, as a list instead of a loop.

The roles themselves say the same with timing, data and hazards in between; this bare form is what
a deadlock is explained with (what should a role have done before the place where it stands?) and
what other implementations of the kernel are compared with. A test checks that every simulated run
follows it to the letter.

Each operation is ``(what, barrier, stage)``: ``wait``, ``arrive``, ``sync`` (a named barrier:
both), ``commit`` (an arrival by the tensor pipe when all MMAs so far are done) or ``request`` (an
arrival by the work distributor when it answers).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fa4sim.pipelines.fa4.barriers import barrier_table, load_warp_ids, next_tile_barriers
from fa4sim.specs import Design

Operation = tuple[str, str, int]


def program(
    design: Design, role: str, blocks: Sequence[int], *, lane: int = 0, leader: bool = True
) -> Iterator[Operation]:
    """The operations of one warp of ``role`` over work tiles of ``blocks`` K/V blocks each.

    A tile of 0 blocks is a split without keys: only coordinates and LSE are to be dealt with.

    ``lane`` is the warp's number within its warpgroup, ``leader`` whether it is in the leader CTA.

    >>> from fa4sim.specs import Design
    >>> [op for op in program(Design(q_stages=1), "softmax0", [1]) if op[0] == "arrive"][:2]
    [('arrive', 'SoftmaxStatsW0', 0), ('arrive', 'P_full_O_rescaled', 0)]

    Raises ``ValueError`` for a role that this design does not have.
    """
    roles = {
        "load": lambda: _load(design, blocks, leader, lane),
        "mma": lambda: _mma(design, blocks) if leader else _peer_mma(design, blocks),
        "softmax0": lambda: _softmax(design, 0, blocks, lane),
        "softmax1": lambda: _softmax(design, 1, blocks, lane),
        "correction": lambda: _correction(design, blocks, lane),
        "epilogue": lambda: _epilogue(design, blocks),
        "scheduler": lambda: _scheduler(design, blocks, leader),
        "idle": lambda: _idle(design, blocks),
    }
    if role not in roles:
        raise ValueError(f"no role {role!r}; there are {', '.join(roles)}")
    return roles[role]()


def _tile(design: Design, number: int) -> Iterator[Operation]:
    """What every warp does to learn of tile ``number`` (or that there is none)."""
    if design.is_dynamic and number:
        full, empty = next_tile_barriers(design)
        yield "wait", full, 0
        yield "arrive", empty, 0


def _load(design: Design, blocks: Sequence[int], leader: bool, lane: int) -> Iterator[Operation]:
    table = barrier_table(design)
    stages = design.kv_stages
    by_rows = design.kv_load == "cp_async"
    # What comes by TMA is one warp's business, even where several copy the rest.
    warps = load_warp_ids(design)
    first = len(warps) == 1 or lane == warps[0] % 4
    loads_q, loads_kv = first or design.q_load == "cp_async", first or by_rows
    ring = 0

    def kv(tensor: str) -> Iterator[Operation]:
        nonlocal ring
        slot, wrap = ring % stages, ring // stages
        yield "wait", "load_KV_empty", slot
        if leader and not by_rows:
            yield "arrive", "load_KV_full", slot
        if design.uneven_kv_ring and tensor == "K" and slot == 0 and wrap % 2 == 0:
            yield "wait", "load_KV_empty", 1
        if by_rows:
            yield "arrive", "load_KV_full", slot
        ring += 1

    def load(count: int) -> Iterator[Operation]:
        if loads_kv:
            yield from kv("K")
        for stage in range(design.q_stages if loads_q else 0):
            yield "wait", "load_Q_empty", stage
            if leader:
                yield "arrive", "load_Q_full", stage
        if not loads_kv:
            return
        yield from kv("V")
        for _ in range(count - 1):
            yield from kv("K")
            yield from kv("V")

    yield from _tile(design, 0)
    for number, count in enumerate(blocks):
        if count:
            yield from load(count)
        yield from _tile(design, number + 1)
        if table["load_epi_full"].used:
            yield "wait", "load_epi_full", 0
            yield "arrive", "load_epi_empty", 0
    for i in range(stages if loads_kv else 0):
        yield "wait", "load_KV_empty", (ring + i) % stages
    if not loads_q:
        return
    yield "wait", "load_Q_empty", design.q_stages - 1
    if leader and design.q_load == "tma":
        yield "arrive", "load_Q_full", design.q_stages - 1


def _mma(design: Design, blocks: Sequence[int]) -> Iterator[Operation]:
    stages = range(design.q_stages)
    slots = design.kv_stages
    two_parts = design.p_first_columns < design.tile_n
    ring = 0

    def pv(stage: int) -> Iterator[Operation]:
        yield "wait", "P_full_O_rescaled", stage
        if two_parts:
            yield "wait", "P_full_lastsplit", stage

    yield "sync", "TmemPtr", 0
    for number, count in enumerate(blocks):
        yield from _tile(design, number)
        if not count:
            continue
        for stage in stages:
            yield "wait", "load_Q_full", stage
            if stage == 0:
                yield "wait", "load_KV_full", ring % slots
            yield "commit", "S_full", stage
        yield "commit", "load_KV_empty", ring % slots
        ring += 1
        for _ in range(count - 1):
            yield "wait", "load_KV_full", ring % slots
            for stage in stages:
                yield from pv(stage)
                if stage == stages[-1]:
                    yield "commit", "load_KV_empty", ring % slots
                if stage == 0:
                    yield "wait", "load_KV_full", (ring + 1) % slots
                yield "commit", "S_full", stage
            yield "commit", "load_KV_empty", (ring + 1) % slots
            ring += 2
        for stage in stages:
            yield "commit", "load_Q_empty", stage
        yield "wait", "load_KV_full", ring % slots
        for stage in stages:
            yield from pv(stage)
            yield "commit", "O_full", stage
        yield "commit", "load_KV_empty", ring % slots
        ring += 1
    yield from _tile(design, len(blocks))
    yield "sync", "TmemPtr", 0
    if design.cta_group == 2:
        yield from _both_done()


def _peer_mma(design: Design, blocks: Sequence[int]) -> Iterator[Operation]:
    yield "sync", "TmemPtr", 0
    for number in range(len(blocks)):
        yield from _tile(design, number)
    yield from _tile(design, len(blocks))
    yield "sync", "TmemPtr", 0
    yield from _both_done()


def _both_done() -> Iterator[Operation]:
    """The MMA warps of a pair tell each other that their CTAs are done with TMEM."""
    yield "arrive", "tmem_dealloc", 0
    yield "wait", "tmem_dealloc", 0


def _softmax(design: Design, stage: int, blocks: Sequence[int], lane: int) -> Iterator[Operation]:
    stats = f"SoftmaxStatsW{4 * stage + lane}"
    yield "sync", "TmemPtr", 0
    for number, count in enumerate(blocks):
        yield from _tile(design, number)
        if not count:
            continue
        yield "wait", "softmax_stats_empty", stage
        for _ in range(count):
            yield "wait", "S_full", stage
            yield "arrive", stats, 0
            yield "arrive", "P_full_O_rescaled", stage
            if design.p_first_columns < design.tile_n:
                yield "arrive", "P_full_lastsplit", stage
            yield "wait", "softmax_stats_empty", stage
        yield "arrive", stats, 0
    yield from _tile(design, len(blocks))
    yield "wait", "softmax_stats_empty", stage
    yield "arrive", "TmemPtr", 0


def _correction(design: Design, blocks: Sequence[int], lane: int) -> Iterator[Operation]:
    table = barrier_table(design)
    stages = design.q_stages
    by_tma = design.epilogue == "tma"

    def hear(stage: int) -> Operation:
        return "sync", f"SoftmaxStatsW{4 * stage + lane}", 0

    def correct(count: int) -> Iterator[Operation]:
        yield hear(0)
        yield "arrive", "softmax_stats_empty", 0
        if stages == 2:
            yield hear(1)
        for _ in range(count - 1):
            for stage in range(stages):
                yield hear(stage)
                yield "arrive", "P_full_O_rescaled", stage
                yield "arrive", "softmax_stats_empty", stages - 1 - stage
        if stages == 2:
            yield "arrive", "softmax_stats_empty", 1
        for stage in range(stages):
            yield hear(stage)
            yield "arrive", "softmax_stats_empty", stage
            yield "wait", "O_full", stage
            if by_tma:
                yield "wait", "O_epi_empty", stage
            else:
                yield "sync", "Epilogue", 0
            yield "arrive", "P_full_O_rescaled", stage
            if by_tma:
                yield "arrive", "O_epi_full", stage

    yield "sync", "TmemPtr", 0
    for stage in range(stages):
        yield "arrive", "P_full_O_rescaled", stage
    for number, count in enumerate(blocks):
        yield from _tile(design, number)
        if count:
            yield from correct(count)
        if not by_tma and table["load_epi_full"].used:
            yield "wait", "load_epi_empty", 0
            yield "arrive", "load_epi_full", 0
    yield from _tile(design, len(blocks))
    if by_tma:
        yield "wait", "O_epi_empty", stages - 1
    yield "arrive", "TmemPtr", 0


def _epilogue(design: Design, blocks: Sequence[int]) -> Iterator[Operation]:
    table = barrier_table(design)
    for number, count in enumerate(blocks):
        yield from _tile(design, number)
        stages = range(design.q_stages if count else 0)
        for stage in stages:
            yield "wait", "O_epi_full", stage
        for stage in stages:
            yield "arrive", "O_epi_empty", stage
        if table["load_epi_full"].used:
            yield "wait", "load_epi_empty", 0
            yield "arrive", "load_epi_full", 0
    yield from _tile(design, len(blocks))


def _scheduler(design: Design, blocks: Sequence[int], leader: bool) -> Iterator[Operation]:
    for number in range(len(blocks)):
        yield from _tile(design, number)
        if leader:
            full, empty = next_tile_barriers(design)
            yield "wait", empty, 0
            yield "request" if design.scheduler == "dynamic" else "arrive", full, 0
    yield from _tile(design, len(blocks))


def _idle(design: Design, blocks: Sequence[int]) -> Iterator[Operation]:
    for number in range(len(blocks) + 1):
        yield from _tile(design, number)
