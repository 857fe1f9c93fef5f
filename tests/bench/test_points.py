"""What is measured, and what was."""

from __future__ import annotations

import pytest

from fa4kernel.bench import kernels
from fa4kernel.bench.points import VARIANTS, grid, standard
from fa4kernel.bench.predict import point_of
from fa4kernel.bench.stored import measured


def test_the_grid_has_enough_points_all_different():
    names = [point.name for point in grid()]
    assert len(names) >= 60 and len(set(names)) == len(names)
    assert {point.variant for point in grid()} == {"", *VARIANTS}


def test_standard_points_have_the_published_size():
    point = standard(64, False, 2048)
    assert point.batch * point.seqlen == 32_768 and point.heads * point.head_dim == 2048


def test_every_point_has_a_kernel_and_equal_designs_share_it():
    by_key: dict[str, str] = {}
    for point in grid():
        kernel = kernels.kernel_of(point, "sm_90a")
        assert by_key.setdefault(kernels.key(kernel), str(kernel.design)) == str(kernel.design)
    assert 20 < len(by_key) < 40


def test_kernels_come_from_the_folder_or_are_asked_for(tmp_path):
    kernel = kernels.kernel_of(standard(128, False, 512), "sm_90a")
    with pytest.raises(ValueError, match="has no kernel for Config"):
        kernels.read(tmp_path, kernel)
    (tmp_path / f"{kernels.key(kernel)}.ptx").write_text("text")
    assert kernels.read(tmp_path, kernel) == "text"


def test_the_stored_measurement_is_whole():
    found = measured()
    assert found["about"]["device"] == "NVIDIA H200" and found["about"]["date"]
    assert [row["name"] for row in found["points"]] == [point.name for point in grid()]
    for row in found["points"]:
        assert point_of(row).name == row["name"]
        ours = row["ours"]
        assert 0 < ours["low"] <= ours["ms"] <= ours["high"] and 0.8e9 < ours["clock_hz"] < 2.1e9
        assert row["rel_err"] < 4e-3
        if not row["variant"]:
            assert {"cudnn", "fa2", "fa4"} <= set(row)
