"""The cross-check's bench: which votes its table counts, and whether it can tell a disagreement."""

from __future__ import annotations

import importlib
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from fa4kernel.crosscheck.record import Operation, Record, Warp
from fa4kernel.crosscheck.simulated import simulated
from fa4sim import B200, Design, Problem

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"
PROBLEM = Problem(seqlen_q=512, seqlen_k=512)
MACHINE = B200.with_constants(sms=1)


@pytest.fixture(name="crossbench")
def _crossbench(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(NOTEBOOKS))
    return importlib.import_module("crossbench")


@pytest.fixture(name="records")
def _records(crossbench: ModuleType) -> dict[float, Record]:
    """The bench's values in the simulator, by the threshold of rescaling."""
    inputs = crossbench.rising(PROBLEM)
    design = Design.for_problem(PROBLEM, MACHINE, cta_group=1)
    return {
        threshold: simulated(
            PROBLEM, replace(design, rescale_threshold=threshold), MACHINE,
            (inputs.q, inputs.k, inputs.v), inputs.sink,
        ).record
        for threshold in (8.0, 7.0)
    }  # fmt: skip


def test_a_vote_is_what_follows_the_factors_and_the_end_of_a_tile_is_none(
    crossbench: ModuleType,
) -> None:
    warp, other = Warp(0, "correction", 0), Warp(0, "softmax0", 0)
    steps = ("read stats", "read stats", "rescale O", "read stats", "finish O", "store O")
    record = Record("by hand", "ticks")
    record.warps[warp] = [Operation(what, "O0") for what in (*steps, *steps[1:])]
    record.warps[other] = [Operation("write stats", "stats[0]")]
    votes = crossbench.decisions(record)
    assert votes == {(warp, 0): False, (warp, 1): True, (warp, 2): True}


def test_votes_are_as_many_as_the_run_counts(
    crossbench: ModuleType, records: dict[float, Record]
) -> None:
    for record in records.values():
        votes = crossbench.decisions(record)
        assert len(votes) == record.amounts["rescale votes"] == 48
        assert sum(votes.values()) == record.amounts["rescales"]


def test_a_simulator_that_decides_by_another_rule_is_told(
    crossbench: ModuleType, records: dict[float, Record]
) -> None:
    """Vote by vote: sums could be equal where decisions are not."""
    right, other = (crossbench.decisions(record) for record in records.values())
    assert 5 < sum(right.values()) < 43, "some rescale and some do not"
    assert sum(right[vote] != other[vote] for vote in right) > 5


def test_values_are_of_the_problem_s_type(crossbench: ModuleType) -> None:
    k = crossbench.rising(PROBLEM).k
    assert k.dtype == np.float32 and not np.any(k.view(np.uint32) & 0xFFFF), "bf16 in float32"
    assert k[0, 0, 0, 0] > 4 * abs(k[0, -1, 0, 0]), "keys that come last score highest"
