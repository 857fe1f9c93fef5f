"""`fa4sim timeline`: the ending decides, the window zooms, a file is whole or absent."""

import builtins
import json

import pytest
from click.testing import CliRunner

from fa4sim.cli import main
from fa4sim.cli import timeline as module
from fa4sim.cli.output import write_whole
from fa4sim.trace import load

ONE = ("--batch", "1", "--heads", "1", "--seqlen-q", "256", "--seqlen-k", "512")
PNG = b"\x89PNG\r\n\x1a\n"


@pytest.mark.parametrize("name", ["a.png", "A.PNG", "ünï çode 长.png"])
def test_a_png_is_a_picture(fa4sim, tmp_path, name):
    target = tmp_path / name
    outcome = fa4sim("timeline", *ONE, "-o", target, "--json")
    assert outcome.code == 0, outcome.err
    assert target.read_bytes().startswith(PNG)
    facts = outcome.json
    assert facts["schema"] == 1 and facts["file"] == str(target)
    assert facts["cycles"] > 0 and facts["tile"] == 0 and facts["shows"]
    assert [path.name for path in tmp_path.iterdir()] == [name], "nothing else is left behind"


def test_an_svg_is_text(fa4sim, tmp_path):
    target = tmp_path / "a.svg"
    outcome = fa4sim("timeline", *ONE, "--from", 1000, "--to", 3000, "-o", target)
    assert outcome.code == 0, outcome.err
    assert "<svg" in target.read_text(encoding="utf-8")
    assert "1,000" in outcome.out and "3,000" in outcome.out


def test_a_perfetto_trace_says_where_to_open_it(fa4sim, tmp_path):
    target = tmp_path / "a.pftrace"
    outcome = fa4sim("timeline", *ONE, "-o", target)
    assert outcome.code == 0, outcome.err
    assert target.stat().st_size > 1000
    assert "ui.perfetto.dev" in outcome.out


def test_a_window_makes_a_smaller_trace(fa4sim, tmp_path):
    whole, part = tmp_path / "whole.pftrace", tmp_path / "part.pftrace"
    fa4sim("timeline", *ONE, "-o", whole)
    fa4sim("timeline", *ONE, "--from", 4000, "--to", 5000, "-o", part)
    assert part.stat().st_size < whole.stat().st_size / 2


@pytest.mark.parametrize("show", list(module.PICTURES))
def test_each_picture_says_what_it_shows(fa4sim, tmp_path, show):
    said = {}
    for name in ("timeline", show):
        target = tmp_path / f"{name}.png"
        outcome = fa4sim("timeline", *ONE, "--show", name, "-o", target, "--json")
        assert outcome.code == 0, outcome.err
        assert target.read_bytes().startswith(PNG)
        said[name] = outcome.json["shows"]
    assert len(set(said.values())) == len(said)


@pytest.mark.parametrize(
    "options, name, words",
    [
        (("--show", "memory"), "a.pftrace", "holds everything"),
        (("--show", "memory"), "a.html", "a .html holds everything"),
        (("--beside", "kv_stages=2"), "a.pftrace", "a .pftrace file is of one run"),
        (("--beside", "kv_stages=2", "--show", "units"), "a.png", "--show units is of one run"),
        (("--beside", "kv_stages"), "a.html", "'kv_stages': give NAME=VALUE"),
        (("--beside", "kv_stages=99"), "a.html", "kv_stages=99 must be"),
        (("--beside", "none.npz"), "a.html", "cannot read 'none.npz'"),
        (("--beside", "a=1", "--beside", "b.npz"), "a.html", "'b.npz' is a trace; give it alone"),
        (("--show", "life-of-k", "--from", 5), "a.png", "leave --from and --to out"),
        (("--show", "nothing"), "a.png", "'nothing' is not one of"),
    ],
)
def test_pictures_that_cannot_be_are_refused(fa4sim, tmp_path, options, name, words):
    outcome = fa4sim("timeline", *ONE, *options, "-o", tmp_path / name)
    assert outcome.code == 2 and words in outcome.err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["a.pdf", "a", "png", ".png", "a.json", "a.png.txt"])
