"""Clusters: their barrier, and addresses in other CTAs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fa4kernel.emulator.machine.convoy import Convoy, Mask
from fa4kernel.emulator.machine.layout import RANK_SHIFT
from fa4kernel.emulator.machine.loads import spread
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
from fa4kernel.emulator.ptx.module import Instruction

if TYPE_CHECKING:
    from fa4kernel.emulator.machine.machine import Machine


class ClusterBarriers:
    """One barrier for each cluster, on which all its threads arrive (PTX ISA 9.7.13.4).

    Attributes:
        generation: how often each cluster's barrier has completed.
        arrived: threads that have come, by lane, since it last did.
    """

    def __init__(self, lanes: int, clusters: int) -> None:
        self.arrived = np.zeros(lanes, np.bool_)
        self.waits_for = np.zeros(lanes, np.int64)
        self.generation = np.zeros(clusters, np.int64)

    def cluster_of(self, lanes: NDArray[np.intp], machine: Machine) -> NDArray[np.intp]:
        """Clusters of lanes."""
        return lanes // 32 % machine.shape.ctas % machine.shape.clusters

    def arrive(self, machine: Machine, lanes: NDArray[np.intp]) -> None:
        """These threads arrive; the barrier completes when all that live have."""
        clusters = self.cluster_of(lanes, machine)
        self.waits_for[lanes] = self.generation[clusters] + 1
        self.arrived[lanes] = True
        self.settle(machine)

    def settle(self, machine: Machine) -> None:
        """Complete the barriers on which every living thread has arrived."""
        shape = machine.shape
        form = (shape.warps, shape.size, shape.clusters, 32)
        came, alive = self.arrived.reshape(form), machine.alive.reshape(form)
        done = (came | ~alive).all(axis=(0, 1, 3)) & (came & alive).any(axis=(0, 1, 3))
        self.generation[done] += 1
        came[:, :, done] = False


class ClusterPassed(Condition):
    """Threads wait for the cluster barrier they arrived on."""

    def ready(self, machine: Machine, convoy: Convoy) -> Mask:
        """Those whose barrier has completed."""
        barriers = machine.cluster_barriers
        barriers.settle(machine)
        lanes = np.arange(convoy.lo, convoy.hi)
        done = barriers.generation[barriers.cluster_of(lanes, machine)]
        return done >= barriers.waits_for[lanes]

    def describe(self, machine: Machine, convoy: Convoy) -> list[str]:
        """How many threads have come."""
        barriers = machine.cluster_barriers
        found = []
        every = np.arange(machine.shape.lanes)
        clusters = barriers.cluster_of(every, machine)
        for leader in convoy.warps()[1]:
            mine = clusters == clusters[leader]
            came = int(np.count_nonzero(barriers.arrived & mine))
            alive = int(np.count_nonzero(machine.alive & mine))
            found.append(f"the cluster barrier: {came} of {alive} threads have arrived")
        return found


def decode_cluster_barrier(instruction: Instruction, context: Context) -> Handler:
    """``barrier.cluster.arrive`` and ``.wait``."""
    allow(instruction, "cluster", "arrive", "wait", "release", "acquire", "relaxed", "aligned")
    if "arrive" in instruction.qualifiers:

        def arrive(machine: Machine, convoy: Convoy) -> Outcome:
            if machine.monitor is not None:
                machine.monitor.cluster_arrive(convoy, instruction)
            machine.cluster_barriers.arrive(machine, convoy.lanes())
            return None

        return arrive

    def wait(machine: Machine, convoy: Convoy) -> Outcome:
        condition = ClusterPassed()
        waiting = ~condition.ready(machine, convoy) & convoy.full_mask()
        if waiting.any():
            return Wait(waiting, condition, again=True, others_again=True)
        if machine.monitor is not None:
            machine.monitor.cluster_wait(convoy, instruction)
        return None

    return wait


@decodes("mapa")
def decode_mapa(instruction: Instruction, context: Context) -> Handler:
    """``mapa``: the same shared address in another CTA of the cluster."""
    kind = instruction.type
    allow(instruction, "shared::cluster", "u32", "u64")
    wide = 2 if kind == "u64" else 1
    address = context.value(instruction.operands[1], wide)
    rank = context.value(instruction.operands[2])
    target = instruction.operands[0]
    mask = np.int64((1 << RANK_SHIFT) - 1 | ~0xFFFFFFFF)

    def handler(machine: Machine, convoy: Convoy) -> Outcome:
        lanes = convoy.lanes()
        old = address(machine.registers, lanes)
        values = old & mask | rank(machine.registers, lanes) << RANK_SHIFT
        spread(machine, convoy, target, kind, values.astype(np.uint64 if wide == 2 else np.uint32))
        return None

    return handler


@decodes("getctarank")
def decode_getctarank(instruction: Instruction, context: Context) -> Handler:
    """``getctarank``: whose shared memory an address is in."""
    allow(instruction, "shared::cluster", "u32", "u64")
    address = context.value(instruction.operands[1], 2)
    target = instruction.operands[0]

    def handler(machine: Machine, convoy: Convoy) -> Outcome:
        values = address(machine.registers, convoy.lanes()) >> RANK_SHIFT & 0xFF
        spread(machine, convoy, target, "u32", values.astype(np.uint32))
        return None

    return handler


@decodes("cvta")
def decode_cvta(instruction: Instruction, context: Context) -> Handler:
    """``cvta`` where it is more than another name (see ``cells``)."""
    allow(instruction, "to", "global", "const", "local", "shared", "shared::cta",
          "shared::cluster", "param", "param::entry", "u32", "u64")  # fmt: skip
    address = context.value(instruction.operands[1], 2)
    target = instruction.operands[0]
    window = context.address_of.window(instruction.qualifiers)
    narrow = instruction.type == "u32"
    if narrow:
        raise unsupported(instruction, "32-bit generic addresses")

    def handler(machine: Machine, convoy: Convoy) -> Outcome:
        values: Any = address(machine.registers, convoy.lanes())
        if window is not None:
            values = values & 0xFFFFFFFF | window << 32
        spread(machine, convoy, target, "u64", values.astype(np.uint64))
        return None

    return handler
