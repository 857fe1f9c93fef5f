from __future__ import annotations

import pytest

from fa4sim.numerics import DISTRIBUTIONS, format_rescales, measure_rescales


def test_plain_normal_scores_never_rescale_with_the_threshold() -> None:
    (row,) = measure_rescales([1024], ["normal, std 1"], causal=[False])
    assert row.score_std == pytest.approx(1, rel=0.05)
    assert row.warp_rescales == 0
    assert row.warp_rescales_always > 0.9 * row.votes
    assert row.warp_ratio == row.row_ratio == float("inf")


def test_wider_scores_leave_more_to_rescale() -> None:
    rows = measure_rescales([512], [f"normal, std {s}" for s in (1, 2, 4)], causal=[True])
    assert rows[0].warp_ratio > rows[1].warp_ratio > rows[2].warp_ratio >= 1


def test_every_distribution_saves_rescales() -> None:
    for row in measure_rescales([384], causal=[False], head_dim=64):
        assert row.warp_rescales <= row.warp_rescales_always <= row.votes
        assert row.row_rescales < row.row_rescales_always


def test_the_same_seed_gives_the_same_counts() -> None:
    twice = [measure_rescales([256], ["outlier keys"], seed=3) for _ in range(2)]
    assert twice[0] == twice[1]


def test_the_table_has_a_line_per_row() -> None:
    rows = measure_rescales([256], head_dim=32)
    table = format_rescales(rows).splitlines()
    assert len(table) == 1 + 2 * len(DISTRIBUTIONS)
    assert len({len(line) for line in table}) == 1


def test_an_unknown_distribution_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="distributions 'uniform' are not known"):
        measure_rescales([256], ["uniform"])


@pytest.mark.slow
def test_about_ten_times_fewer_rescales_need_scores_of_moderate_spread() -> None:
    causal = measure_rescales([4096], ["normal, std 2"], causal=[True])[0]
    assert 8 < causal.warp_ratio < 16
