"""The command as a whole: help, exit codes, purity of --json, and a lean start."""

import json
import os
import shlex
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import fa4sim as library
from fa4sim.cli import main
from fa4sim.cli.output import plain, table
from tests.speed import cpu_seconds

COMMANDS = ("demo", "run", "check", "timeline", "compare", "sweep", "validate", "rescales", "exp2",
            "fp8", "kvcache", "machines", "poster")  # fmt: skip


def fa4sim_process(*arguments, **more):
    """`python -m fa4sim` in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "fa4sim", *map(str, arguments)],
        capture_output=True, text=True, encoding="utf-8", check=False, **more,
    )  # fmt: skip


def test_the_help_names_every_command_and_the_exit_codes(fa4sim):
    outcome = fa4sim("--help")
    assert outcome.code == 0
    assert tuple(main.commands) == COMMANDS
    for command in COMMANDS:
        assert f"\n  {command} " in outcome.out
    assert "0 ok, 1 a check failed, 2 bad input, 3 a deadlock or a hazard" in outcome.out


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_a_command_explains_and_gives_examples(fa4sim, command):
    outcome = fa4sim(command, "--help")
    assert outcome.code == 0
    assert "Examples:" in outcome.out and f"  fa4sim {command}" in outcome.out
    assert "--json" in outcome.out
    for option in main.commands[command].params:
        assert (
            getattr(option, "help", "")
            or option.param_type_name == "argument"
            or (option.name == "head_dim")
        ), f"{command} {option.name} is not explained"


@pytest.mark.parametrize("command", COMMANDS)
def test_the_examples_in_the_help_are_commands_that_parse(command):
    lines = main.commands[command].epilog.splitlines()
    examples = [line.split("    ")[0] for line in lines if line.startswith("  fa4sim ")]
    assert examples
    for example in examples:
        _, name, *arguments = shlex.split(example.strip())
        main.commands[name].make_context(name, arguments)


def test_the_version_is_the_librarys(fa4sim):
    assert fa4sim("--version").out.split()[-1] == library.__version__


@pytest.mark.parametrize("words", [("nonsense",), ("run", "surplus"), ("run", "--nonsense")])
def test_what_cannot_be_parsed_ends_with_code_2(fa4sim, words):
    outcome = fa4sim(*words)
    assert outcome.code == 2
    assert words[-1] in outcome.err and outcome.out == ""


def test_a_command_line_that_cannot_be_parsed_still_answers_in_json(fa4sim):
    outcome = fa4sim("run", "--json", "--nonsense")
    assert outcome.code == 2
    assert outcome.json["schema"] == 1 and "--nonsense" in outcome.json["error"]


@pytest.mark.parametrize(
    "arguments, code",
    [
        (("run", "--batch", 1, "--heads", 1, "--seqlen-q", 256), 0),
        (("check", "--heads", 1, "--seqlen-q", 200), 0),
        (("check", "--heads", 1, "--seqlen-q", 200, "--set", "exp2_degree=1",
          "--set", "exp2_period=4", "--set", "exp2_first_fragment=0"), 1),
        (("run", "--seqlen-q", -1), 2),
        (("run", "--batch", 1, "--heads", 1, "--seqlen-q", 512,
          "--break", "drop_arrival:load_KV_full"), 3),
    ],
)  # fmt: skip
def test_a_process_ends_with_its_code_and_prints_json_only(arguments, code):
    done = fa4sim_process(*arguments, "--json")
    assert done.returncode == code
    facts = json.loads(done.stdout)
    assert facts["schema"] == 1
    assert ("error" in facts) == (code != 0) == bool(done.stderr)
    assert "Traceback" not in done.stderr


#: The command line, with a file that appears once its first simulation begins. Ctrl-C is heard
#: even where whoever started the tests ignores it, as in the background of a shell.
IN_THE_MIDDLE = """
import importlib, pathlib, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
ready = pathlib.Path(sys.argv.pop(1))
rows = importlib.import_module("fa4sim.sweeps.rows")
simulate = rows.simulate
def first_say_so(*arguments, **more):
    ready.touch()
    return simulate(*arguments, **more)
rows.simulate = first_say_so
from fa4sim.cli import main
main()
"""


@pytest.mark.skipif(os.name == "nt", reason="Ctrl-C is another matter there")
def test_ctrl_c_ends_with_130_and_leaves_no_file(tmp_path):
    target = tmp_path / "rows.csv"
    ready = tmp_path / "ready"
    words = ("sweep", "--set", "kv_stages=2:6", "--set", "exp2_period=0:32", "-o", str(target))
    process = subprocess.Popen(
        [sys.executable, "-c", IN_THE_MIDDLE, str(ready), *words],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        while not ready.exists():
            assert process.poll() is None, process.communicate()
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    ready.unlink()
    assert process.returncode == 130
    assert out == "" and err.strip() == "Stopped."
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no full device here")
@pytest.mark.parametrize("more", [(), ("--json",)])
def test_a_full_disk_is_said_in_a_sentence(more):
    command = [sys.executable, "-m", "fa4sim", "run", "--heads", "1", "--seqlen-q", "64", *more]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("Error: cannot print the result: ")
    assert len(done.stderr.splitlines()) == 1


def test_a_terminal_without_greek_gets_question_marks():
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    for arguments in (("check", "--help"), ("run", "--batch", 1, "--heads", 1, "--seqlen-q", 64)):
        done = fa4sim_process(*arguments, env=environment)
        assert done.returncode == 0, done.stderr


def test_the_command_starts_fast(tmp_path):
    ours = cpu_seconds(tmp_path, "-m", "fa4sim", "--help")
    assert ours <= 3 * cpu_seconds(tmp_path, "-c", "import numpy, simpy")


def test_the_start_loads_no_drawing():
    code = "import sys, fa4sim.cli; print({'matplotlib', 'perfetto'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_json_has_no_nan_no_infinity_and_no_numpy():
    values = {"a": float("nan"), "b": [np.float64("inf"), np.int64(3)], "c": (np.bool_(True), None)}
    assert plain(values) == {"a": None, "b": [None, 3], "c": [True, None]}


def test_columns_are_as_wide_as_their_widest_cell():
    assert table(["n", "name"], [["1", "x"], ["100", "long"]], left=["name"]).splitlines() == [
        "  n  name", "  1  x", "100  long",
    ]  # fmt: skip
