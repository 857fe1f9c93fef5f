"""The H200 measurements: their file, their plausibility, and the page made from them."""

from __future__ import annotations

import copy
import doctest
import json

import pytest

from benchmarks.hopper import catalogue, import_results, report, results_file, run

MEASURED = json.loads(import_results.MEASURED.read_text(encoding="utf-8"))
PRIOR = json.loads(report.PRIOR.read_text(encoding="utf-8"))
NOTES = json.loads(report.NOTES.read_text(encoding="utf-8"))
VALUES = results_file.values(MEASURED)


def broken(**changes):
    """A copy of the measured file with some top-level entries replaced."""
    return copy.deepcopy(MEASURED) | changes


def with_row(named, /, **changes):
    """A copy of the measured file with one row changed."""
    data = copy.deepcopy(MEASURED)
    next(row for row in data["rows"] if row["name"] == named).update(changes)
    return data


# -- the data -------------------------------------------------------------------------------------


def test_measured_file_is_valid_and_says_where_and_when():
    results_file.check(MEASURED)
    assert MEASURED["device"] == "NVIDIA H200"
    assert MEASURED["runs"] >= 3
    assert MEASURED["driver"] and MEASURED["cuda"] and MEASURED["date"]
    assert MEASURED["clocks"]["sm_clock_sustained_hz"] == VALUES["sm_clock_sustained_hz"]


def test_measured_figures_are_all_there_and_physically_possible():
    assert catalogue.complaints(VALUES) == []


@pytest.mark.parametrize(("what", "name", "rate", "unit"), report.ARCHITECTURE)
def test_throughputs_reach_the_architectural_rate(what, name, rate, unit):
    measured = VALUES[name]
    if unit == "operations":
        measured = 4 * 32 / measured
    assert measured == pytest.approx(rate, rel=0.02), what


def test_latencies_are_ordered_as_the_memories_are():
    assert VALUES["lds32_latency_cycles"] < VALUES["ld_global_l2_latency_cycles"]
    assert VALUES["ld_global_l2_latency_cycles"] < VALUES["ld_global_hbm_latency_cycles"]
    for kib in (1, 4, 16, 64):
        l2 = VALUES[f"tma_load_latency_l2_{kib}kib_cycles"]
        assert l2 < VALUES[f"tma_load_latency_hbm_{kib}kib_cycles"]


def test_more_bytes_in_flight_bring_more_bandwidth_to_one_sm():
    for where in ("l2", "hbm"):
        rates = [
            VALUES[f"tma_{where}_one_sm_{kib}kib_in_flight_bytes_per_cycle"]
            for kib in (16, 32, 48, 64, 96)
        ]
        assert rates == sorted(rates)


def test_ring_of_one_stage_is_slower_than_the_latency_it_contains():
    period = 16384 / VALUES["tma_l2_one_sm_16kib_in_flight_bytes_per_cycle"]
    latency = VALUES["tma_l2_base_cycles"] + 16384 / VALUES["tma_l2_bytes_per_cycle"]
    assert latency < period < 1.5 * latency


def test_softmax_step_is_never_faster_than_its_exponentials_on_mufu():
    for row in MEASURED["rows"]:
        if row["program"] == "softmax_step":
            on_mufu = 128 * (1 - row["params"]["polynomial_share"])
            assert row["value"] > on_mufu * VALUES["mufu_ex2_cycles_per_warp"], row["name"]


def test_power_lowers_the_clock_of_sustained_tensor_work():
    assert VALUES["sm_clock_sustained_hz"] < VALUES["sm_clock_light_hz"]


def test_first_measurement_names_its_origin_and_only_measured_figures():
    for key in ("device", "driver", "cuda", "date", "about"):
        assert PRIOR[key]
    names = [row["name"] for row in PRIOR["rows"]]
    assert len(names) == len(set(names))
    assert set(names) <= set(VALUES)
    for row in PRIOR["rows"]:
        assert row["unit"] == results_file.unit_of(row["name"])
        assert row["value"] > 0 and row["as_stated"]


# -- the page -------------------------------------------------------------------------------------


def test_page_is_what_the_data_and_notes_make():
    assert report.PAGE.read_text(encoding="utf-8") == report.current_page()


def test_page_follows_the_data():
    text = report.page(with_row("syncwarp_cycles", value=1.2345), PRIOR, NOTES)
    assert "1.234" in text and text != report.current_page()


def test_page_shows_every_figure_and_its_section():
    page = report.current_page()
    assert {row["program"] for row in MEASURED["rows"]} == set(report.SECTIONS)
    for name in VALUES:
        assert f"`{name}`" in page


def test_page_says_what_hopper_cannot_tell():
    limits = report.current_page().split("## What Hopper cannot tell")[1]
    for word in ("TMEM", "f32x2", "FMNMX3", "Interference"):
        assert word in limits


def test_unexplained_difference_is_refused():
    notes = NOTES | {"differences": []}
    with pytest.raises(results_file.ResultFileError, match=r"notes\.json does not say why"):
        report.page(MEASURED, PRIOR, notes)


def test_note_about_an_unmeasured_figure_is_refused():
    notes = NOTES | {"findings": ["It takes {no_such_cycles}."]}
    with pytest.raises(results_file.ResultFileError, match="no_such_cycles"):
        report.page(MEASURED, PRIOR, notes)


