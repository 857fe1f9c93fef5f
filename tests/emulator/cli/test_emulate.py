"""`fa4kernel emulate`."""

import shlex

import pytest


def test_a_good_kernel_runs_and_its_outputs_are_checked(fa4kernel, kernel, launch_file):
    outcome = fa4kernel("emulate", kernel, "--launch", launch_file())
    assert outcome.code == 0
    assert "check passed" in outcome.out
    assert "2 CTAs of 64 threads" in outcome.out


def test_json_is_one_object_with_a_schema(fa4kernel, kernel, launch_file):
    outcome = fa4kernel("emulate", kernel, "--launch", launch_file(), "--json", "--schedule", 3)
    facts = outcome.json
    assert outcome.code == 0
    assert facts["schema"] == 1
    assert facts["check"] == "passed"
    assert facts["hazards"] == []
    assert facts["instructions"] > 0


def test_what_never_ran_is_told(fa4kernel, kernel, launch_file):
    whole = fa4kernel("emulate", kernel, "--launch", launch_file())
    assert "never ran" not in whole.out
    dead = ".loc 1 10 4\n    mbarrier.arrive.shared.b64 %rd1, [%r9];\n    add.s32 %r6, 1, 2;"
    text = kernel.read_text()
    assert text.count("bra END;") == 1
    kernel.write_text(text.replace("bra END;", f"bra END;\n    {dead}"))
    outcome = fa4kernel("emulate", kernel, "--launch", launch_file(), "--processes", 2)
    assert outcome.code == 0
    assert "2 instructions never ran: nothing is known of them" in outcome.out
    assert "among them: mbarrier at ring.py:10" in outcome.out
    facts = fa4kernel("emulate", kernel, "--launch", launch_file(), "--json").json
    lines = kernel.read_text().splitlines()
    assert [lines[line - 1].split()[0] for line in facts["never_ran"]] == [
        "mbarrier.arrive.shared.b64", "add.s32",
    ]  # fmt: skip


@pytest.mark.parametrize("check", ["assert out[0] == 6, 'five, not six'", "return out[0] == 6"])
def test_wrong_outputs_end_with_1(fa4kernel, kernel, launch_file, check):
    outcome = fa4kernel("emulate", kernel, "--launch", launch_file(check), "--json")
    assert outcome.code == 1
    assert outcome.json["exit_code"] == 1
    assert "check failed" in outcome.err


def test_a_deadlock_ends_with_3_and_tells_who_waits(fa4kernel, stuck, launch_file):
    outcome = fa4kernel("emulate", stuck, "--launch", launch_file(), "--checks", "off", "--json")
    assert outcome.code == 3
    facts = outcome.json
    assert facts["fault"] == "deadlock"
    waits = facts["deadlock"]["waits"]
    assert {wait["on"] for wait in waits} == {"ring.full[0]", "ring.empty[0]"}
    assert waits[0]["missing"] == ["consume (warp 1) (ring.py:15), which waits for ring.full[0]"]
    assert "ring.full.wait(turn)" in outcome.err


def test_a_hazard_ends_with_3(fa4kernel, kernel, launch_file):
    # Without the barrier, the warps use mbarriers that they don't know to be initialised.
    kernel.write_text(kernel.read_text().replace("bar.sync 0;", ""))
    outcome = fa4kernel("emulate", kernel, "--launch", launch_file(), "--json")
    assert outcome.code == 3
    facts = outcome.json
    found = facts["hazards"] or [facts["fault"]]
    assert "uninitialised-barrier" in str(found)


@pytest.mark.parametrize("ending", ["pftrace", "png", "svg", "html", "npz"])
def test_a_trace_is_written_by_the_ending_of_its_name(
    fa4kernel, kernel, launch_file, tmp_path, ending
):
    pytest.importorskip("matplotlib")
    target = tmp_path / f"run.{ending}"
    outcome = fa4kernel("emulate", kernel, "--launch", launch_file(), "--trace", target)
    assert outcome.code == 0
    assert "ticks" in outcome.out
    assert target.stat().st_size > 1000


def test_a_trace_is_left_by_a_deadlock_too(fa4kernel, stuck, launch_file, tmp_path):
    pytest.importorskip("matplotlib")
    target = tmp_path / "run.pftrace"
    outcome = fa4kernel(
        "emulate", stuck, "--launch", launch_file(), "--trace", target, "--ctas", "cta 1"
    )
    assert outcome.code == 3
    assert "until then" in outcome.err
    assert target.exists()


