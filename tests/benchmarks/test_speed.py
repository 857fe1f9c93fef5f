"""The speed page: what is measured, how targets are judged, what the command writes."""

from __future__ import annotations

import doctest
import os
import re
import signal
from collections import Counter
from functools import partial

import numpy as np
import pytest

from benchmarks import run
from benchmarks.speed import (
    child,
    demo,
    events,
    exact,
    imports,
    large,
    machine,
    measurement,
    perfetto,
    sampler,
    stopwatch,
    tile,
    words,
)
from benchmarks.speed.measurement import Figure, Measurement, Table
from benchmarks.speed.page import page
from fa4sim import Problem, simulate
from fa4sim.trace import Trace

TINY = Problem(heads=1, seqlen_q=256, seqlen_k=512)
MACHINE = {"CPU": "a pocket calculator", "cores": "2"}


def widths(text):
    """For every table of a page, the numbers of bars that its lines have."""
    tables = re.findall(r"(?:^\|.*\|\n)+", text, flags=re.M)
    return [{line.count("|") for line in each.splitlines()} for each in tables]


def row_about(text, what):
    """The cells of the one row of a page that begins with `what`."""
    (row,) = [line for line in text.splitlines() if line.startswith(f"| {what} |")]
    return [cell.strip() for cell in row.split("|")[1:-1]]


def page_of(*figures, **more):
    return page(MACHINE, [Measurement("A thing", "It is measured.", figures, **more)])


# -- targets --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "at_least", "met"),
    [
        (0.99, False, True),
        (1.0, False, True),
        (1.01, False, False),
        (0.99, True, False),
        (1.0, True, True),
        (1.01, True, True),
    ],
)
def test_a_target_is_met_up_to_its_limit(value, at_least, met):
    assert Figure("x", "s", (value,), 1.0, at_least).met is met


def test_the_median_decides_whatever_single_repeats_say():
    slow_once = Figure("x", "s", (0.5, 9.0, 0.6), 1.0)
    assert slow_once.value == 0.6
    assert slow_once.met
    assert row_about(page_of(slow_once), "x")[4] == "2 of 3"


def test_a_missed_figure_is_shown_as_missed():
    text = page_of(Figure("parsing", "s", (1.5, 1.2, 1.4), 1.0), Figure("memory", "MB", (50,), 500))
    assert row_about(text, "parsing") == [
        "parsing", "≤ 1 s", "1.40 s", "1.20 – 1.50 s", "0 of 3", "", "**missed**",
    ]  # fmt: skip
    assert row_about(text, "memory") == [
        "memory", "≤ 500 MB", "50.0 MB", "", "1 of 1", "", "met",
    ]  # fmt: skip
    assert "1 of 2 met. Missed: parsing." in text


def test_a_ratio_below_what_was_wanted_is_missed():
    text = page_of(Figure("ratio", "x", (0.25,), 0.5, at_least=True))
    assert row_about(text, "ratio")[1:3] == ["≥ 0.5×", "0.25×"]
    assert row_about(text, "ratio")[-1] == "**missed**"


def test_rounding_does_not_turn_a_miss_into_a_hit():
    text = page_of(Figure("nearly", "s", (1.0004,), 1.0))
    assert row_about(text, "nearly")[2] == "1.00 s"
    assert row_about(text, "nearly")[-1] == "**missed**"


def test_nothing_is_called_missed_when_all_is_met():
    text = page_of(Figure("x", "s", (0.5,), 1.0))
    assert "1 of 1 met." in text
    assert "issed" not in text


# -- the page -------------------------------------------------------------------------------------


def test_the_page_says_on_what_machine_how_and_how_to_run_it_again():
    text = page_of(
        Figure("x", "s", (0.5, 0.7), 1.0, wall_s=(2.0, 4.0)),
        tables=(Table("A caption.", ("a", "b"), (("1", "2"),)),),
    )
    assert "| CPU | a pocket calculator |" in text
    assert "make bench" in text
    assert "python -m benchmarks.run" in text
    assert "CPU time" in text
    assert "### A thing\n\nIt is measured.\n\nA caption.\n\n| a | b |\n|---|---|\n| 1 | 2 |" in text
    assert row_about(text, "x")[5] == "3.00 s"  # wall time
    assert text.endswith("|\n")


def test_every_row_of_a_table_has_the_cells_of_its_head():
    text = page_of(Figure("x", "s", (0.5,), 1.0), tables=(Table("C.", ("a",), (("1",),)),))
    assert len(widths(text)) == 3
    assert all(len(counts) == 1 for counts in widths(text))


def test_a_page_without_targets_has_no_table_of_them():
    assert "## Targets" not in page_of()


@pytest.mark.parametrize("module", [exact, measurement, sampler, words])
def test_examples_in_docstrings(module):
    failed, tried = doctest.testmod(module, optionflags=doctest.ELLIPSIS)
    assert tried > 0
    assert failed == 0


# -- the machine ----------------------------------------------------------------------------------


def test_the_cpu_is_called_what_the_system_calls_it(tmp_path):
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("processor\t: 0\nmodel name\t: Some CPU @ 3 GHz\n", encoding="utf-8")
    assert machine.cpu_model(cpuinfo) == "Some CPU @ 3 GHz"
    assert machine.cpu_model(tmp_path / "none")