def test_check_notices_a_stale_page(tmp_path, monkeypatch, capsys):
    stale = tmp_path / "page.md"
    stale.write_text("old", encoding="utf-8")
    monkeypatch.setattr(report, "PAGE", stale)
    assert report.main(["--check"]) == 1
    assert "stale" in capsys.readouterr().err
    assert report.main([]) == 0
    assert report.main(["--check"]) == 0


# -- broken files ---------------------------------------------------------------------------------

BROKEN = [
    ([], "holds list, expected an object"),
    (broken(schema=2), "schema 2; this code reads schema 1"),
    (broken(device=""), "device='', expected a text"),
    (broken(date="yesterday"), "date 'yesterday', expected YYYY-MM-DD"),
    (broken(quick=True), "--quick run"),
    (broken(rows=[]), "no rows"),
    (broken(rows=[1]), "row 0 .* is int, expected an object"),
    (broken(rows=MEASURED["rows"] + MEASURED["rows"][:1]), "two rows named"),
    (with_row("syncwarp_cycles", unit="us"), "unit 'us', but its name says 'cycles'"),
    (with_row("syncwarp_cycles", value="fast"), "value='fast', expected a number"),
    (with_row("syncwarp_cycles", value=True), "value=True, expected a number"),
    (with_row("syncwarp_cycles", value=float("nan")), "value=nan, expected a positive number"),
    (with_row("syncwarp_cycles", value=-1.0), "value=-1.0, expected a positive number"),
    (with_row("syncwarp_cycles", value=1000.0), "outside p10"),
    (with_row("syncwarp_cycles", run_max=1.0), "outside run_min"),
    (with_row("syncwarp_cycles", n=0), "n=0, expected a count"),
    (with_row("syncwarp_cycles", method=""), "method='', expected a text"),
    (with_row("syncwarp_cycles", params=None), "params=None, expected an object"),
    (with_row("syncwarp_cycles", name="Sync-warp_cycles"), "names are snake_case"),
    (with_row("syncwarp_cycles", name="syncwarp"), "ends in no known unit"),
]


@pytest.mark.parametrize(("data", "message"), BROKEN, ids=[message for _, message in BROKEN])
def test_broken_file_is_refused_with_the_reason(data, message):
    with pytest.raises(results_file.ResultFileError, match=message):
        results_file.check(data)


def test_file_that_is_not_json_is_refused_by_name(tmp_path):
    path = tmp_path / "results.json"
    path.write_text("{", encoding="utf-8")
    with pytest.raises(results_file.ResultFileError, match=r"results\.json is not JSON"):
        results_file.read(path)


# -- installing -----------------------------------------------------------------------------------


def install(data, tmp_path):
    source, target = tmp_path / "results.json", tmp_path / "installed.json"
    source.write_text(json.dumps(data), encoding="utf-8")
    try:
        import_results.install(source, target)
    finally:
        assert [path.name for path in tmp_path.glob("*.partial")] == []
    return target


def test_installed_file_reads_back_unchanged(tmp_path):
    assert results_file.read(install(MEASURED, tmp_path)) == MEASURED


def test_install_writes_one_line_per_row(tmp_path):
    lines = install(MEASURED, tmp_path).read_text(encoding="utf-8").splitlines()
    assert sum('"name": "syncwarp_cycles"' in line for line in lines) == 1
    assert len(lines) < len(MEASURED["rows"]) + 30


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (broken(device="NVIDIA H100"), "measured on 'NVIDIA H100'"),
        (broken(rows=MEASURED["rows"][:1]), "ffma_cycles_per_warp is missing"),
        (
            with_row("ffma_cycles_per_warp", value=0.5, p10=0.5, run_min=0.5),
            r"ffma_cycles_per_warp is 0.5, not within 0.98 to 1.02",
        ),
    ],
)
def test_install_refuses_what_cannot_be_true(tmp_path, data, message):
    with pytest.raises(results_file.ResultFileError, match=message):
        install(data, tmp_path)
    assert not (tmp_path / "installed.json").exists()


def test_command_reports_a_missing_file_without_a_traceback(capsys):
    assert import_results.main(["/no/such/results.json"]) == 1
    assert "no/such/results.json" in capsys.readouterr().err


# -- the programs ---------------------------------------------------------------------------------


def test_every_program_has_a_source_and_every_source_runs():
    sources = {path.stem for path in run.HERE.glob("*.cu")}
    assert sources == set(run.PROGRAMS)


def test_running_without_a_gpu_names_the_program_that_failed(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(run, "BUILD", tmp_path)
    program = tmp_path / "clock"
    program.write_text("#!/bin/sh\necho 'no device' >&2\nexit 1\n", encoding="utf-8")
    program.chmod(0o755)
    out = tmp_path / "results.json"
    assert run.main(["--no-build", "--quick", "--programs", "clock", "--out", str(out)]) == 1
    assert "clock exited with 1: no device" in capsys.readouterr().err
    with pytest.raises(results_file.ResultFileError):
        results_file.read(out)


@pytest.mark.parametrize("module", [catalogue, report, results_file, run])
def test_examples_in_docstrings(module):
    results = doctest.testmod(module, optionflags=doctest.ELLIPSIS)
    assert results.attempted > 0 and results.failed == 0