def test_another_ending_is_refused_with_those_that_work(fa4sim, tmp_path, name):
    outcome = fa4sim("timeline", *ONE, "-o", tmp_path / name)
    assert outcome.code == 2
    assert ".png, .svg, .html, .pftrace or .npz" in outcome.err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("ending", ["png", "html", "pftrace", "npz"])
@pytest.mark.parametrize(
    "options, quoted",
    [
        (("--from", 3000, "--to", 2000), "3000"),
        (("--from", -5), "-5"),
        (("--from", 10**8), "100"),
        (("--tile", 999), "999"),
        (("--tile", -1), "-1"),
        (("--seqlen-q", 1, "--set", "seqlen_k=0"), "seqlen_k"),
    ],
    ids=lambda value: str(value),
)
def test_a_window_or_tile_that_is_not_there_is_refused(fa4sim, tmp_path, ending, options, quoted):
    outcome = fa4sim("timeline", *ONE, *options, "-o", tmp_path / f"a.{ending}")
    assert outcome.code == 2
    assert quoted in outcome.err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("ending", ["png", "pftrace"])
def test_a_problem_without_keys_has_nothing_to_show(fa4sim, tmp_path, ending):
    options = ("--batch", 1, "--heads", 1, "--seqlen-q", 8, "--seqlen-k", 0)
    outcome = fa4sim("timeline", *options, "-o", tmp_path / f"a.{ending}")
    assert outcome.code == 2 and "no queries or no keys" in outcome.err
    assert not list(tmp_path.iterdir())


def test_another_tile_is_another_story(fa4sim, tmp_path):
    options = ("--batch", 1, "--heads", 1, "--seqlen-q", 1024, "--causal")
    cycles = {
        fa4sim("timeline", *options, "--tile", tile, "-o", tmp_path / "a.png", "--json").json[
            "cycles"
        ]
        for tile in (0, 3)
    }
    assert len(cycles) == 2


def test_a_folder_that_does_not_exist_is_refused_before_any_work(fa4sim, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "simulate", None)
    outcome = fa4sim("timeline", *ONE, "-o", tmp_path / "no" / "a.png")
    assert outcome.code == 2 and str(tmp_path / "no") in outcome.err


def test_a_folder_of_that_name_is_refused(fa4sim, tmp_path):
    (tmp_path / "a.png").mkdir()
    outcome = fa4sim("timeline", *ONE, "-o", tmp_path / "a.png")
    assert outcome.code == 2 and "folder" in outcome.err


def test_the_output_must_be_named(fa4sim):
    outcome = fa4sim("timeline", *ONE, "--json")
    assert outcome.code == 2
    assert "--output" in outcome.err and "--output" in outcome.json["error"]


def test_a_missing_library_names_the_extra(fa4sim, tmp_path, monkeypatch):
    real = builtins.__import__

    def without(name, *rest):
        if name == "fa4sim" and rest[2] == ("views",):
            raise ModuleNotFoundError("No module named 'matplotlib'", name="matplotlib")
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    outcome = fa4sim("timeline", *ONE, "-o", tmp_path / "a.png")
    assert outcome.code == 2
    assert "matplotlib" in outcome.err and "pip install 'fa4sim[viz]'" in outcome.err


