"""Points on processes of this machine: the same rows, whatever happens to a process."""

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest

from fa4sim.engine.errors import Deadlock
from fa4sim.sweeps import local, rows, sweep
from tests.sweeps.grids import plain, stages

POSIX = pytest.mark.skipif(os.name == "nt", reason="needs processes made by fork")


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0] != "Z"


@pytest.fixture
def forked(monkeypatch):
    """Children that are copies of the test's process, with what the test has patched."""
    monkeypatch.setattr(local, "_start_method", lambda: "fork")


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_rows_do_not_depend_on_the_number_of_processes(monkeypatch, method):
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"there is no {method} here")
    monkeypatch.setattr(local, "_start_method", lambda: method)
    assert plain(sweep(stages(), jobs=3)) == plain(sweep(stages(), jobs=1))


@POSIX
def test_rows_are_in_the_grids_order_whichever_ends_first(monkeypatch, forked):
    real = rows.simulate

    def first_last(problem, design, *rest, **options):
        time.sleep(0.3 if design.kv_stages == 2 else 0)
        return real(problem, design, *rest, **options)

    monkeypatch.setattr(rows, "simulate", first_last)
    done = sweep(stages(), jobs=2)
    assert [row.settings["kv_stages"] for row in done] == [2, 3, 4, 5]


@POSIX
def test_a_process_that_is_killed_is_replaced(monkeypatch, forked, tmp_path):
    real = rows.simulate

    def dies_once(problem, design, *rest, **options):
        mark = tmp_path / "died"
        if design.kv_stages == 3 and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return real(problem, design, *rest, **options)

    monkeypatch.setattr(rows, "simulate", dies_once)
    counts = []
    found = sweep(stages(), jobs=2, progress=lambda done, total: counts.append(done))
    monkeypatch.undo()
    assert (tmp_path / "died").exists()
    assert plain(found) == plain(sweep(stages(), jobs=1))
    assert counts == [0, 1, 2, 3, 4], "nothing lost, nothing twice"


@POSIX
def test_a_point_that_always_kills_its_process_is_named_and_the_rest_is_kept(
    monkeypatch, forked, tmp_path
):
    real = rows.simulate

    def dies(problem, design, *rest, **options):
        if design.kv_stages == 4:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(problem, design, *rest, **options)

    monkeypatch.setattr(rows, "simulate", dies)
    output = tmp_path / "rows.csv"
    with pytest.raises(RuntimeError, match=r"point 2 ended its process 3 times .exit code -9"):
        sweep(stages(), jobs=2, output=output)
    lines = (tmp_path / "rows.csv.journal").read_text().splitlines()
    assert sorted(json.loads(line)["point"] for line in lines[1:]) == [0, 1, 3]
    assert not multiprocessing.active_children()


@POSIX
def test_an_error_that_is_no_refusal_comes_to_the_caller(monkeypatch, forked):
    def breaks(*_, **__):
        raise KeyError("a bug")

    monkeypatch.setattr(rows, "simulate", breaks)
    with pytest.raises(RuntimeError, match="bug of fa4sim") as error:
        sweep(stages(), jobs=2)
    assert isinstance(error.value.__cause__, KeyError)
    assert not multiprocessing.active_children()


@POSIX
def test_a_deadlock_is_a_row_from_a_process_too(monkeypatch, forked):
    def hangs(*_, **__):
        raise Deadlock(99, [], [], ["S_full"], [])

    monkeypatch.setattr(rows, "simulate", hangs)
    assert {row.status for row in sweep(stages(), jobs=2)} == {"deadlock"}


SLOW = """
import os, sys, time
from fa4sim.sweeps import local, rows
real = rows.simulate
def slowly(problem, design, *rest, **options):
    os.write(1, b'%d\\n' % os.getpid())
    time.sleep({seconds})
    return real(problem, design, *rest, **options)
rows.simulate = slowly
from fa4sim.cli import main
main()
"""
WORDS = ("sweep", "--batch", "1", "--heads", "1", "--seqlen-q", "512", "--set", "kv_stages=2:6")


def started(output, seconds):
    """The command with points that take ``seconds``, and the processes of the first two."""
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(SLOW.format(seconds=seconds)), *WORDS,
         "-o", str(output), "--jobs", "2"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip
    return process, [int(process.stdout.readline()) for _ in range(2)]


def journal_grows_to(output, lines, process):
    journal = output.with_name(output.name + ".journal")
    limit = time.monotonic() + 60
    while not journal.exists() or journal.read_bytes().count(b"\n") < lines:
        assert process.poll() is None and time.monotonic() < limit
        time.sleep(0.02)
    return journal


@POSIX
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_command_that_is_stopped_leaves_its_points_and_no_process(tmp_path, number, fa4sim):
    output = tmp_path / "rows.csv"
    process, children = started(output, 0.4)
    try:
        journal = journal_grows_to(output, 3, process)
        process.send_signal(number)
        process.stdout.close()
        _, err = process.communicate(timeout=30)
    finally:
        process.kill()
        process.wait()
    limit = time.monotonic() + 10
    while any(map(alive, children)) and time.monotonic() < limit:
        time.sleep(0.05)
    assert not any(map(alive, children)), "processes outlive the command"
    if number == signal.SIGINT:
        assert process.returncode == 130
        assert str(journal) in err and err.rstrip().endswith("Stopped.")
    kept = journal.read_bytes().count(b"\n") - 1
    assert 2 <= kept < 5 and not output.exists()

    resumed = fa4sim(*WORDS, "-o", output, "--jobs", 1)
    assert resumed.code == 0 and f"{kept} of 5 points are in {journal}" in resumed.err
    straight = fa4sim(*WORDS, "-o", tmp_path / "straight.csv", "--jobs", 1)
    assert straight.code == 0
    assert output.read_bytes() == (tmp_path / "straight.csv").read_bytes()
    assert not journal.exists()


@POSIX
def test_a_command_that_is_killed_leaves_no_process_at_a_long_point(tmp_path, fa4sim):
    output = tmp_path / "rows.csv"
    process, children = started(output, 300)
    process.kill()
    process.communicate(timeout=30)
    limit = time.monotonic() + 10
    while any(map(alive, children)) and time.monotonic() < limit:
        time.sleep(0.05)
    assert not any(map(alive, children)), "they would keep the journal locked"
    assert fa4sim(*WORDS, "-o", output, "--jobs", 1).code == 0