@pytest.mark.parametrize(
    ("head", "changed", "said"),
    [
        ("abc1234", "", "abc1234"),
        ("abc1234", " M fa4sim/x.py", "abc1234, with changes not committed"),
        ("", "", "unknown"),
    ],
)
def test_the_commit_says_when_the_files_are_not_its_own(monkeypatch, head, changed, said):
    monkeypatch.setattr(machine, "_git", lambda verb, *_: head if verb == "rev-parse" else changed)
    assert machine.commit() == said


def test_no_fact_about_the_machine_is_empty():
    facts = machine.facts()
    assert {"CPU", "cores", "Python", "date", "commit"} <= set(facts)
    assert all(facts.values())


# -- time and memory ------------------------------------------------------------------------------


def test_timing_returns_what_the_action_returned():
    spent, result = stopwatch.timed(lambda: sum(range(1000)))
    assert result == 499500
    assert spent.cpu_s >= 0
    assert spent.wall_s > 0


def test_a_fresh_interpreter_that_fails_says_why():
    with pytest.raises(RuntimeError, match="no such thing"):
        stopwatch.fresh("-c", "raise SystemExit('no such thing')")


def test_peak_memory_is_the_process_s_own_peak(tmp_path):
    status = tmp_path / "status"
    status.write_text("VmPeak:\t  999 kB\nVmHWM:\t  200 kB\nVmRSS:\t  100 kB\n", encoding="utf-8")
    assert child.peak_bytes(status) == 200 * 1024
    assert child.peak_bytes(tmp_path / "none") > 1_000_000


# -- samples --------------------------------------------------------------------------------------


def test_a_sample_counts_for_the_module_of_ours_that_is_at_work():
    assert sampler.module_of(None) == "other"

    class Frame:
        def __init__(self, name, f_back=None):
            self.f_globals = {"__name__": name}
            self.f_back = f_back

    ours = Frame("fa4sim.engine.core", Frame("simpy.core"))
    assert sampler.module_of(ours) == "fa4sim.engine.core"
    assert sampler.module_of(Frame("numpy.lib.x", ours)) == "fa4sim.engine.core"
    assert sampler.module_of(Frame("fa4simulacrum", Frame("simpy.core"))) == "simpy.core"


def test_sampling_ends_with_the_action_even_if_that_fails():
    before = signal.getsignal(signal.SIGPROF)
    seen = sampler.sample(lambda: os.kill(os.getpid(), signal.SIGPROF))
    assert seen.total() >= 1
    with pytest.raises(ZeroDivisionError):
        sampler.sample(lambda: 1 / 0)
    assert signal.getsignal(signal.SIGPROF) is before
    assert signal.getitimer(signal.ITIMER_PROF) == (0.0, 0.0)


def test_shares_add_up_to_everything():
    seen = Counter({"a": 50, "b": 47, "c": 2, "d": 1})
    assert sampler.shares(seen) == [("a", 0.5), ("b", 0.47), ("the rest", pytest.approx(0.03))]
    assert sampler.shares(Counter()) == []
    assert sampler.shares(Counter(a=1)) == [("a", 1.0)]


# -- each measurement, small ----------------------------------------------------------------------


def test_bare_timeouts_take_the_steps_they_are_counted_for():
    env = events.bare_environment(3, 5)
    steps = 0
    while env.peek() != float("inf"):
        env.step()
        steps += 1
    assert steps == events.run_bare(events.bare_environment(3, 5), 3, 5)


def test_stepping_takes_the_events_of_the_whole_call_whether_rows_are_kept_or_not():
    kept, dropped = Trace(), events.RowsDropped()
    whole = simulate(TINY, scope="cta", exact=True)
    assert events.whole_call(TINY) == whole.report.events
    assert events.run_tile(events.one_tile(TINY, kept)) == whole.report.events
    assert events.run_tile(events.one_tile(TINY, dropped)) == whole.report.events
    tables = ("span", "wait", "arrive", "life")
    assert [kept.size(t) for t in tables] == [whole.trace.size(t) for t in tables]
    assert not any(dropped.sizes().values())


def test_ratios_are_taken_turn_by_turn():
    rates = {events.BARE: [100.0, 200.0], events.WHOLE: [25.0, 100.0]}
    assert events.ratios(rates, events.WHOLE) == (0.25, 0.5)


def sane(found, figures):
    """Checks what every measurement promises; returns the page it makes."""
    assert len(found.figures) == figures
    for figure in found.figures:
        assert all(np.isfinite(value) and value >= 0 for value in figure.values)
        assert all(seconds >= 0 for seconds in figure.wall_s)
    text = page(MACHINE, [found])
    assert all(len(counts) == 1 for counts in widths(text)), "a row does not fit its table"
    return text


def test_events_per_second():
    found = events.measure(TINY, repeats=2, profiled=1)
    text = sane(found, 1)
    (figure,) = found.figures
    assert len(figure.values) == 2
    assert figure.at_least and figure.wanted == 0.5
    for way in events.WAYS:
        assert len(row_about(text, way)) == 4
    assert f"{simulate(TINY, scope='cta', exact=True).report.events:,} events" in text


