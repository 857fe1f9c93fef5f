"""`fa4sim demo`: the main job, a verdict on the numbers, and files to look at."""

import dataclasses

import pytest

from fa4sim.cli import demo as module
from fa4sim.specs import Problem

PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture
def quick(monkeypatch):
    """The demo with a problem of a few milliseconds instead of the whole GPU's."""
    monkeypatch.setattr(module, "MAIN", Problem(heads=2, seqlen_q=1024))
    monkeypatch.setattr(module, "WITH_ARRAYS", Problem(seqlen_q=256, causal=True))


def test_the_demo_is_the_problem_it_says_it_is():
    main = module.MAIN
    assert (main.batch, main.heads, main.seqlen_q, main.seqlen_k) == (4, 16, 8192, 8192)
    assert (main.head_dim, main.dtype) == (128, "bf16")


def test_the_demo_reports_checks_and_writes(fa4sim, quick, tmp_path):
    out = tmp_path / "new" / "out"
    outcome = fa4sim("demo", "--out", out)
    assert outcome.code == 0, outcome.err
    for words in ("TFLOP/s", "bottleneck:", "waits for", "equal, bit for bit", "attention",
                  "timeline.png", "timeline.html", "trace.pftrace", "ui.perfetto.dev"):  # fmt: skip
        assert words in outcome.out
    written = {path.name: path.read_bytes() for path in out.iterdir()}
    assert set(written) >= {"timeline.png", "timeline.html", "trace.pftrace"}
    assert not [name for name in written if name.startswith(".")], "no half-written file is left"
    for name, content in written.items():
        assert content.startswith(PNG) == name.endswith(".png")
        assert len(content) > 1000


def test_the_demo_in_json_has_run_check_and_files(fa4sim, quick, tmp_path):
    outcome = fa4sim("demo", "--out", tmp_path, "--json")
    facts = outcome.json
    assert facts["schema"] == 1
    assert facts["run"]["cycles"] > 0 and facts["check"]["ok"] is True
    assert str(tmp_path / "timeline.png") in facts["files"]


def test_the_demo_writes_over_its_old_files(fa4sim, quick, tmp_path):
    (tmp_path / "timeline.png").write_text("old", encoding="utf-8")
    (tmp_path / "mine.txt").write_text("mine", encoding="utf-8")
    assert fa4sim("demo", "--out", tmp_path).code == 0
    assert (tmp_path / "timeline.png").read_bytes().startswith(PNG)
    assert (tmp_path / "mine.txt").read_text(encoding="utf-8") == "mine"


def test_a_demo_whose_numbers_are_wrong_fails(fa4sim, quick, tmp_path, monkeypatch):
    real = module.compare_with_references
    monkeypatch.setattr(
        module,
        "compare_with_references",
        lambda *args, **options: dataclasses.replace(
            real(*args, **options), equals_blockwise=False
        ),
    )
    outcome = fa4sim("demo", "--out", tmp_path, "--json")
    assert outcome.code == 1
    assert outcome.json["check"]["ok"] is False


def test_a_file_in_the_place_of_the_folder_is_refused(fa4sim, tmp_path):
    path = tmp_path / "out"
    path.write_text("", encoding="utf-8")
    outcome = fa4sim("demo", "--out", path)
    assert outcome.code == 2 and str(path) in outcome.err


def test_a_folder_that_cannot_be_made_is_refused(fa4sim, tmp_path):
    (tmp_path / "file").write_text("", encoding="utf-8")
    outcome = fa4sim("demo", "--out", tmp_path / "file" / "out")
    assert outcome.code == 2 and "file" in outcome.err


def test_pictures_are_missed_before_any_work(fa4sim, tmp_path, monkeypatch):
    def missing():
        raise module.BadInput("drawing needs matplotlib; install it")

    monkeypatch.setattr(module, "load_views", missing)
    monkeypatch.setattr(module, "simulate", None)
    outcome = fa4sim("demo", "--out", tmp_path / "out")
    assert outcome.code == 2 and "matplotlib" in outcome.err
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_the_real_demo_takes_less_than_half_a_minute(fa4sim, tmp_path):
    outcome = fa4sim("demo", "--out", tmp_path, "--json")
    assert outcome.code == 0, outcome.err
    assert outcome.json["wall_s"] < 30
    assert outcome.json["run"]["tflops"] > 1000
