"""The journal: what is finished stays finished, and belongs to one grid."""

import contextlib
import json
import os
from dataclasses import replace

import pytest

from fa4sim import B200
from fa4sim.sweeps import Grid, sweep
from fa4sim.sweeps import rows as module
from tests.sweeps.grids import TINY, plain, stages


class Stopped(Exception):
    """Somebody stops a sweep."""


def stopped_after(count, grid, output, **more):
    """Run a sweep and stop it once ``count`` points are done; its journal's lines."""

    def stop(done, total):
        if done == count:
            raise Stopped

    with pytest.raises(Stopped):
        sweep(grid, output=output, jobs=1, progress=stop, **more)
    journal = output.with_name(output.name + ".journal")
    return journal, journal.read_bytes().splitlines(keepends=True)


@pytest.fixture
def simulated(monkeypatch):
    """Ring stages of the points that are simulated from now on."""
    seen = []
    real = module.simulate

    def simulate(problem, design, *rest, **options):
        seen.append(design.kv_stages)
        return real(problem, design, *rest, **options)

    monkeypatch.setattr(module, "simulate", simulate)
    return seen


@pytest.mark.parametrize("ending", ["csv", "json", "parquet"])
def test_a_stopped_sweep_goes_on_and_ends_as_if_it_had_not_been(tmp_path, ending, simulated):
    grid = stages()
    whole = tmp_path / f"whole.{ending}"
    wanted = sweep(grid, output=whole, jobs=1)
    output = tmp_path / f"rows.{ending}"
    journal, lines = stopped_after(2, grid, output)
    assert len(lines) == 3 and not output.exists()
    simulated.clear()
    notes, counts = [], []
    rows = sweep(
        grid, output=output, jobs=1, note=notes.append, progress=lambda *c: counts.append(c)
    )
    assert simulated == [4, 5], "only what was not finished"
    assert notes == [f"2 of 4 points are in {journal}; going on"]
    assert counts == [(2, 4), (3, 4), (4, 4)]
    assert plain(rows) == plain(wanted)
    if ending != "json":  # which also says how long simulating took
        assert output.read_bytes() == whole.read_bytes()
    assert sorted(tmp_path.iterdir()) == [output, whole]


def test_a_report_comes_back_whole(tmp_path):
    grid = Grid({"num_splits": (1, 4)}, {"seqlen_q": 1, "seqlen_k": 2048})
    _, lines = stopped_after(2, grid, tmp_path / "rows.csv")
    kept = sweep(grid, output=tmp_path / "rows.csv", jobs=1)
    fresh = sweep(grid, jobs=1)
    assert len(lines) == 3 and [len(row.report.kernels) for row in kept] == [1, 2]
    for old, new in zip(kept, fresh, strict=True):
        assert replace(old.report, wall_s=0.0) == replace(new.report, wall_s=0.0)


def test_a_line_that_was_cut_off_is_run_again(tmp_path, simulated):
    output = tmp_path / "rows.csv"
    journal, lines = stopped_after(2, stages(), output)
    for kept in range(len(lines[2])):
        if kept % 97 == 0:  # a few places to cut the second point's line
            journal.write_bytes(b"".join(lines[:2]) + lines[2][:kept])
            simulated.clear()
            sweep(stages(), output=output, jobs=1)
            assert simulated == [3, 4, 5]


def test_a_head_that_was_cut_off_is_no_journal_yet(tmp_path):
    output = tmp_path / "rows.csv"
    journal, lines = stopped_after(1, stages(), output)
    for length in (3, len(lines[0]) - 9):
        journal.write_bytes(lines[0][:length])
        assert len(sweep(stages(), output=output, jobs=1)) == 4
        assert not journal.exists()


def test_a_point_that_is_there_twice_counts_once(tmp_path, simulated):
    output = tmp_path / "rows.csv"
    journal, lines = stopped_after(2, stages(), output)
    other = {**json.loads(lines[2]), "status": "deadlock", "report": None}
    journal.write_bytes(b"".join(lines) + json.dumps(other).encode() + b"\n")
    rows = sweep(stages(), output=output, jobs=1)
    assert [row.status for row in rows] == ["ok"] * 4, "the first of the two stands"


