"""Every barrier and unit that a report can name is told in words, and no word is left over."""

from itertools import product

import pytest

from fa4sim import Problem, simulate
from fa4sim.analysis.meanings import BARRIERS, UNITS, barrier_means
from fa4sim.pipelines.fa3 import barriers as hopper
from fa4sim.pipelines.fa4 import barriers as blackwell
from fa4sim.specs import H200, Design, HopperDesign

#: Not barriers, but a warp stands there, too.
UNITS_WAITED_FOR = {"tensor", "tma_store"}


def used_barriers() -> set[str]:
    designs = [
        Design(cta_group=pair, scheduler=scheduler, epilogue=epilogue, overlap_o_q=shared)
        for pair, scheduler, epilogue, shared in product(
            (1, 2), ("lpt", "static_persistent", "dynamic", "dynamic_varlen"),
            ("tma", "correction"), (False, True),
        )
    ]  # fmt: skip
    older = [HopperDesign(), HopperDesign(specialised=False, overlap=False, ping_pong=False,
                                          kv_stages=1)]  # fmt: skip
    tables = [blackwell.barrier_table(design) for design in designs]
    tables += [hopper.barrier_table(design) for design in older]
    return {name for table in tables for name, spec in table.items() if spec.used}


def test_every_barrier_that_is_used_is_told():
    silent = [name for name in sorted(used_barriers()) if not barrier_means(name)]
    assert silent == []


def test_nothing_is_told_of_a_barrier_that_is_not_there():
    heads = {name.rstrip("0123456789") for name in used_barriers()}
    assert set(BARRIERS) - UNITS_WAITED_FOR == heads
    assert barrier_means("s0_s1_sequence") == barrier_means("") == ""


@pytest.mark.parametrize("machine", [None, H200], ids=["B200", "H200"])
def test_what_a_report_names_is_told(machine):
    options = {} if machine is None else {"machine": machine}
    report = simulate(Problem(heads=2, seqlen_q=512), **options).report
    assert set(report.units) <= set(UNITS)
    assert [wait.barrier for wait in report.waits if not barrier_means(wait.barrier)] == []
