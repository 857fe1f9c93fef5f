"""Rows in files: the same in CSV, JSON and Parquet, whole or not at all."""

import csv
import json
import sys

import pytest
from pyarrow import parquet

import fa4sim
from fa4sim.sweeps import Grid, columns, sweep, write_rows
from fa4sim.sweeps import files as module
from tests.sweeps.grids import TINY, stages


@pytest.fixture(scope="module")
def mixed():
    """A grid with settings of every kind, and its rows."""
    grid = Grid(
        {"window": ((64, 0), (128, None), None), "kv_stages": (2, 30),
         "machine.clock_hz": (1.5e9,), "scheduler": ("lpt",), "sink": (True,)}, TINY,
    )  # fmt: skip
    return grid, sweep(grid, jobs=1)


def test_parquet_holds_every_column_with_its_type(mixed, tmp_path):
    grid, rows = mixed
    write_rows(grid, rows, tmp_path / "rows.parquet")
    table = parquet.read_table(tmp_path / "rows.parquet")
    wanted = columns(rows)
    assert table.column_names == list(wanted)
    wanted["window"] = [None if w is None else list(w) for w in wanted["window"]]
    assert table.to_pydict() == wanted
    kinds = {name: str(table.schema.field(name).type) for name in wanted}
    assert kinds["window"] == "list<element: int64>" and kinds["sink"] == "bool"
    assert kinds["kv_stages"] == kinds["cycles"] == "int64" and kinds["scheduler"] == "string"
    assert kinds["machine.clock_hz"] == kinds["busy_mufu"] == kinds["time_us"] == "double"
    about = json.loads(table.schema.metadata[b"fa4sim sweep"])
    assert about["fa4sim"] == fa4sim.__version__
    assert about["grid"]["base"] == TINY and about["grid"]["axes"]["kv_stages"] == [2, 30]


def test_csv_holds_the_same(mixed, tmp_path):
    grid, rows = mixed
    write_rows(grid, rows, tmp_path / "rows.csv")
    with (tmp_path / "rows.csv").open(encoding="utf-8", newline="") as file:
        found = list(csv.DictReader(file))
    wanted = columns(rows)
    assert list(found[0]) == list(wanted)
    assert [row["window"] for row in found] == [str(value) for value in wanted["window"]]
    for name in ("time_us", "tflops", "busy_tensor", "cycles"):
        figures = [float(row[name]) if row[name] else None for row in found]
        assert figures == wanted[name], "no digit is lost"


def test_a_file_that_cannot_be_finished_leaves_the_old_one(mixed, tmp_path, monkeypatch):
    grid, rows = mixed
    target = tmp_path / "rows.csv"
    target.write_text("old")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "_in_csv", full)
    with pytest.raises(OSError, match="No space left") as full_disk:
        write_rows(grid, rows, target)
    assert target.read_text() == "old" and list(tmp_path.iterdir()) == [target]

    assert str(target) in str(full_disk.value), "it is named, not what lay beside it"


@pytest.mark.parametrize("name", ["rows.xlsx", "rows", "no/such/folder/rows.csv", "folder.csv"])
def test_a_file_that_cannot_be_written_is_refused_before_anything_runs(tmp_path, name):
    (tmp_path / "folder.csv").mkdir()
    counts = []
    with pytest.raises(ValueError, match=name):
        sweep(stages(), output=tmp_path / name, progress=lambda *c: counts.append(c))
    assert not counts


@pytest.mark.parametrize(
    "library, words",
    [("pyarrow", ("-o", "rows.parquet")), ("distributed", ("--dask", "tcp://127.0.0.1:8786"))],
)
def test_a_library_that_lacks_is_named_with_its_extra(
    monkeypatch, tmp_path, fa4sim, library, words
):
    monkeypatch.chdir(tmp_path)
    for name in [name for name in sys.modules if name.partition(".")[0] == library]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, library, None)
    outcome = fa4sim("sweep", "--heads", 1, "--seqlen-q", 256, "--set", "kv_stages=2,3", *words)
    assert outcome.code == 2
    assert f"needs {library}; install it with: pip install 'fa4sim[sweep]'" in outcome.err
    assert not list(tmp_path.iterdir())