@pytest.mark.parametrize(
    "grid, seed, words",
    [
        (stages(2, 3), 0, r"in which kv_stages was \[2, 3, 4, 5\] \(now \[2, 3\]\)"),
        (stages(causal=True), 0, r"in which causal was not set \(now True\)"),
        (stages(seqlen_q=768), 0, r"in which seqlen_q was 512 \(now 768\)"),
        (stages(), 1, r"in which seed was 0 \(now 1\)"),
        (Grid({"kv_stages": (2, 3, 4, 5), "heads": (1, 2)}, {"seqlen_q": 512}), 0, "heads"),
        (Grid({"kv_stages": (2, 3, 4, 5)}, TINY, "b300"), 0, "machine was 'B200'"),
        (
            Grid({"kv_stages": (2, 3, 4, 5)}, TINY, B200.with_constants(clock_hz=1e9)), 0,
            "whose problems, designs or machines were others",
        ),
    ],
)  # fmt: skip
def test_a_changed_sweep_is_refused_with_what_changed(tmp_path, grid, seed, words, simulated):
    output = tmp_path / "rows.csv"
    journal, lines = stopped_after(2, stages(), output)
    simulated.clear()
    with pytest.raises(ValueError, match=rf"keeps 2 points of another sweep, .*{words}"):
        sweep(grid, output=output, jobs=1, seed=seed)
    assert not simulated and journal.read_bytes() == b"".join(lines), "nothing is touched"
    assert not output.exists()
    sweep(grid, output=output, jobs=1, seed=seed, restart=True)
    assert output.exists() and not journal.exists()


def test_points_of_another_simulator_are_refused(tmp_path, monkeypatch):
    output = tmp_path / "rows.csv"
    stopped_after(2, stages(), output)
    monkeypatch.setattr("fa4sim.sweeps.running.code_digest", lambda: "another")
    with pytest.raises(ValueError, match="run by another version of the simulator"):
        sweep(stages(), output=output, jobs=1)


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize(
    "text", [b"time,tflops\n1,2\n", b"{}\n", b'{"kind": "else"}\n', b"\xff\xfe\n", b"one line"]
)
def test_another_file_of_that_name_is_left_alone(tmp_path, text, restart):
    journal = tmp_path / "rows.csv.journal"
    journal.write_bytes(text)
    with pytest.raises(ValueError, match=r"line 1 of .* is none that a sweep writes"):
        sweep(stages(), output=tmp_path / "rows.csv", jobs=1, restart=restart)
    assert journal.read_bytes() == text


@pytest.mark.parametrize(
    "line", [b"{}", b"[]", b"nonsense", b'{"point": 99, "status": "ok"}', b'{"point": 1}']
)
def test_a_line_that_no_sweep_writes_is_refused_with_its_number(tmp_path, line):
    output = tmp_path / "rows.csv"
    journal, lines = stopped_after(1, stages(), output)
    journal.write_bytes(b"".join(lines) + line + b"\n")
    with pytest.raises(ValueError, match=r"line 3 of .* is none that a sweep writes"):
        sweep(stages(), output=output, jobs=1)


@pytest.mark.skipif(os.name == "nt", reason="files are not locked there")
def test_two_sweeps_do_not_share_an_output(tmp_path):
    output = tmp_path / "rows.csv"
    refusals = []

    def another(done, total):
        if done == 1:
            with pytest.raises(ValueError, match="is in use: another sweep") as refusal:
                sweep(stages(), output=output, jobs=1, restart=True)
            refusals.append(refusal)

    sweep(stages(), output=output, jobs=1, progress=another)
    assert refusals and output.exists()


def test_a_sweep_without_a_finished_point_leaves_nothing(tmp_path):
    output = tmp_path / "rows.csv"
    with pytest.raises(Stopped):
        sweep(stages(), output=output, jobs=1, progress=lambda *_: stop())
    assert not list(tmp_path.iterdir())


def stop():
    raise Stopped


@pytest.mark.skipif(os.name == "nt", reason="no such limit there")
@pytest.mark.parametrize("most", [10, 4000])
def test_a_full_disk_is_told_with_the_file_and_what_is_kept(tmp_path, most, fa4sim, full_disk):
    words = ("sweep", "--batch", 1, "--heads", 1, "--seqlen-q", 512, "--set", "kv_stages=2:6")
    output = tmp_path / "rows.csv"
    journal = output.with_name("rows.csv.journal")
    with full_disk(most):
        failed = fa4sim(*words, "-o", output, "--jobs", 1)
    assert failed.code == 2 and f"{str(journal)!r}: File too large" in failed.err
    kept = most > 10
    assert journal.exists() == kept == (f"What is finished is in {journal}" in failed.err)
    assert fa4sim(*words, "-o", output, "--jobs", 1).code == 0
    assert list(tmp_path.iterdir()) == [output]


@pytest.fixture
def full_disk():
    """No file grows beyond so many bytes."""
    import resource

    @contextlib.contextmanager
    def limited(most):
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, before[1]))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)

    return limited