@pytest.mark.parametrize(
    "text, told",
    [
        ("x = 1\n", "no function launch()"),
        ("def launch():\n    return 7\n", "gave a int"),
        ("def launch():\n    return 1 / 0\n", "launch.py:2: ZeroDivisionError"),
        ("def launch(:\n", "launch.py:1: SyntaxError"),
        ("def launch():\n    assert False, 'no'\n", "launch.py:2: no"),
    ],
)
def test_a_bad_launch_file_is_told_with_its_line(fa4kernel, kernel, launch_file, text, told):
    outcome = fa4kernel("emulate", kernel, "--launch", launch_file(text=text))
    assert outcome.code == 2
    assert told in outcome.err


@pytest.mark.parametrize(
    "arguments, told",
    [
        (["--schedule", "fast"], "lockstep"),
        (["--trace", "run.txt"], "must end in"),
        (["--trace", "run.pftrace", "--ctas", "cta 7"], "CTAs 0 to 1"),
        (["--checks", "all"], "strict-isa"),
        (["--launch", "absent.py"], "no such file"),
    ],
)
def test_bad_options_end_with_2_and_say_what_is_allowed(
    fa4kernel, kernel, launch_file, arguments, told, monkeypatch, tmp_path
):
    monkeypatch.chdir(tmp_path)
    outcome = fa4kernel("emulate", kernel, "--launch", launch_file(), *arguments)
    assert outcome.code == 2
    assert told in outcome.err


def test_files_that_are_no_ptx_end_with_2(fa4kernel, launch_file, tmp_path):
    cubin = tmp_path / "kernel.cubin"
    cubin.write_bytes(b"\x7fELF\xff\xfe\x00\x01")
    broken = tmp_path / "broken.ptx"
    broken.write_text("not PTX")
    for path, told in ((cubin, "no text"), (broken, "broken.ptx': line 1"),
                       (tmp_path / "none.ptx", "no such file")):  # fmt: skip
        outcome = fa4kernel("emulate", path, "--launch", launch_file())
        assert outcome.code == 2
        assert told in outcome.err


def test_an_unsupported_instruction_ends_with_2_and_is_quoted(fa4kernel, kernel, launch_file):
    kernel.write_text(kernel.read_text().replace("bar.sync 0;", "bar.nowhere 0;"))
    outcome = fa4kernel("emulate", kernel, "--launch", launch_file())
    assert outcome.code == 2
    assert "bar.nowhere 0;" in outcome.err


def test_the_help_says_whose_code_is_run(fa4kernel):
    text = " ".join(fa4kernel("emulate", "--help").out.split())
    assert "THE CODE OF THIS FILE IS RUN" in text
    assert "PTX itself cannot touch this computer" in text


def test_reports_end_with_the_command_that_repeats_the_run(
    fa4kernel, stuck, kernel, launch_file, monkeypatch
):
    launch = launch_file()
    outcome = fa4kernel("emulate", stuck, "--launch", launch, "--schedule", "delay warp 1")
    assert outcome.code == 3
    told = f"fa4kernel emulate {stuck} --launch {launch} --schedule 'delay warp 1' --checks default"
    assert f"  replay: {told}\n" in outcome.err
    again = shlex.split(told.removeprefix("fa4kernel "))
    assert fa4kernel(*again).err == outcome.err

    kernel.write_text(kernel.read_text().replace("bar.sync 0;", ""))
    facts = fa4kernel("emulate", kernel, "--launch", launch, "--json", "--schedule", 5).json
    assert facts["replay"].endswith(f"--launch {launch} --schedule 5 --checks default")
    assert all(hazard["replay"] == facts["replay"] for hazard in facts["hazards"])


@pytest.mark.parametrize(
    ("check", "words"),
    [
        ("import sys; sys.exit(0)", "SystemExit: 0"),
        ("return np.zeros(3) == 0", "ValueError"),
    ],
)
def test_a_launch_file_cannot_end_the_command(fa4kernel, kernel, launch_file, check, words):
    outcome = fa4kernel("emulate", kernel, "--launch", launch_file(check), "--json")
    assert outcome.code == 2
    assert words in outcome.json["error"]


def test_what_a_launch_file_prints_does_not_disturb_json(fa4kernel, kernel, launch_file):
    outcome = fa4kernel("emulate", kernel, "--launch", launch_file("print('hello')"), "--json")
    assert outcome.code == 0
    assert outcome.json["check"] == "passed"
    assert "hello" in outcome.err
