"""The emulator's outputs against those of an H200, with the same PTX and numbers."""

from __future__ import annotations

import numpy as np
import pytest
from click.testing import CliRunner

from fa4kernel.bench.outputs import CASES, Case, Difference, Output, digest, hold, stored_outputs
from fa4kernel.cli.main import main
from fa4sim.numerics.formats import from_bits16

STORED, ABOUT = stored_outputs()
WHOLE = [case for case in CASES if case.whole]
STEP = {"bf16": 2.0**-8, "fp16": 2.0**-11}


def near(case: Case, found: Difference) -> bool:
    """Few elements differ, by a step of the largest at most; LSE in its last bits."""
    largest = float(np.abs(from_bits16(STORED[case.name].o, case.problem.dtype)).max())
    return (
        found.differing <= 0.02 * found.elements
        and found.largest <= STEP[case.problem.dtype] * largest
        and found.lse_largest < 2e-6
    )


def test_what_an_h200_gave_is_whole():
    assert ABOUT["device"] == "NVIDIA H200" and ABOUT["driver"] and ABOUT["date"]
    assert [*ABOUT["digests"]] == [case.name for case in CASES]
    for case in CASES:
        arrays = case.arrays()
        assert STORED[case.name].o.shape == arrays.o.shape
        assert STORED[case.name].lse.shape == arrays.lse.shape
        assert np.isfinite(STORED[case.name].lse).all() and STORED[case.name].o.any()


def test_cases_cover_what_the_kernel_does():
    assert {case.problem.dtype for case in CASES} == {"bf16", "fp16"}
    assert {case.problem.head_dim for case in CASES} == {64, 128}
    assert {case.cfg.consumers for case in CASES} == {2, 3}
    assert any(case.problem.window for case in CASES) and any(c.problem.causal for c in CASES)
    assert any(case.problem.group > 1 for case in CASES)


@pytest.mark.parametrize("case", WHOLE[::2], ids=lambda case: case.name)
def test_with_whole_scores_the_bits_are_those_of_an_h200(case):
    pytest.importorskip("cutlass", reason="needs the CuTe DSL: pip install 'fa4sim[kernel]'")
    found = hold(case, "faithful")
    assert found.differing == 0 and found.lse_largest < 2e-6


@pytest.mark.slow
@pytest.mark.parametrize("arithmetic", ["fast", "faithful"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_outputs_are_within_rounding_of_an_h200s(case, arithmetic):
    pytest.importorskip("cutlass", reason="needs the CuTe DSL: pip install 'fa4sim[kernel]'")
    found = hold(case, arithmetic)
    assert near(case, found)
    if case.whole and arithmetic == "faithful":
        assert found.differing == 0


def test_differences_are_counted_in_steps_of_the_format():
    one = Output(np.array([0x3F80, 0x8000, 0x0001], np.uint16), np.array([1, -np.inf], np.float32))
    other = Output(np.array([0x3F82, 0x0000, 0x8001], np.uint16), np.array([1, -np.inf], "f4"))
    found = Difference.of("bf16", one, other)
    assert (found.elements, found.differing, found.steps) == (3, 3, 2)
    assert found.largest == 2.0**-6 and (found.lse_differing, found.lse_largest) == (0, 0.0)


def test_another_kernel_would_be_seen():
    case = CASES[0]
    changed = Output(STORED[case.name].o ^ 0x0040, STORED[case.name].lse)
    assert not near(case, Difference.of("bf16", changed, STORED[case.name]))


def test_a_digest_is_of_the_instructions():
    text = '// note\n.version 8.8\n\t.loc 1 2 3\n\tadd.s32 %r1, %r2, 1;\n\t.file 1 "/a/b.py"\n'
    assert digest(text) == digest(text.replace("/a/b.py", "/c/d.py").replace("1 2 3", "1 9 3"))
    assert digest(text) != digest(text.replace("%r2, 1", "%r2, 2"))


def test_without_a_gpu_there_are_no_outputs(monkeypatch, tmp_path):
    monkeypatch.setattr("fa4kernel.gpu.missing", lambda compiler=True: "there is no CUDA driver")
    target = tmp_path / "o.npz"
    done = CliRunner().invoke(main, ["bench", "--points", "outputs", "-o", str(target)])
    assert done.exit_code == 2 and "there is no CUDA driver" in done.output
    assert not target.exists()


def test_the_page_is_renewed_from_what_was_measured_or_not_at_all(monkeypatch):
    monkeypatch.setattr("fa4kernel.cli.bench.renew", None)  # would be called
    done = CliRunner().invoke(main, ["bench", "--write", "--seconds", "60", "-o", "x.json"])
    assert done.exit_code == 2
    assert "--write measures nothing and ignores --seconds, --out;" in done.stderr
