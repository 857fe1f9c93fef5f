"""What a consumer warp does with its rows, which lie in registers: softmax, rescale, round."""

from __future__ import annotations

from collections.abc import Sequence

from fa4sim.engine.agent import Steps
from fa4sim.engine.buffers import tag
from fa4sim.engine.units import Group
from fa4sim.pipelines.fa3.cluster import Cluster, Cta
from fa4sim.pipelines.fa3.products import Multiplying
from fa4sim.pipelines.fa4.tiles import needs_mask


class Normalising(Multiplying):
    """A warp of a consumer, as far as it has to do with its 16 rows."""

    def __init__(self, cluster: Cluster, cta: Cta, number: int, warp: int) -> None:
        super().__init__(cluster, cta, number, warp)
        self.costs = cluster.row_costs

    # Steps and tiles are read off the counters after every pause, because a fast-forward may have
    # moved them on in the meantime.

    def statistics(self, ahead: int) -> Steps:
        """Mask and maximum of S of the step ``ahead`` of the one in hand; the factor of O."""
        costs = self.costs
        self.block -= ahead
        if self.cluster.data is not None:
            self.cluster.data.softmax(self, self.cluster.tiles[self.tile], self.step + ahead)
        if needs_mask(self.cluster.tiles[self.tile].steps[self.step + ahead]):
            yield from self.run_groups("mask", "alu", costs.mask)
        yield from self.run_groups("row max", "alu", costs.maximum)
        yield from self.work("statistics", "alu", costs.reduce, costs.reduce_latency, self.number)
        if self.design.o_waited_early:
            yield from self.run_groups("scale S", "fma", costs.scale)
        self.block += ahead

    def exponentials(self, ahead: int, first: float = 0.0, last: float = 1.0) -> Steps:
        """P of the step ``ahead`` and the row sums; or of a part of the columns."""
        costs = self.costs
        scaled = self.design.o_waited_early
        groups = costs.exponentiate_scaled if scaled else costs.exponentiate
        part = groups[round(first * len(groups)) : round(last * len(groups))]
        self.block -= ahead
        yield from self.run_groups("exp2", "mufu", part, costs.exp2_latency if last == 1 else 0)
        self.block += ahead

    def mixed(self, ahead: int) -> Steps:
        """Exponentials, row sums, rescaling and rounding as the compiler mixes them."""
        costs, first = self.costs, self.step + ahead == 0
        if not first and self.cluster.data is not None:
            self.cluster.data.rescale(self)
        self.begin_p(ahead)
        self.block -= ahead
        groups = costs.mixed_first if first else costs.mixed
        yield from self.run_groups("exp2", "mufu", groups, costs.exp2_latency)
        self.end_p(ahead)
        self.block += ahead

    def rescale(self) -> Steps:
        """Multiply O by the factors of the last softmax: in every step, in registers."""
        if self.cluster.data is not None:
            self.cluster.data.rescale(self)
        yield from self.run_groups("rescale O", "fma", self.costs.rescale)

    def keep(self, ahead: int) -> Steps:
        """Round P to 16 bits, into the registers from which wgmma reads it."""
        self.begin_p(ahead)
        self.block -= ahead
        yield from self.run_groups("convert P", "alu", self.costs.convert)
        self.end_p(ahead)
        self.block += ahead

    def begin_p(self, ahead: int) -> None:
        """The first of the four warps begins to round its part of P."""
        registers = self.registers
        if tag(self.tile, self.step + ahead) not in registers.p_kept.done:
            registers.p_birth = self.env.cycle

    def end_p(self, ahead: int) -> None:
        """This warp's part of P is there; with the last one S is no longer needed."""
        home, registers = self.home, self.registers
        if self.cluster.data is not None:
            self.cluster.data.keep(self)
        what = tag(self.tile, self.step + ahead)
        registers.p_kept.mark(self.lane, what)
        if registers.p_kept.all_at(what):
            home.record(
                "S", self.tile_id, self.block, self.number, registers.s_birth,
                registers.s_first_use, self.env.cycle,
            )  # fmt: skip

    def run_groups(self, op: str, unit: str, groups: Sequence[Group], latency: int = 0) -> Steps:
        """Groups of instructions one after the other: other warps' come in between."""
        run, timeout = self.smsp.run, self.env.timeout
        start = now = self.since = self.env.cycle
        busy = latency
        for group in groups:
            end = run(now, group)
            busy += getattr(group, unit)
            if end > now:
                yield timeout(end - now)
            now = end
        if latency:
            yield timeout(latency)
        self.span(unit, op, start, busy, self.number)
