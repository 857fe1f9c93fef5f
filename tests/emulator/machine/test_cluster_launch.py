"""Cluster launch control: each cluster is worked on once, by whoever takes it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from fa4kernel.emulator import EmulationError, Launch, emulate
from fa4kernel.emulator.machine.cluster_launch import PendingClusters
from tests.emulator.machine.kernels import kernel

#: Each CTA adds 1 + its own number * 1000 to the words of all CTAs that it takes over, by the
#: index of their first CTA; thread 0 of rank 0 asks.
WORKER = """setp.eq.u32 %p9, t, 0;
        mov.u32 %a2, %ctaid.x; mov.u32 %a3, %ctaid.y; mov.u32 %a20, 0;
        mov.u32 %a4, %nctaid.x;
        mov.u32 %a5, %ctaid.x; mad.lo.u32 %a5, %a3, %a4, %a5;
        mad.lo.u32 %a5, %a5, 1000, 1;
        mov.u32 %a15, %cluster_nctarank; sub.u32 %a15, %a15, 1; and.b32 %a15, %a2, %a15;
        @%p9 mbarrier.init.shared::cta.b64 [base+16], 1;
        fence.mbarrier_init.release.cluster;
        barrier.cluster.arrive; barrier.cluster.wait;
        again: mad.lo.u32 %a6, %a3, %a4, %a2;
        mul.wide.u32 %d1, %a6, 4; add.u64 %d1, p0, %d1;
        @%p9 red.global.add.u32 [%d1], %a5;
        @!%p9 bra asked;
        mbarrier.arrive.expect_tx.shared::cta.b64 _, [base+16], 16;
        setp.eq.u32 %p8, rank, 0;
        @%p8 clusterlaunchcontrol.try_cancel.async.shared::cta{signal}{all}.b128
            [base], [base+16];
        asked: bar.warp.sync 0xffffffff;
        wait: mbarrier.try_wait.parity.shared::cta.b64 %p1, [base+16], %a20;
        @!%p1 bra wait;
        xor.b32 %a20, %a20, 1;
        ld.shared.b128 %q0, [base];
        clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p2, %q0;
        fence.proxy.async.shared::cta;
        barrier.cluster.arrive; barrier.cluster.wait;
        @!%p2 bra over;
        {query}
        add.u32 %a2, %a2, %a15;
        bra again;
        over:"""
SIGNAL = ".mbarrier::complete_tx::bytes"
VECTOR = "clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {%a2, %a3, _, _}, %q0;"
SINGLE = """clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 %a2, %q0;
        clusterlaunchcontrol.query_cancel.get_first_ctaid::y.b32.b128 %a3, %q0;"""


@pytest.mark.parametrize("schedule", ["lockstep", 1, 2, 3])
@pytest.mark.parametrize(("cluster", "query"), [(1, VECTOR), (2, VECTOR), (2, SINGLE)])
@pytest.mark.parametrize("resident", [2, 4, 32])
def test_every_cluster_is_worked_on_exactly_once(
    schedule: str | int, cluster: int, query: str, resident: int
) -> None:
    out = np.zeros((3, 4), np.uint32)
    everyone = ".multicast::cluster::all" if cluster > 1 else ""
    text = kernel(WORKER.format(signal=SIGNAL, all=everyone, query=query))
    launch = Launch((4, 3, 1), (32, 1, 1), (cluster, 1, 1), arguments=[out])
    emulate(text, launch, schedule=schedule, checks="off", resident_ctas=resident)
    assert (out % 1000 == 1).all()
    workers = np.unique(out // 1000)
    assert len(workers) == min(resident, 12)
    own = out.reshape(-1)[workers] // 1000
    assert (own == workers).all(), "those that started work on their own cluster first"


def test_an_answer_that_is_none_is_refused() -> None:
    body = """mov.b64 %d1, 77; mov.b128 %q0, {%d1, %d1};
        clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p1, %q0;"""
    with pytest.raises(EmulationError, match="no answer of try_cancel"):
        emulate(kernel(body, 0), Launch((1, 1, 1), (32, 1, 1)))


@pytest.mark.parametrize(
    ("take", "expected"),
    [(lambda p: p.cancel(), (2, 0, 0)), (lambda p: p.take(2).tolist(), [1, 2])],
)
def test_pending_clusters_go_in_the_order_of_the_grid(
    take: Callable[[PendingClusters], object], expected: object
) -> None:
    pending = PendingClusters(Launch(grid=(4, 2, 1), block=(32, 1, 1), cluster=(2, 1, 1)))
    pending.take(1)
    assert take(pending) == expected


def test_the_first_cta_of_a_cluster_is_counted_in_ctas() -> None:
    pending = PendingClusters(Launch(grid=(4, 6, 2), block=(32, 1, 1), cluster=(2, 3, 1)))
    found = [pending.cancel() for _ in range(9)]
    assert found == [
        (0, 0, 0), (2, 0, 0), (0, 3, 0), (2, 3, 0),
        (0, 0, 1), (2, 0, 1), (0, 3, 1), (2, 3, 1), None,
    ]  # fmt: skip
