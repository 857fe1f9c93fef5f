"""Remarks on survivors of our kernel are about what the kernel has there."""

from __future__ import annotations

import pytest

pytest.importorskip("cutlass", reason="needs the CuTe DSL: pip install 'fa4sim[kernel]'")

from tests.emulator.mutation import ours


def test_remarks_are_about_problems_that_there_are() -> None:
    assert all(callable(getattr(ours, name)) for name in ours.REMARKS)


def test_no_mutant_has_two_remarks() -> None:
    for remarks in ours.REMARKS.values():
        about = [(remark.kind, remark.change, remark.source) for remark in remarks]
        assert len(set(about)) == len(about)


def test_a_place_is_where_its_code_ends() -> None:
    lines = (ours.PACKAGE / "forward" / "load.py").read_text().splitlines()
    (remark,) = ours.REMARKS["single"]
    name, line = remark.source.split(":")
    assert name == "load.py" and "load_Q_empty.wait_previous" in lines[int(line) - 1]
    assert "boxes = q.boxes" in lines[int(line) - 2]


@pytest.mark.parametrize(
    "code", ["no such code", "barriers.P_full_O_rescaled.arrive_leader(stage)"]
)
def test_code_that_is_not_in_one_place_is_refused(code: str) -> None:
    with pytest.raises(AssertionError, match="name one"):
        ours.place_of("forward/correction.py", code)
