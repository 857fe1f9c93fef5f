"""The page of maps: made from stored rows, of the grids that the command sweeps."""

import shutil

import pytest

from benchmarks.maps import pictures, run, stored
from benchmarks.maps.grids import GRIDS
from fa4sim.sweeps import Grid, sweep
from fa4sim.views import alt_text


@pytest.fixture
def copied(tmp_path):
    """The stored rows, in a folder of their own."""
    folder = tmp_path / "maps"
    folder.mkdir()
    for name in GRIDS:
        shutil.copy(run.ROWS / f"{name}.csv", folder)
    return folder


def test_the_page_is_what_the_stored_rows_say(copied, tmp_path):
    run.write(copied, tmp_path / "maps.md")
    assert (tmp_path / "maps.md").read_text("utf-8") == run.PAGE.read_text("utf-8"), (
        "run: python -m benchmarks.maps.run --draw"
    )
    for name in GRIDS:
        assert (copied / f"{name}.png").read_bytes()[:4] == b"\x89PNG"


@pytest.mark.parametrize("name", GRIDS)
def test_the_rows_are_those_of_the_grid(name):
    rows = stored.read(run.ROWS / f"{name}.csv")
    points = [dict(point.settings) for point in GRIDS[name].points()]
    assert [{setting: row[setting] for setting in GRIDS[name].axes} for row in rows] == points


def test_every_section_has_its_grid():
    assert set(run.SECTIONS) == set(GRIDS)


def test_rows_are_read_back_as_they_were(tmp_path):
    grid = Grid({"page_size": (None, 128), "causal": (False,), "kv_stages": (2, 30)},
                {"seqlen_q": 256})  # fmt: skip
    done = sweep(grid, output=tmp_path / "rows.csv", jobs=1)
    rows = stored.read(tmp_path / "rows.csv")
    assert [row["time_us"] for row in rows] == [
        None if row.report is None else row.report.time_us for row in done
    ]
    assert stored.values(rows, "page_size") == [None, 128]
    assert stored.one(rows, page_size=None, kv_stages=2)["cycles"] == done[0].report.cycles
    assert stored.one(rows, page_size=128, kv_stages=30) is None
    (sentence,) = stored.left_out(rows)
    assert sentence.startswith("2 of the points: refused: this design needs")
    with pytest.raises(ValueError, match="2 rows have"):
        stored.one(rows, page_size=None)


def test_a_heat_map_tells_every_cell():
    figure = pictures.heat_maps({"all": [[1.0, 2.5], [None, 4.0]]}, (1024, 2000), (1, 2), "Gain",
                                "keys", "batch")  # fmt: skip
    assert alt_text(figure) == (
        "Heat map: Gain. all, batch 1, keys 1024: 1.00; all, batch 1, keys 2000: 2.50; "
        "all, batch 2, keys 2000: 4.00."
    )


def test_marks_without_a_line_are_told_too():
    text = alt_text(pictures.lines({"naive": {1: 2.0, 8: 3.0}, "published, naive": {1: 2.3}},
                                   "Rates", "page", "TB/s", {"HBM": 6.0}))  # fmt: skip
    assert "published, naive: 2.30 at 1" in text and "HBM: 6.00" in text


@pytest.mark.parametrize("words", [("--only", "fp8", "--draw"), ("--only", "nothing")])
def test_the_command_refuses_what_makes_no_sense(words):
    with pytest.raises(SystemExit):
        run.arguments(words)