def test_a_file_that_fails_half_way_leaves_the_old_one(tmp_path):
    target = tmp_path / "a.txt"
    target.write_text("old", encoding="utf-8")

    def stopped(path):
        path.write_text("half", encoding="utf-8")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_whole(target, stopped)
    assert target.read_text(encoding="utf-8") == "old"
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize(
    "fault, says", [("drop_arrival:S_full", "nothing moves"), ("drop_wait:S_full", "read_before")]
)
def test_a_fault_is_drawn_where_it_shows(fa4sim, tmp_path, monkeypatch, fault, says):
    from fa4sim import views

    titles = []
    timeline = views.timeline

    def noted(*arguments, title, **more):
        titles.append(title)
        return timeline(*arguments, title=title, **more)

    monkeypatch.setattr(views, "timeline", noted)
    target = tmp_path / "a.png"
    outcome = fa4sim("timeline", *ONE, "--break", fault, "-o", target)
    assert outcome.code == 3
    assert target.read_bytes().startswith(PNG)
    (title,) = titles
    assert fault.partition(":")[0] in title and says in title


def test_a_deadlock_can_be_exported_too(fa4sim, tmp_path):
    target = tmp_path / "a.pftrace"
    assert fa4sim("timeline", *ONE, "--break", "drop_arrival:S_full", "-o", target).code == 3
    assert target.stat().st_size > 1000


def test_windows_and_names_beyond_all_bounds_are_refused(fa4sim, tmp_path):
    outcome = fa4sim("timeline", *ONE, "--to", 10**24, "-o", tmp_path / "a.png")
    assert outcome.code == 2 and "--to 1000" in outcome.err and "at most" in outcome.err
    outcome = fa4sim("timeline", *ONE, "-o", tmp_path / ("a" * 300 + ".png"))
    assert outcome.code == 2 and "give another name" in outcome.err


# -- pages and traces -----------------------------------------------------------------------------


def test_a_page_says_that_a_browser_opens_it(fa4sim, tmp_path):
    target = tmp_path / "a.html"
    outcome = fa4sim("timeline", *ONE, "-o", target)
    assert outcome.code == 0, outcome.err
    assert target.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert "an interactive timeline of" in outcome.out and "in a browser" in outcome.out


def test_a_page_opens_with_the_window_asked_for(fa4sim, tmp_path):
    target = tmp_path / "a.html"
    outcome = fa4sim("timeline", *ONE, "--from", 1000, "--to", 3000, "-o", target, "--json")
    assert outcome.code == 0 and outcome.json["file"] == str(target)
    assert '"window":[1000,3000]' in target.read_text(encoding="utf-8")


def test_a_second_design_stands_below_on_a_page_and_in_a_picture(fa4sim, tmp_path):
    for name in ("a.html", "a.png"):
        options = ("--beside", "kv_stages=2", "-o", tmp_path / name)
        outcome = fa4sim("timeline", *ONE, *options)
        assert outcome.code == 0, outcome.err
    assert "as asked for and kv_stages=2" in (tmp_path / "a.html").read_text(encoding="utf-8")
    assert "as asked for above, kv_stages=2 below" in outcome.out


def test_a_trace_is_written_and_read_back_below_another(fa4sim, tmp_path):
    stored = tmp_path / "before.npz"
    outcome = fa4sim("timeline", *ONE, "--set", "kv_stages=2", "-o", stored)
    assert outcome.code == 0 and "spans" in outcome.out
    assert load(stored).meta["design"]["kv_stages"] == 2
    outcome = fa4sim("timeline", *ONE, "--beside", stored, "-o", tmp_path / "a.html")
    assert outcome.code == 0, outcome.err
    assert "as asked for and before" in (tmp_path / "a.html").read_text(encoding="utf-8")


def test_a_deadlock_is_put_on_a_page_up_to_where_it_stands(fa4sim, tmp_path):
    target = tmp_path / "dead.html"
    outcome = fa4sim("timeline", *ONE, "--break", "drop_arrival:S_full", "-o", target)
    assert outcome.code == 3
    assert f"wrote {target}: an interactive timeline" in outcome.err
    assert "nothing moves after cycle" in target.read_text(encoding="utf-8")


# -- more than one work tile -----------------------------------------------------------------------

