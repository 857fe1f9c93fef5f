"""Published figures against simulated ones: the data, the null models, the page, the verdict."""

import math
from dataclasses import replace

import pytest

from fa4sim.specs import B200
from fa4sim.validation import (
    errors_of,
    other_shapes,
    page,
    relative_error,
    run_validation,
    validated_rows,
    write_page,
)
from fa4sim.validation.ideas import IDEAS
from fa4sim.validation.null_models import NULL_MODELS, mean_keys
from fa4sim.validation.readings import READINGS, reading_jobs
from fa4sim.validation.sensitivity import UNUSED, open_constants, variations
from fa4sim.validation.throughput import Job, simulate_row, simulate_rows
from fa4sim.validation.validation import Line, Validation

ROWS = validated_rows()
FITTED = [row for row in ROWS if row.fitted]


def test_the_fit_saw_three_rows_and_few_constants():
    assert [row.name for row in FITTED] == ["full 4k", "full 16k", "causal 4k"]
    fitted = [name for name, origin in B200.origins.items() if origin.kind == "fitted"]
    assert 0 < len(fitted) <= 4


def test_every_open_constant_lies_inside_its_range():
    for name in open_constants(B200):
        origin = B200.origins[name]
        assert origin.low <= getattr(B200, name) <= origin.high, name


def test_the_rows_hold_32k_tokens_at_the_data_sets_clock():
    assert len(ROWS) == 12
    for row in ROWS:
        assert row.problem.batch * row.problem.seqlen_q == 32768
        assert row.problem.heads == 16 and row.problem.head_dim == 128
        assert row.machine.clock_hz == 1.85e9


def test_rows_run_the_kernels_own_design():
    full, causal = ROWS[0].chosen(), ROWS[6].chosen()
    assert (full.cta_group, full.scheduler, full.exp2_period) == (2, "static_persistent", 10)
    assert (causal.cta_group, causal.scheduler, causal.exp2_period) == (1, "lpt", 16)


@pytest.mark.parametrize("name", ["full 8k", "causal 8k", "causal 32k"])
def test_rows_that_were_not_fitted_come_out_within_a_tenth(name):
    (row,) = (row for row in ROWS if row.name == name)
    assert not row.fitted
    assert abs(relative_error(simulate_row(Job(row)).tflops, row.published)) < 0.10


def test_no_other_shape_is_fitted_and_each_names_its_source():
    groups = other_shapes()
    assert {row.problem.head_dim for group in groups for row in group.rows} == {64, 128, 192}
    assert {row.problem.dtype for group in groups for row in group.rows} == {"bf16", "e4m3"}
    for group in groups:
        assert group.source and group.clock
        assert not any(row.fitted for row in group.rows)
        assert all(row.slower is None or row.slower <= row.published for row in group.rows)


def test_null_models_go_through_what_they_were_fitted_to():
    for name in ("quadratic in log₂ of keys per query", "per block + per tile"):
        model = NULL_MODELS[name](FITTED)
        for row in FITTED:
            assert model(row.problem) == pytest.approx(row.published, rel=0.03), (name, row.name)
    # One constant cannot do that, but its errors cancel.
    model = NULL_MODELS["roofline × constant"](FITTED)
    logs = [math.log(model(row.problem) / row.published) for row in FITTED]
    assert sum(logs) == pytest.approx(0.0, abs=1e-9)


def test_mean_keys_tell_causal_from_full():
    assert mean_keys(ROWS[0].problem) == 1024
    assert mean_keys(ROWS[6].problem) == 512


def test_varying_a_constant_reaches_the_simulation():
    row = ROWS[5]
    slower = simulate_row(Job(row, {"mufu_cycles_per_warp": 16.0}))
    assert slower.tflops < 0.8 * simulate_row(Job(row)).tflops
    assert 0 < slower.units["tensor"] < slower.units["mufu"] <= 1


def test_both_ends_of_every_used_range_are_varied():
    varied = {name for name, _ in variations(B200)}
    assert varied | set(UNUSED) == set(open_constants(B200))
    for name, value in variations(B200):
        assert value in (B200.origins[name].low, B200.origins[name].high)


