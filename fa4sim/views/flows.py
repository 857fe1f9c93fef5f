"""Who made what somebody else used: flows from producer to consumer, as pairs of spans.

A trace may carry them in its ``flow`` table. If it does not, they follow from what the spans say:
which tensor, tile, block and Q stage each worked on.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence

from fa4sim.trace import RECEIVERS, Trace

#: ``(source span, target span, what)``: row numbers of the span table and what went across.
Flow = tuple[int, int, str]

Index = dict[Hashable, list[int]]


def flows(trace: Trace) -> list[Flow]:
    """The flows of an expanded trace: those it carries, or those that its spans imply.

    Implied are: issue → what it issued; load of K, V, Q → the MMAs that read it; QK → the softmax
    warps' reads of S; their stores of P → PV; statistics → correction; rescaled O → PV; the last
    PV → the reads of O; writes of O → its store.
    """
    table = trace.flow
    if len(table):
        return list(
            zip(table["source"].tolist(), table["target"].tolist(),
                [str(what) for what in table.text("what")], strict=True)
        )  # fmt: skip
    return _implied(trace)


def _implied(trace: Trace) -> list[Flow]:
    spans = trace.span
    by_op: dict[tuple[str, str], list[int]] = defaultdict(list)
    roles, ops = spans.text("role").tolist(), spans.text("op").tolist()
    for row in spans["start"].argsort(kind="stable").tolist():
        by_op[roles[row], ops[row]].append(row)
    cta, tile, block, stage, warp = (
        spans[column].tolist() for column in ("cta", "tile", "block", "stage", "warp")
    )

    def at(rows: Iterable[int], key: Callable[[int], Hashable]) -> Index:
        index: Index = defaultdict(list)
        for row in rows:
            index[key(row)].append(row)
        return index

    def of_block(row: int) -> Hashable:
        return cta[row], tile[row], block[row]

    def of_step(row: int) -> Hashable:
        return cta[row], tile[row], block[row], stage[row]

    def of_stage(row: int) -> Hashable:
        return cta[row], tile[row], stage[row]

    def of_lane(row: int) -> Hashable:
        return cta[row], tile[row], block[row], stage[row], warp[row] % 4

    def of_row_group(row: int) -> Hashable:
        return cta[row], tile[row], stage[row], warp[row] % 4

    found: list[Flow] = []

    def each(sources: Index, targets: Index, what: str, *, to: slice = slice(None),
             of: slice = slice(None)) -> None:  # fmt: skip
        """From every source (or the ones in ``of``) to every target (in ``to``) of the same key."""
        for key, made in sources.items():
            for source in made[of]:
                found.extend((source, target, what) for target in targets.get(key, ())[to])

    def in_order(sources: Index, targets: Index, what: str) -> None:
        """From the n-th source to the n-th target of the same key."""
        for key, made in sources.items():
            found.extend((a, b, what) for a, b in zip(made, targets.get(key, ()), strict=False))

    softmax = [role for role in ("softmax0", "softmax1") if (role, "read S") in by_op]

    def by_softmax(op: str) -> Sequence[int]:
        return [row for role in softmax for row in by_op[role, op]]

    def landings(tensor: str) -> Sequence[int]:
        return [row for role in RECEIVERS for row in by_op[role, f"load {tensor}"]]

    qk, pv = by_op["tensor", "QK"], by_op["tensor", "PV"]
    pv_of_step = at(pv, of_step)
    for tensor in ("K", "V", "Q"):
        issued = at(by_op["load", f"issue {tensor}"], of_step)
        in_order(issued, at(landings(tensor), of_step), f"issue {tensor}")
    for op, run in (("QK", qk), ("PV", pv)):
        in_order(at(by_op["mma", f"issue {op}"], of_stage), at(run, of_stage), f"issue {op}")

    first_pv = [rows[0] for rows in pv_of_step.values()]
    each(at(landings("K"), of_block), at(qk, of_block), "K")
    each(at(landings("V"), of_block), at(first_pv, of_block), "V")
    each(at(landings("Q"), of_stage), at(qk, of_stage), "Q", to=slice(1))

    first_reads = [rows[0] for rows in at(by_softmax("read S"), of_lane).values()]
    each(at(qk, of_step), at(first_reads, of_step), "S")
    for key, stores in at(by_softmax("store P"), of_lane).items():
        runs = pv_of_step.get(key[:4], ())  # type: ignore[index]
        if runs:
            # The last part of P is the last run's, the parts before it the first run's.
            found.extend((store, runs[0], "P") for store in stores[:-1])
            found.append((stores[-1], runs[-1], "P"))
    # A step's statistics go to the rescaling of that step, a tile's last ones to its final scale.
    signals = by_softmax("arrive stats")
    in_order(at(signals, of_lane), at(by_op["correction", "read factor"], of_lane), "stats")
    scales = at(by_op["correction", "final scale"], of_row_group)
    each(at(signals, of_row_group), scales, "stats", of=slice(-1, None))
    rescaled = at(by_op["correction", "rescale O"], of_lane)
    for key, parts in rescaled.items():
        found.extend((parts[-1], run, "O") for run in pv_of_step.get(key[:4], ())[:1])  # type: ignore[index]

    each(at(pv, of_stage), at(by_op["correction", "write O"], of_stage), "O", of=slice(-1, None))
    stored = at(by_op["tma_store", "store O"], of_stage)
    each(at(by_op["correction", "write O"], of_stage), stored, "O")
    in_order(at(by_op["epilogue", "issue O"], of_stage), stored, "issue O")
    return found