#: Six work tiles on three SMs.
SIX = ("--batch", 1, "--heads", 6, "--seqlen-q", 256, "--seqlen-k", 256, "--set", "machine.sms=3")


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """What two of the three SMs did, stored."""
    target = tmp_path_factory.mktemp("kept") / "kept.npz"
    given = ["timeline", *map(str, SIX), "--sms", "2", "-o", str(target)]
    assert CliRunner().invoke(main, given).exit_code == 0
    return target


def test_the_first_sms_are_shown_with_all_their_work_tiles(fa4sim, tmp_path):
    target = tmp_path / "sms.html"
    outcome = fa4sim("timeline", *SIX, "--sms", 2, "-o", target)
    assert outcome.code == 0, outcome.err
    assert "2 of 3 SMs" in outcome.out and "slices" in outcome.out
    text = target.read_text(encoding="utf-8").split('id="fa4-header">')[1].split("</script>")[0]
    tracks = json.loads(text.replace("\\u003c", "<"))["runs"][0]["tracks"]
    assert {track["sm"] for track in tracks} == {0, 1}


def test_what_is_stored_of_some_sms_is_all_they_did(kept):
    trace = load(kept)
    assert set(trace.span["sm"].tolist()) == {0, 1}
    tiles = {(row["sm"], row["tile"]) for row in trace.span.where(op="QK").rows()}
    assert len(tiles) == 4, "two work tiles on each"


def test_a_stored_trace_is_shown_without_simulating(fa4sim, kept, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "simulate", None)
    for name in ("a.html", "a.png", "a.pftrace"):
        outcome = fa4sim("timeline", "--trace", kept, "-o", tmp_path / name)
        assert outcome.code == 0, outcome.err
        assert f"wrote {tmp_path / name}" in outcome.out
    one = tmp_path / "one.npz"
    assert fa4sim("timeline", "--trace", kept, "--sms", 1, "-o", one, "--json").json["trace"]
    assert set(load(one).span["sm"].tolist()) == {0}


def test_a_stored_trace_can_stand_above_another(fa4sim, kept, tmp_path):
    target = tmp_path / "two.html"
    outcome = fa4sim("timeline", "--trace", kept, "--beside", kept, "-o", target)
    assert outcome.code == 0, outcome.err
    assert " and " in outcome.out


@pytest.mark.parametrize(
    "given, words",
    [
        (("--sms", 0, "-o", "a.html"), "--sms 0 must be at least 1"),
        (("--sms", 4, "-o", "a.html"), "B200 has 3 SMs"),
        (("--sms", 1, "-o", "a.png"), "a .png is a picture of one CTA"),
        (("--sms", 1, "--tile", 2, "-o", "a.html"), "--sms 1 and --tile 2 contradict"),
        (("--sms", 2, "--seqlen-k", 131_072, "--seqlen-q", 8192, "-o", "a.html"), "at most 20,000"),
        (("--sms", 1, "--set", "cta_group=2", "--seqlen-q", 512, "-o", "a.html"), "a CTA pair in"),
        (("--trace", "none.npz", "-o", "a.html"), "cannot read 'none.npz'"),
        (("--trace", "none.npz", "--tile", 1, "-o", "a.html"), "contradict each other"),
    ],
)  # fmt: skip
def test_what_cannot_be_of_several_sms_is_refused(fa4sim, tmp_path, monkeypatch, given, words):
    monkeypatch.chdir(tmp_path)
    outcome = fa4sim("timeline", *SIX, *given)
    assert outcome.code == 2 and words in outcome.err
    assert not list(tmp_path.iterdir())


def test_more_than_a_page_can_show_says_how_many_sms_would_fit(fa4sim, kept, tmp_path, monkeypatch):
    count = load(kept).size("span") + load(kept).size("wait")
    monkeypatch.setattr("fa4sim.views.interactive.MOST_SLICES", count - 1)
    outcome = fa4sim("timeline", "--trace", kept, "-o", tmp_path / "a.html")
    assert outcome.code == 2
    assert f"2 SMs have {count:,} spans and waits" in outcome.err and "--sms 1" in outcome.err
