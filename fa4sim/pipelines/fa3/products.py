"""A consumer warp's products: issue a wgmma, wait for it, give up what it has read."""

from __future__ import annotations

from collections.abc import Callable

from fa4sim.engine.agent import Steps
from fa4sim.engine.buffers import tag
from fa4sim.engine.wgmma import Product
from fa4sim.pipelines.fa3.cluster import Cluster, Cta
from fa4sim.pipelines.fa3.costs import ProductCosts
from fa4sim.pipelines.fa3.load import Loading


class Multiplying(Loading):
    """A warp of a consumer, as far as it has to do with the tensor cores.

    ``products`` counts those it has issued. (It derives from :class:`Loading` because without a
    load warp one of the consumers' warps loads.)
    """

    def __init__(self, cluster: Cluster, cta: Cta, number: int, warp: int) -> None:
        super().__init__(cluster, cta, f"consumer{number}", warp)
        self.number = number
        self.lane = warp % 4
        self.products = 0
        self.registers = cta.registers[number]

    def qk(self, ring: int, ahead: int) -> Steps:
        """Start S = Q K^T for the step ``ahead`` of the one in hand."""
        costs = self.cluster.qk_costs
        yield from self.issue_product("QK", ring, ahead, costs, self.begin_qk, self.finish_qk)

    def pv(self, ring: int, among: bool = False) -> Steps:
        """Start O += P V for the step in hand; ``among`` other instructions, which go on."""
        costs = self.cluster.pv_costs
        yield from self.issue_product("PV", ring, 0, costs, self.begin_pv, self.finish_pv, among)

    def issue_product(
        self, op: str, ring: int, ahead: int, costs: ProductCosts,
        begin: Callable[[Product], None], finish: Callable[[Product], None], among: bool = False,
    ) -> Steps:  # fmt: skip
        """Issue the k-steps of a product; beyond the queue's depth that stands.

        With ``among`` the compiler puts all k-steps but the first between later instructions.
        """
        tensor = self.cluster.tensor
        if op == "QK" and self.lane == 0:
            self.home.record_busy()
        tensor.issue(
            self.lane,
            Product(
                op, self.number, ring % self.design.kv_stages, self.tile_id, self.block - ahead,
                self.tile, self.step + ahead, costs.steps, costs.step_cycles, costs.step_smem,
                costs.start, begin, finish,
            ),
        )  # fmt: skip
        self.products += 1
        self.block -= ahead
        cycles = (1 if among else costs.steps) * self.machine.mma_issue_cycles
        yield from self.spend(f"issue {op}", "issue", cycles, self.number)
        event = tensor.room(self.number)
        if event is not None:
            yield from self.stand(event, "tensor", "queue full", self.number)
        self.block += ahead

    def wait_products(self, younger: int, reason: str) -> Steps:
        """wgmma.wait_group: until at most ``younger`` of the youngest products are under way."""
        event = self.cluster.tensor.done(self.number, self.products - younger)
        if event is not None:
            yield from self.stand(event, "tensor", reason, self.number)

    def free(self, tensor: str, ring: int) -> Steps:
        """This warp has read a slot of the ring of K or V."""
        slot = ring % self.design.kv_stages
        self.give_up(tensor, slot)
        self.arrive(f"load_{tensor}_empty", slot, 1)
        machine = self.machine
        cycles = machine.elect_cycles + machine.mbarrier_arrive_cycles
        yield from self.spend(f"free {tensor}", "issue", cycles, self.number)

    def give_up(self, tensor: str, slot: int) -> None:
        """Count this warp among those that are done with a slot."""
        buffer = (self.home.sk if tensor == "K" else self.home.sv)[slot]
        if buffer.give_up(4 * self.design.consumers) and self.cluster.data is not None:
            self.cluster.data.poison(tensor, slot)

    # -- what the tensor cores find when they get there ----------------------------------------

    def begin_qk(self, product: Product) -> None:
        """QK starts: Q and K must be there."""
        q, k = self.home.sq[self.number], self.home.sk[product.slot]
        q.check("tensor", "Q", tag(product.tile, 0), product.tile_id, -1)
        k.check(
            "tensor", "K", tag(product.tile, product.step), product.tile_id, product.block
        )  # fmt: skip
        q.begin_use()
        k.begin_use()

    def finish_qk(self, product: Product) -> None:
        """QK is done: S holds this step."""
        self.home.sq[self.number].end_use()
        self.home.sk[product.slot].end_use()
        self.registers.s_full = tag(product.tile, product.step)
        self.registers.s_birth = self.registers.s_first_use = self.env.cycle
        if self.cluster.data is not None:
            self.cluster.data.qk(product)

    def begin_pv(self, product: Product) -> None:
        """PV starts: V must be there."""
        v = self.home.sv[product.slot]
        v.check(
            "tensor", "V", tag(product.tile, product.step), product.tile_id, product.block
        )  # fmt: skip
        v.begin_use()
        self.registers.p_first_use = self.env.cycle

    def finish_pv(self, product: Product) -> None:
        """PV is done: O has this step, P may be overwritten."""
        registers = self.registers
        self.home.sv[product.slot].end_use()
        now = self.env.cycle
        if product.step == 0:
            registers.o_birth = now
        self.home.record(
            "P", product.tile_id, product.block, self.number, registers.p_birth,
            registers.p_first_use, now,
        )  # fmt: skip
        if self.cluster.data is not None:
            self.cluster.data.pv(product)

    # -- fast-forward --------------------------------------------------------------------------

    def tally(self) -> list[int]:
        """See :meth:`Role.tally`."""
        return [*super().tally(), self.products]

    def advance(self, by: list[int]) -> None:
        """See :meth:`Role.advance`."""
        super().advance(by)
        self.products += by[5]

    def counters(self) -> tuple[object, ...]:
        """See :meth:`Agent.counters`."""
        return (self.products - self.cluster.tensor.issued[self.number],)