def test_the_demo_problem_in_a_fresh_process():
    found = demo.measure(TINY, repeats=1)
    sane(found, 2)
    time, memory = found.figures
    assert time.wall_s
    assert 10 < memory.value < 10_000  # MB: an interpreter with NumPy takes tens
    assert (time.wanted, memory.wanted) == (1.0, 500)


def test_the_demo_measured_is_the_one_that_make_demo_runs():
    pytest.importorskip("click")
    from fa4sim.cli.demo import MAIN

    assert demo.PROBLEM == MAIN


def test_what_a_fresh_process_simulates_is_what_it_was_asked_for():
    assert child.main(TINY)["cycles"] == simulate(TINY).report.cycles


def test_one_tile():
    text = sane(tile.measure(TINY, repeats=1), 1)
    assert "one CTA tile of 4 K/V blocks" in text
    spans = simulate(TINY, scope="cta", exact=True).trace.size("span")
    assert f"{spans:,} spans" in text


def test_import():
    found = imports.measure(repeats=1)
    text = sane(found, 1)
    assert found.figures[0].value > 0
    assert row_about(text, "`import numpy, simpy`")


def test_perfetto_counts_the_slices_that_are_in_the_file():
    trace = perfetto.run_with(700).trace
    slices = trace.size("span") + trace.size("wait")
    assert slices >= 700
    text = sane(perfetto.measure(least=700, repeats=1), 1)
    assert f"a Perfetto trace of {slices:,} slices" in text


def test_exact_against_reuse():
    problem = Problem(heads=2, seqlen_q=512, causal=True)
    text = sane(exact.measure([problem], repeats=1), 0)
    whole, reuse = (simulate(problem, exact=way).report.cycles for way in (True, False))
    cells = row_about(text, "2 heads, 512 × 512, causal")
    assert cells[2:4] == [f"{whole:,}", f"{reuse:,}"]
    assert float(cells[4].rstrip("%")) == pytest.approx(100 * (reuse / whole - 1), abs=0.01)


def test_large_problems():
    text = sane(large.measure({"a small one": Problem(heads=3, seqlen_q=512)}), 0)
    # Without a mask two CTAs work as a pair on 512 rows.
    assert row_about(text, "a small one")[1] == "3"


# -- the command ----------------------------------------------------------------------------------

MISSED = Measurement("Slow", "By the sun.", (Figure("slow", "s", (2.0,), 1.0),))
MET = Measurement("Quick", "By the clock.", (Figure("quick", "s", (0.5,), 1.0),))


@pytest.fixture
def command(monkeypatch, tmp_path):
    """The command with two measurements that take no time, and its page in a folder of its own."""
    monkeypatch.setattr(run, "MEASUREMENTS", {"slow": lambda: MISSED, "quick": lambda: MET})
    monkeypatch.setattr(run, "PAGE", tmp_path / "page.md")
    return run.main


def test_the_command_writes_the_page_and_tells_how_it_gets_on(command, tmp_path, capsys):
    command([])
    text = (tmp_path / "page.md").read_text(encoding="utf-8")
    assert "1 of 2 met. Missed: slow." in text
    said = capsys.readouterr()
    assert said.out == ""
    assert "[1/2] slow" in said.err
    assert "slow: 2.00 s, missed" in said.err
    assert "[2/2] quick" in said.err


def test_the_command_writes_elsewhere_on_request(command, tmp_path):
    command(["-o", str(tmp_path / "other.md")])
    assert os.listdir(tmp_path) == ["other.md"]


def test_one_measurement_alone_leaves_the_page_alone(command, tmp_path, capsys):
    command(["--only", "quick"])
    assert os.listdir(tmp_path) == []
    shown = capsys.readouterr().out
    assert "### Quick" in shown
    assert "Slow" not in shown

    command(["--only", "quick", "-o", str(tmp_path / "part.md")])
    assert (tmp_path / "part.md").read_text(encoding="utf-8").count("###") == 1


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--only", "nonsense"], "nonsense"),
        (["-o", "no/such/folder/page.md"], "no/such/folder"),
        (["-o", "."], "is a folder"),
    ],
)
def test_bad_options_are_refused_before_anything_is_measured(
    command, monkeypatch, capsys, given, said
):
    monkeypatch.setattr(run, "measure", partial(pytest.fail, "was measured"))
    with pytest.raises(SystemExit) as stop:
        command(given)
    assert stop.value.code == 2
    assert said in capsys.readouterr().err


def test_nothing_is_written_if_a_measurement_fails(command, monkeypatch, tmp_path):
    monkeypatch.setattr(run, "MEASUREMENTS", {"quick": lambda: MET, "bad": lambda: 1 / 0})
    with pytest.raises(ZeroDivisionError):
        command([])
    assert os.listdir(tmp_path) == []


def test_help_names_every_measurement(capsys):
    with pytest.raises(SystemExit) as stop:
        run.main(["--help"])
    assert stop.value.code == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in run.MEASUREMENTS)
