"""The emulator's scalar instructions against what an H200 gave."""

from __future__ import annotations

import numpy as np
import pytest

from tests.emulator.device import bits, lines, opcodes, run, stored, sweeps
from tests.emulator.isa.case import Case, complaints, evaluate

#: Lines whose values the manual leaves open within a bound; the H200 has its own tables for them.
APPROXIMATE = ("ex2", "lg2", "sin", "cos", "tanh", "rcp.approx", "sqrt.approx", "rsqrt",
               "div.approx", "div.full")  # fmt: skip


def test_the_file_says_where_and_when():
    about = stored.results()["about"]
    assert about["device"] == "NVIDIA H200"
    assert about["architecture"] == "sm_90"
    assert all(about[key] for key in ("driver", "cuda", "clock_khz", "date"))
    assert not stored.results()["failed"]


def test_nearly_everything_has_run_on_an_h200():
    known = stored.results()["lines"]
    everything = [lines.key(case) for case in (*lines.TABLE, *lines.EXTRA)]
    assert sum(name in known for name in everything) > 0.9 * len(everything)
    assert stored.PATH.stat().st_size < 300_000


@pytest.mark.parametrize("case", lines.TABLE, ids=lines.key)
def test_an_h200_gives_what_the_table_says(case: Case) -> None:
    rows = stored.result("cases", lines.key(case))
    if len(rows) < len(case.rows):
        pytest.skip(f"rows were added since {case.text!r} ran on an H200: {stored.COMMAND}")
    results = [np.array([int(row[i], 16) for row in rows], np.uint64)
               for i in range(len(case.results))]  # fmt: skip
    assert not complaints(case, results)


EXACT = [
    case for case in (*lines.TABLE, *lines.EXTRA)
    if not case.text.startswith(APPROXIMATE)
]  # fmt: skip


@pytest.mark.parametrize("case", EXACT, ids=lines.key)
def test_random_inputs_give_the_bits_of_an_h200_but_for_nans(case: Case) -> None:
    expected = stored.result("lines", lines.key(case))
    found = evaluate(case, opcodes.inputs(case, run.ROWS))
    wide = [bits.canonical(f.astype(np.uint64), k)
            for f, (_, k) in zip(found, case.results, strict=True)]  # fmt: skip
    for i, row in enumerate(expected["first"]):
        for raw, (_, kind), got in zip(row, case.results, wide, strict=True):
            assert int(bits.canonical(np.array([int(raw, 16)], np.uint64), kind)[0]) == int(got[i])
    assert [bits.digest(w) for w in wide] == expected["crc"]


@pytest.mark.parametrize("sweep", sweeps.SWEEPS, ids=lambda sweep: sweep.text)
def test_special_functions_of_an_h200_are_as_close_as_promised(sweep: sweeps.Sweep) -> None:
    found = stored.result("sweeps", sweep.text)
    assert found["largest error where bounded"][0] <= 1.04 * sweep.promised  # which is rounded
    assert found["nans"] == ["7fffffff"]


@pytest.mark.parametrize(
    "sweep", [s for s in sweeps.SWEEPS if s.text[:3] not in ("sin", "cos")], ids=lambda s: s.text
)
def test_infinities_zeros_and_nans_come_where_an_h200_has_them(sweep: sweeps.Sweep) -> None:
    assert stored.result("sweeps", sweep.text)["special"] == 0


def test_every_input_of_ex2_was_tried():
    found = stored.results()["sweeps"]["ex2.approx.ftz.f32 d, a;"]
    assert found["inputs"] == 2**32
    assert {int(n) for n in found["from the model, ulps"]} <= {-2, -1, 0, 1, 2}


@pytest.mark.parametrize("case", sweeps.HALVES, ids=lambda case: case.text)
def test_special_functions_of_16_bits_are_those_of_an_h200(case: Case) -> None:
    every = np.arange(1 << 16, dtype=np.uint64)
    found = evaluate(case, [every])[0].astype(np.uint64)
    digest = bits.digest(bits.canonical(found, case.results[0][1]))
    expected = stored.result("halves", case.text)
    if case.text.startswith("ex2"):
        assert digest == expected["crc"]
    else:  # whose last bit is off now and then
        assert expected["differences"] <= 48
        sample = np.array([int(v, 16) for v in expected["sample"]])
        off = sample - found[:: run.EVERY].astype(np.int64)
        assert abs(off[sample != 0x7FFF]).max() <= 1
