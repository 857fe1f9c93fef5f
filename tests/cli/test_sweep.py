"""`fa4sim sweep`: a grid of variants; those that do not fit are rows, not crashes."""

import csv
import json

import pytest

from fa4sim.engine.errors import Deadlock
from fa4sim.sweeps import rows as module

ONE = ("--batch", "1", "--heads", "1", "--seqlen-q", "512")


def test_a_range_includes_both_ends(fa4sim):
    outcome = fa4sim("sweep", *ONE, "--set", "kv_stages=2:4", "--json")
    assert outcome.code == 0, outcome.err
    facts = outcome.json
    assert facts["schema"] == 1
    assert facts["swept"] == {"kv_stages": [2, 3, 4]}
    assert [row["settings"] for row in facts["rows"]] == [{"kv_stages": n} for n in (2, 3, 4)]
    for row in facts["rows"]:
        assert row["status"] == "ok" and row["reason"] is None
        assert {"time_us", "launch_us", "tflops", "cycles", "units", "bottleneck"} <= set(row)
    assert facts["best"]["time_us"] == min(row["time_us"] for row in facts["rows"])


def test_without_values_it_says_how_they_are_given(fa4sim):
    outcome = fa4sim("sweep", *ONE)
    assert outcome.code == 2 and outcome.out == ""
    assert "give at least one --set, as in --set kv_stages=2:6" in outcome.err


def test_a_row_is_what_run_says(fa4sim):
    swept = fa4sim("sweep", *ONE, "--set", "kv_stages=3", "--json").json["rows"][0]
    alone = fa4sim("run", *ONE, "--set", "kv_stages=3", "--json").json
    assert swept["cycles"] == alone["cycles"] and swept["units"] == alone["units"]


def test_several_settings_make_a_grid(fa4sim):
    facts = fa4sim(
        "sweep", *ONE, "--set", "kv_stages=2:6:4", "--set", "exp2_period=0,16",
        "--set", "p_first_columns=96,128", "--json",
    ).json  # fmt: skip
    points = [tuple(row["settings"].values()) for row in facts["rows"]]
    assert points == [(k, e, p) for k in (2, 6) for e in (0, 16) for p in (96, 128)]


def test_problem_fields_and_machine_constants_can_be_swept(fa4sim):
    facts = fa4sim(
        "sweep", "--batch", 1, "--heads", 1, "--set", "seqlen_q=256,512",
        "--set", "machine.clock_hz=1e9,2e9", "--json",
    ).json  # fmt: skip
    times = [row["time_us"] for row in facts["rows"]]
    assert len(times) == 4
    assert times[0] > times[1] and times[2] > times[3], "a faster clock is faster"
    assert times[2] > times[0], "and more work takes longer"


def test_windows_are_listed_in_brackets(fa4sim):
    facts = fa4sim("sweep", *ONE, "--set", "window=(64,0),(128,None)", "--json").json
    assert facts["swept"] == {"window": [[64, 0], [128, None]]}


def test_a_variant_that_does_not_fit_is_a_row_with_the_reason(fa4sim):
    outcome = fa4sim("sweep", *ONE, "--set", "kv_stages=2,30", "--json")
    assert outcome.code == 0
    fits, refused = outcome.json["rows"]
    assert fits["status"] == "ok"
    assert refused["status"] == "refused" and "shared memory" in refused["reason"]
    assert "time_us" not in refused
    text = fa4sim("sweep", *ONE, "--set", "kv_stages=2,30").out
    assert "refused (1)" in text and "(1) this design needs" in text


def test_a_grid_of_which_nothing_fits_runs_nothing(fa4sim, monkeypatch):
    monkeypatch.setattr(module, "simulate", None)
    outcome = fa4sim("sweep", *ONE, "--set", "kv_stages=30:32")
    assert outcome.code == 2
    assert "none of the 3 variants can run" in outcome.err and "shared memory" in outcome.err


@pytest.mark.parametrize(
    "settings",
    [("kv_stages=2:10002",), ("kv_stages=0:1000000000000",),
     ("kv_stages=2:102", "exp2_period=0:100")],
)  # fmt: skip
def test_a_grid_that_is_too_large_runs_nothing(fa4sim, monkeypatch, settings):
    monkeypatch.setattr(module, "simulate", None)
    options = [word for setting in settings for word in ("--set", setting)]
    outcome = fa4sim("sweep", *ONE, *options)
    assert outcome.code == 2
    assert "10,000" in outcome.err