def test_constants_called_unused_are_unused():
    for name in UNUSED:
        row, origin = ROWS[6], B200.origins[name]
        ends = [simulate_row(Job(row, {name: end})).tflops for end in (origin.low, origin.high)]
        assert ends[0] == ends[1]


def test_taking_an_idea_away_changes_the_design_of_its_masks():
    for idea in IDEAS:
        for mask in idea.masks:
            row = next(row for row in ROWS if row.name.startswith(mask))
            chosen = row.chosen()
            assert row.chosen(**idea.without(chosen)) != chosen, (idea.name, mask)


def test_rows_are_simulated_in_order_with_progress():
    seen = []
    jobs = {row.name: Job(row) for row in ROWS[:2]}
    outcomes = simulate_rows(jobs, lambda done, of: seen.append((done, of)))
    assert list(outcomes) == ["full 1k", "full 2k"] and seen == [(1, 2), (2, 2)]
    assert outcomes["full 1k"].tflops == simulate_row(jobs["full 1k"]).tflops


def made_up(error):
    """A validation of which every row that was not fitted is off by ``error``."""
    lines = tuple(Line(row, row.published * (1 + error), {"n": row.published}) for row in ROWS)
    errors = errors_of([line.error for line in lines if not line.row.fitted])
    return Validation(lines, errors, {"n": errors_of([0.0])}, (), (), (), {}, (), B200, 1.0)


def test_the_page_says_missed_when_it_is_missed():
    good, bad = made_up(0.01), made_up(-0.2)
    assert good.ok and "less: met)" in page(good)
    assert not bad.ok and "less: missed)" in page(bad) and "−20.0 %" in page(bad)


def test_the_page_is_written_into_a_repository_and_nowhere_else(tmp_path):
    with pytest.raises(ValueError, match="not a copy of the fa4sim repository"):
        write_page(made_up(0.0), tmp_path)
    (tmp_path / "pyproject.toml").touch()
    path = write_page(made_up(0.0), tmp_path)
    assert path == tmp_path / "docs/validation/b200.md"
    assert path.read_text().startswith("# Simulated against published")


def test_errors_of_nothing_are_refused():
    with pytest.raises(ValueError, match="at least one row"):
        errors_of([])


def test_a_worst_case_alone_fails_the_verdict():
    errors = errors_of([0.0] * 8 + [0.11])
    assert errors.mean < 0.05 and not errors.ok
    assert replace(errors, worst=0.10).ok


@pytest.mark.slow
def test_the_whole_validation_meets_what_is_wanted():
    result = run_validation(sensitivity=False)
    assert result.ok, result.errors
    assert all(result.errors.mean < null.mean for null in result.null_errors.values())
    facts = result.to_dict()
    assert len(facts["rows"]) == 12 and len(facts["ideas"]) == len(IDEAS)
    assert "## What each idea buys" in page(result)


def test_readings_are_sized_for_full_16k():
    jobs = {name: job for (_, name, row), job in reading_jobs().items() if row == "full 16k"}
    assert set(jobs) == {reading.name for reading in READINGS}
    for name, job in jobs.items():
        error = relative_error(simulate_row(job).tflops, job.row.published)
        assert abs(error) <= 0.02 or name == "nothing", (name, error)


def test_the_null_model_of_blocks_and_tiles_can_be_solved():
    # As many tiles in every row: a launch of its own would be no third unknown.
    tiles = {row.problem.batch * row.problem.seqlen_q for row in FITTED}
    assert len(tiles) == 1
    model = NULL_MODELS["per block + per tile"](FITTED)
    launch = replace(FITTED[0].machine, launch_seconds=1e-3)
    slow = NULL_MODELS["per block + per tile"]([replace(row, machine=launch) for row in FITTED])
    assert slow(FITTED[0].problem) == pytest.approx(model(FITTED[0].problem), rel=1e-6)
    small = replace(FITTED[0].problem, batch=1)  # fewer tiles: the launch counts for itself
    assert slow(small) < 0.9 * model(small)
