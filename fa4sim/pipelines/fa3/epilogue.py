"""O and LSE on their way out: registers, shared memory in the place of Q, global memory by TMA."""

from __future__ import annotations

from fa4sim.engine.agent import Steps
from fa4sim.engine.buffers import tag
from fa4sim.engine.core import Wake
from fa4sim.pipelines.fa3.softmax import Normalising


class Finishing(Normalising):
    """A warp of a consumer, as far as it has to do with the output."""

    def output(self) -> Steps:
        """Divide O by the sums, write LSE, store O; one warp waits until it has left."""
        costs, machine = self.costs, self.machine
        yield from self.spend("row sum", "issue", costs.sum_latency, self.number)
        yield from self.spend("LSE", "issue", costs.lse_latency, self.number)
        yield from self.run_groups("scale O", "fma", costs.rescale)
        yield from self.run_groups("round O", "alu", costs.round_output)
        yield from self.write()
        yield from self.spend("fence", "issue", machine.proxy_fence_cycles, self.number)
        yield from self.sync(f"Epilogue{self.number}", self.tile + 1, "O in sO")
        if self.lane == 0:
            yield from self.store()

    def write(self) -> Steps:
        """This warp's rows of O into shared memory, over Q."""
        home, costs = self.home, self.costs
        q, o, registers = home.sq[self.number], home.so[self.number], self.registers
        what = tag(self.tile, 0)
        if what not in registers.o_written.done and not o.claimed:
            q.release()
            o.begin_fill(self.role, "O", what, self.tile_id, -1, parts=4)
        yield from self.port(
            "write O", "smem", home.smem_port, costs.store_cycles, self.machine.smem_latency_cycles,
            costs.store_issue, self.number,
        )  # fmt: skip
        if self.cluster.data is not None:
            self.cluster.data.write_o(self)
        o.end_fill()
        what = tag(self.tile, 0)  # a fast-forward may have moved it on
        registers.o_written.mark(self.lane, what)
        if registers.o_written.all_at(what):
            now = self.env.cycle
            home.record(
                "O", self.tile_id, -1, self.number, registers.o_birth, registers.o_birth, now
            )

    def store(self) -> Steps:
        """One bulk store of this consumer's O; then Q of the next tile may come."""
        machine, home = self.machine, self.home
        o = home.so[self.number]
        name = f"Epilogue{self.number}"
        late = self.registers.o_written.behind(tag(self.tile, 0))
        if late or self.barrier(name).completions <= self.tile:
            # Only a phase of this barrier puts the other warps' writes before this store.
            self.hazard(
                "read_before_full", name, 0, self.role,
                f"{self.role} stores sO[{self.number}] before its four warps have met",
            )  # fmt: skip
        o.begin_use()
        tile, stored = self.tile, Wake(self.env, (self.key, "stored"))

        def read() -> None:
            o.end_use()
            o.release()
            if self.cluster.data is not None:
                self.cluster.data.store_o(self.number, tile)
            stored.fire()

        size = self.design.o_tile_bytes(self.cluster.problem)
        home.tma_store.push(size, self.tile_id, self.number, read)
        cycles = machine.tma_issue_cycles + round((self.boxes["V"] - 1) * machine.tma_box_cycles)
        yield from self.spend("issue O", "issue", cycles, self.number)
        if not stored.triggered:
            yield from self.stand(stored, "tma_store", "store reads sO", self.number)
        if self.design.specialised:
            self.arrive("load_Q_empty", 0, 1)
            cycles = machine.elect_cycles + machine.mbarrier_arrive_cycles
            yield from self.spend("free Q", "issue", cycles, self.number)
