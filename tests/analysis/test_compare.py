"""Two runs side by side."""

import dataclasses
import json

import pytest

from fa4sim.analysis import compare, describe, format_comparison
from tests.analysis.runs import run_of


def test_a_run_does_not_differ_from_itself():
    trace = run_of("causal").trace
    comparison = compare(trace, trace)
    assert len(comparison.rows) > 20
    assert all(row.change == 0 and row.ratio == 1 for row in comparison.rows)


def test_slow_exponentials_show_where_they_cost():
    comparison = compare(run_of("pair").trace, run_of("slow MUFU").trace, ("16/clk", "4/clk"))
    (cycles,) = [row for row in comparison.section("time") if row.name == "cycles"]
    assert cycles.ratio > 2
    assert comparison.section("ops")[0].name.endswith("exp2")
    assert comparison.section("path")[0].name.endswith("exp2")
    (tensor,) = [row for row in comparison.section("units") if row.name == "tensor"]
    assert tensor.change < 0


def test_each_section_starts_with_what_changed_most():
    comparison = compare(run_of("pair").trace, run_of("causal").trace)
    for section in ("units", "waits", "ops", "path"):
        changes = [abs(row.change) for row in comparison.section(section)]
        assert changes == sorted(changes, reverse=True)


def test_the_other_way_round_the_changes_have_the_other_sign():
    a, b = run_of("pair").trace, run_of("one CTA").trace
    there = {(row.section, row.name): row.change for row in compare(a, b).rows}
    back = {(row.section, row.name): -row.change for row in compare(b, a).rows}
    assert there == pytest.approx(back)


def test_a_description_is_made_of_fractions_and_cycles():
    sections = describe(run_of("pair").trace)
    assert sections["time"]["cycles"] == run_of("pair").trace.end
    assert sum(sections["path"].values()) == pytest.approx(sections["time"]["cycles per block"])
    for name in ("units", "waits"):
        assert all(0 <= value <= 1 for value in sections[name].values())
    assert sections["units"]["tensor"] == pytest.approx(run_of("pair").report.units["tensor"])


def test_short_tiles_are_described_by_their_whole_path():
    trace = run_of("pair, one block").trace
    sections = describe(trace)
    assert sections["ops"] == {} and "cycles per block" not in sections["time"]
    assert sum(sections["path"].values()) == trace.end


def test_reports_compare_as_well_as_traces():
    before, after = (dataclasses.asdict(run_of(name).report) for name in ("pair", "slow MUFU"))
    comparison = compare(before, after)
    assert {row.section for row in comparison.rows} == {"time", "units", "waits"}
    assert comparison.section("units")[0].name in ("mufu", "tensor")


def test_a_number_that_only_one_run_has_counts_as_zero_in_the_other():
    comparison = compare({"waits": {"mma X": 0.5}}, {"waits": {"mma Y": 0.25}})
    assert [(row.name, row.before, row.after) for row in comparison.rows] == [
        ("mma X", 0.5, 0.0),
        ("mma Y", 0.0, 0.25),
    ]


def test_it_can_be_written_as_json():
    comparison = compare(run_of("pair").trace, run_of("causal").trace, ("full", "causal"))
    data = json.loads(json.dumps(comparison.as_dict()))
    assert data["schema"] == 1 and data["names"] == ["full", "causal"]
    cycles = data["sections"]["time"]["cycles"]
    assert cycles["after"] - cycles["before"] == cycles["change"]


def test_the_text_has_a_table_per_section():
    text = format_comparison(
        compare(run_of("pair").trace, run_of("causal").trace, ("full", "causal")), most=3
    )
    assert [block.split()[0] for block in text.split("\n\n")] == [
        "time", "units", "waits", "ops", "path",
    ]  # fmt: skip
    assert "points" in text and "that changed less" in text


def test_a_report_with_nothing_in_it_is_refused():
    with pytest.raises(ValueError, match="nothing to compare in a report with 'speed'; give"):
        compare({"speed": "high"}, {"cycles": 1})


def test_an_unknown_section_is_refused():
    with pytest.raises(ValueError, match="no section 'flops'; there are time, units"):
        compare({"cycles": 1}, {"cycles": 2}).section("flops")
