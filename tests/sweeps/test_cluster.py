"""Points on a Dask cluster: a scheduler and two workers, each a process that may be killed."""

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from fa4sim.sweeps import Grid, cluster, sweep
from tests.packaging.project import ROOT
from tests.sweeps.grids import plain, stages

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.name == "nt", reason="processes are killed in another way there"),
]

#: Points of a few tenths of a second each, so that there is a middle to be killed in.
GRID = Grid({"seqlen_q": range(2000, 2012)}, {"batch": 1, "heads": 64, "causal": True})
WORDS = (
    "sweep", "--batch", "1", "--heads", "64", "--causal", "--set", "seqlen_q=2000:2011",
)  # fmt: skip


class Cluster:
    """`dask scheduler` and `dask worker` processes of this machine, no nanny behind them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.processes: list[subprocess.Popen] = []
        self.workers: list[subprocess.Popen] = []
        _, line = self._start(
            "scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard",
            wait_for=r"Scheduler at: +(tcp://\S+)",
        )  # fmt: skip
        self.address = line[1]

    def add_worker(self, environment=None) -> subprocess.Popen:
        worker, _ = self._start(
            "worker", self.address, "--no-nanny", "--nthreads", "1", "--no-dashboard",
            wait_for=r"Registered to", environment=environment,
        )  # fmt: skip
        self.workers.append(worker)
        return worker

    def _start(self, *words, wait_for, environment=None):
        command = [sys.executable, "-m", "dask", *words]
        process = subprocess.Popen(
            command, stderr=subprocess.PIPE, text=True, cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(ROOT), **(environment or {})},
        )  # fmt: skip
        self.processes.append(process)
        said = []
        for line in process.stderr:
            said.append(line)
            if found := re.search(wait_for, line):
                threading.Thread(target=process.stderr.read, daemon=True).start()
                return process, found
        raise AssertionError("".join(said))

    def end(self) -> None:
        for process in reversed(self.processes):
            process.kill()
            process.wait()


@pytest.fixture
def two_workers(tmp_path_factory):
    running = Cluster(tmp_path_factory.mktemp("dask"))
    with contextlib.ExitStack() as stack:
        stack.callback(running.end)
        running.add_worker()
        running.add_worker()
        yield running


@pytest.fixture(scope="module")
def wanted():
    """The rows, from this process alone."""
    return plain(sweep(GRID, jobs=1))


def test_a_worker_killed_in_the_middle_costs_nothing(two_workers, wanted, tmp_path):
    output = tmp_path / "rows.parquet"
    counts, points = [], []

    def watch(done, total):
        counts.append((done, total))
        journal = (tmp_path / "rows.parquet.journal").read_text().splitlines()
        points[:] = [json.loads(line)["point"] for line in journal[1:]]
        if done == 3:
            two_workers.workers[0].send_signal(signal.SIGKILL)

    rows = sweep(GRID, output=output, cluster=two_workers.address, progress=watch)
    assert two_workers.workers[0].wait(10) == -signal.SIGKILL
    assert two_workers.workers[1].poll() is None
    assert counts == [(done, 12) for done in range(13)]
    assert sorted(points) == list(range(12)), "nothing lost, nothing twice"
    assert plain(rows) == wanted
    assert [path.name for path in tmp_path.iterdir()] == ["rows.parquet"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_client_that_is_stopped_goes_on_where_it_was(two_workers, wanted, tmp_path, number):
    output = tmp_path / "rows.json"
    journal = tmp_path / "rows.json.journal"
    command = [sys.executable, "-m", "fa4sim", *WORDS, "-o", str(output)]
    command += ["--dask", two_workers.address]
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip
    try:
        while not journal.exists() or journal.read_bytes().count(b"\n") < 4:
            assert process.poll() is None, process.stderr.read()
            time.sleep(0.02)
        process.send_signal(number)
        _, err = process.communicate(timeout=30)
    finally:
        process.kill()
        process.wait()
    kept = [json.loads(line)["point"] for line in journal.read_text().splitlines()[1:]]
    assert 3 <= len(kept) < 12 and not output.exists()
    if number == signal.SIGINT:
        assert process.returncode == 130
        assert "the same command goes on from there" in err and err.rstrip().endswith("Stopped.")

    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert f"{len(kept)} of 12 points are in {journal}; going on" in done.stderr
    rows = json.loads(output.read_text())["rows"]
    for row in rows:
        del row["wall_s"]
    assert rows == json.loads(json.dumps(wanted))
    assert not journal.exists()


def test_workers_of_another_fa4sim_or_none_are_refused(tmp_path):
    other = tmp_path / "other"
    shutil.copytree(ROOT / "fa4sim", other / "fa4sim")
    with (other / "fa4sim" / "engine" / "core.py").open("a") as file:
        file.write("# changed\n")
    none = tmp_path / "none"
    none.mkdir()
    (none / "fa4sim.py").write_text("")
    for where, words in ((other, "runs another version of"), (none, "cannot run")):
        running = Cluster(tmp_path)
        try:
            running.add_worker({"PYTHONPATH": str(where)})
            with pytest.raises(
                ValueError, match=rf"worker tcp\S+ {words} fa4sim.* install the same"
            ):
                sweep(stages(), cluster=running.address)
        finally:
            running.end()


def test_a_worker_of_another_fa4sim_that_joins_later_refuses_its_points():
    setup = next(stages().points()).setup
    with pytest.raises(RuntimeError, match="runs another version"):
        cluster._simulate(setup, 0, "another")


def test_points_that_end_their_workers_are_named_and_the_rest_is_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES", "0")
    running = Cluster(tmp_path)
    output = tmp_path / "rows.csv"
    try:
        running.add_worker()
        running.add_worker()

        def watch(done, total):
            if done == 3:
                running.workers[0].kill()

        with pytest.raises(RuntimeError, match=r"point \d+ ended every worker that ran it"):
            sweep(GRID, output=output, cluster=running.address, progress=watch)
        journal = (tmp_path / "rows.csv.journal").read_text().splitlines()
        assert 3 < len(journal) - 1 < 12
        counts = []
        sweep(
            GRID, output=output, cluster=running.address,
            progress=lambda *count: counts.append(count),
        )  # fmt: skip
    finally:
        running.end()
    assert counts == [(done, 12) for done in range(len(journal) - 1, 13)]
    assert output.exists()


def test_points_wait_for_the_first_worker(tmp_path):
    running = Cluster(tmp_path)
    with contextlib.ExitStack() as stack:
        stack.callback(running.end)
        notes = []

        def note(text):
            notes.append(text)
            running.add_worker()

        rows = sweep(stages(), cluster=running.address, note=note)
    assert notes == ["the cluster has no workers yet: points wait for the first"]
    assert plain(rows) == plain(sweep(stages(), jobs=1))


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "somewhere", "", 8786])
def test_where_no_scheduler_answers_is_said(monkeypatch, address):
    monkeypatch.setattr(cluster, "PATIENCE_S", 1)
    with pytest.raises(ValueError, match="Dask scheduler"):
        sweep(stages(), cluster=address)


def test_somebody_who_says_nothing_is_no_scheduler(monkeypatch):
    monkeypatch.setattr(cluster, "PATIENCE_S", 1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"tcp://127.0.0.1:{silent.getsockname()[1]}"
        began = time.monotonic()
        with pytest.raises(ValueError, match=f"{address}.*said nothing within 1 s"):
            sweep(stages(), cluster=address)
    assert time.monotonic() - began < 20
