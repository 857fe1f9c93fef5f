"""`fa4kernel code`."""

import pytest
from click.testing import CliRunner

import fa4kernel.cli.code as command
from fa4kernel.cli import main
from fa4kernel.code.kernels import AbsentError, Kernel
from fa4kernel.compiling import CompilationError
from tests.cli.conftest import Outcome
from tests.code.kernels import EXPONENTIALS, stand_in, stand_in_launch


def kernel(name, **text):
    return lambda shape: Kernel(name, f"{name}, a stand-in", stand_in(**text), stand_in_launch)


@pytest.fixture
def run(monkeypatch, tmp_path):
    """Run `fa4kernel code` on one shape with stand-ins, and without NVIDIA's programs."""
    monkeypatch.setenv("PTXAS", str(tmp_path / "none"))
    monkeypatch.setenv("NVDISASM", str(tmp_path / "none"))
    monkeypatch.setitem(command.KERNELS, "official", kernel("official"))

    def invoke(*arguments, ours=None):
        monkeypatch.setitem(command.KERNELS, "ours", ours or kernel("ours"))
        result = CliRunner().invoke(main, ["code", "--shape", "full-128", *arguments])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Outcome(result.exit_code, result.stdout, result.stderr)

    return invoke


def test_equal_kernels_are_fine_and_the_page_is_printed(run):
    outcome = run()
    assert outcome.code == 0
    assert outcome.out.startswith("# The compiled kernel beside the official one")
    assert "Written by" not in outcome.out


def test_json_has_each_shape_and_kernel(run):
    facts = run("--json").json
    shape = facts["shapes"]["full-128"]
    assert facts["ok"] is True and facts["ptxas"] is None
    for name in ("ours", "official"):
        assert shape[name]["roles"]["softmax"]["step"]["MUFU"] == EXPONENTIALS
        assert shape[name]["assembly"] is None
    assert [wish["met"] for wish in shape["wanted"]] == [True, True, None]


def test_a_longer_step_is_a_failed_check(run):
    outcome = run("--json", ours=kernel("ours", extra="fma.rn.f32 %f2, %f2, %f2, %f2;"))
    assert outcome.code == 1
    assert outcome.json["shapes"]["full-128"]["wanted"][0]["met"] is False
    assert "missed" in outcome.err


def test_one_kernel_alone_is_not_judged(run):
    facts = run("--kernel", "official", "--json").json
    assert set(facts["shapes"]["full-128"]) == {"title", "official"}


def test_a_kernel_that_is_absent_is_bad_input(run):
    def absent(shape):
        raise AbsentError("flash-attn-4 is not installed")

    outcome = run(ours=absent)
    assert outcome.code == 2
    assert "flash-attn-4 is not installed" in outcome.err


def test_a_compiler_that_fails_is_quoted(run):
    def refused(shape):
        raise CompilationError("unknown operand 7")

    outcome = run(ours=refused)
    assert outcome.code == 2
    assert "ours, head dim 128, full" in outcome.err
    assert "unknown operand 7" in outcome.err


def test_a_kernel_that_does_not_run_is_a_broken_pipeline(run):
    outcome = run(ours=kernel("ours", extra="trap;"))
    assert outcome.code == 3
    assert "trap" in outcome.err


def test_the_page_is_written_into_a_clone_and_nowhere_else(run, monkeypatch, tmp_path):
    package = tmp_path / "fa4kernel" / "__init__.py"
    monkeypatch.setattr(command.fa4kernel, "__file__", str(package))
    outcome = run("--write")
    assert outcome.code == 2
    assert "not a copy of the repository" in outcome.err

    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "docs" / "validation").mkdir(parents=True)
    assert run("--write").code == 0
    text = (tmp_path / command.PAGE).read_text()
    assert "Written by `fa4kernel code --write`" in text
    assert [path.name for path in (tmp_path / "docs" / "validation").iterdir()] == [
        "kernel_code.md"
    ]