@pytest.mark.parametrize(
    "options, quoted",
    [
        ((), "--set"),
        (("--set", "kv_stages=6:2"), "'6:2'"),
        (("--set", "kv_stages=2,lots"), "'lots'"),
        (("--set", "kv_stages=__import__('os'),2"), "__import__"),
        (("--set", "nothing=1:2"), "'nothing'"),
        (("--set", "kv_stages=2", "--set", "kv_stages=3"), "twice"),
        (("--set", "seqlen_q=256,512"), "given twice"),
        (("--set", "kv_stages=2,2"), "kv_stages has the value 2 twice"),
        (("--set", "machine=b200,b100"), "'b100'"),
        (("--machine", "b300", "--set", "machine=b200,b300"), "given twice"),
        (("--set", "faults=1,2"), "--break"),
        (("--set", "kv_stages=2", "--jobs", "2", "--dask", "tcp://127.0.0.1:1"), "contradict"),
        (("--set", "kv_stages=2", "--dask", "somewhere"), "no Dask scheduler answers"),
        (("--set", "kv_stages=2", "-o", "rows.xlsx"), "'rows.xlsx'"),
        (("--set", "kv_stages=2", "-o", "no/such/rows.csv"), "no/such"),
    ],
)
def test_bad_sweeps_are_refused_and_quoted(fa4sim, options, quoted):
    outcome = fa4sim("sweep", *ONE, *options)
    assert outcome.code == 2 and quoted in outcome.err


def test_rows_go_to_a_csv_file(fa4sim, tmp_path):
    target = tmp_path / "rows.csv"
    outcome = fa4sim("sweep", *ONE, "--set", "kv_stages=2,30", "-o", target)
    assert outcome.code == 0 and str(target) in outcome.out
    with target.open(encoding="utf-8", newline="") as file:
        fits, refused = list(csv.DictReader(file))
    assert fits["kv_stages"] == "2" and float(fits["time_us"]) > 0
    assert 0 < float(fits["busy_tensor"]) < 1
    assert refused["status"] == "refused" and refused["time_us"] == ""
    assert "shared memory" in refused["reason"]
    assert list(tmp_path.iterdir()) == [target]


def test_rows_go_to_a_json_file_too(fa4sim, tmp_path):
    target = tmp_path / "rows.json"
    outcome = fa4sim("sweep", *ONE, "--set", "kv_stages=2:3", "-o", target, "--json")
    written = json.loads(target.read_text(encoding="utf-8"))
    assert written == outcome.json
    assert written["schema"] == 1


def test_a_sweep_that_is_stopped_writes_no_file(fa4sim, tmp_path, monkeypatch):
    def stopped(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "simulate", stopped)
    target = tmp_path / "rows.csv"
    outcome = fa4sim(
        "sweep", *ONE, "--set", "kv_stages=2:3", "-o", target, "--jobs", 1, "--json"
    )  # fmt: skip
    assert outcome.code == 130
    assert outcome.json["error"] == "stopped"
    assert not list(tmp_path.iterdir())


def test_a_variant_that_deadlocks_is_a_row_and_the_code_is_3(fa4sim, monkeypatch):
    real = module.simulate

    def hangs_with_two(problem, design, *rest, **options):
        if design.kv_stages == 2:
            raise Deadlock(99, [], [], ["S_full"], [])
        return real(problem, design, *rest, **options)

    monkeypatch.setattr(module, "simulate", hangs_with_two)
    outcome = fa4sim("sweep", *ONE, "--set", "kv_stages=2:3", "--jobs", 1, "--json")
    assert outcome.code == 3
    assert [row["status"] for row in outcome.json["rows"]] == ["deadlock", "ok"]
    assert "deadlock" in outcome.err and "kv_stages=2" in outcome.err


def test_the_table_marks_the_best(fa4sim):
    out = fa4sim("sweep", *ONE, "--set", "kv_stages=2:3").out
    assert sum(line.endswith("best") for line in out.splitlines()) == 1
    assert "kv_stages" in out and "TFLOP/s" in out
