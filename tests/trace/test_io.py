"""Files: what was saved comes back, whole or not at all."""

import json

import numpy as np
import pytest

import fa4sim.trace.io as io
from fa4sim.trace import COLUMNS, Repeat, Trace, load, save


def sample():
    trace = Trace("cycles", {"machine": "B200", "problem": {"seqlen_q": 1024, "window": None}})
    trace.add("span", role="mma", unit="tensor", op="qk", start=0, end=512, tile=0, block=7)
    trace.add("wait", role="softmax0", on="S_full", kind="barrier", start=0, end=600, phase=1)
    trace.add("arrive", barrier="S_full", count=1, by="tensor", time=557)
    trace.add("life", tensor="K", space="smem", slot="ring[0]", birth=3, death=520)
    trace.add("flow", source=0, target=0, what="S")
    trace.add("counter", name="bytes_in_flight", time=4, value=32768)
    return trace


def rows_of(trace):
    return {name: list(trace.table(name).rows()) for name in COLUMNS}


@pytest.mark.parametrize("clock", ["cycles", "ticks", "ns"])
def test_a_trace_comes_back_as_it_was(tmp_path, clock):
    trace = sample()
    trace.clock = clock
    path = save(trace, tmp_path / "run.npz")
    again = load(str(path))
    assert rows_of(again) == rows_of(trace)
    assert (again.clock, again.meta, again.strings) == (clock, trace.meta, trace.strings)
    assert again.add("span", role="mma", start=1, end=2) == 1, "it can be written on"
    assert again.code("mma") == trace.code("mma")


def test_an_empty_trace_can_be_saved(tmp_path):
    assert rows_of(load(save(Trace(), tmp_path / "x"))) == rows_of(Trace())


def test_a_compact_trace_is_saved_written_out(tmp_path):
    trace = sample()
    trace.repeats.append(Repeat(dict.fromkeys(COLUMNS, 0), trace.sizes(), 3, 1000))
    again = load(save(trace, tmp_path / "run.npz"))
    assert again.size("span") == 4 and again.repeats == []
    assert again.span["start"].tolist() == [0, 1000, 2000, 3000]


def test_the_name_is_kept_whatever_its_ending(tmp_path):
    for name in ("run", "run.npz", "run.trace.v1", "Spur ü"):
        assert save(sample(), tmp_path / name) == tmp_path / name
        assert load(tmp_path / name).size("span") == 1
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(
        ("run", "run.npz", "run.trace.v1", "Spur ü")
    )


@pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt(), MemoryError()])
@pytest.mark.parametrize("existing", [True, False])
def test_a_write_that_fails_leaves_what_was_there(tmp_path, monkeypatch, error, existing):
    target = tmp_path / "run.npz"
    if existing:
        target.write_bytes(b"what was there")

    def fails(file, **_):
        file.write(b"half of it")
        raise error

    monkeypatch.setattr(io.np, "savez_compressed", fails)
    with pytest.raises(type(error)):
        save(sample(), target)
    assert [p.name for p in tmp_path.iterdir()] == (["run.npz"] if existing else [])
    assert not existing or target.read_bytes() == b"what was there"


def test_a_description_that_json_cannot_hold_leaves_nothing_behind(tmp_path):
    trace = sample()
    trace.meta["machine"] = object()
    with pytest.raises(TypeError):
        save(trace, tmp_path / "run.npz")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_does_not_exist_is_an_os_error(tmp_path):
    with pytest.raises(OSError):
        save(sample(), tmp_path / "nowhere" / "run.npz")
    with pytest.raises(OSError):
        load(tmp_path / "missing.npz")


def test_another_schema_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(io, "SCHEMA", 7)
    path = save(sample(), tmp_path / "run.npz")
    monkeypatch.undo()
    with pytest.raises(ValueError, match=r"run\.npz' has trace schema 7; this fa4sim reads 1"):
        load(path)


def test_other_columns_are_named(tmp_path):
    path = save(sample(), tmp_path / "run.npz")
    with np.load(path) as archive:
        parts = dict(archive)
    head = json.loads(bytes(parts.pop("header")).decode())
    head["columns"]["wait"].reverse()
    header = np.frombuffer(json.dumps(head).encode(), dtype=np.uint8)
    np.savez(path, header=header, **parts)
    with pytest.raises(ValueError, match="table 'wait' has other columns than ours"):
        load(path)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda data: b"not an archive",
        lambda data: data[: len(data) // 2],
        lambda data: data[:-30],
    ],
    ids=["text", "half", "no end"],
)
def test_a_file_that_is_no_trace_is_named(tmp_path, spoil):
    path = save(sample(), tmp_path / "run.npz")
    path.write_bytes(spoil(path.read_bytes()))
    with pytest.raises(ValueError, match=r"run\.npz' is not a fa4sim trace"):
        load(path)


def test_another_archive_is_no_trace(tmp_path):
    np.savez(tmp_path / "x.npz", x=np.arange(3))
    with pytest.raises(ValueError, match=r"x\.npz' is not a fa4sim trace"):
        load(tmp_path / "x.npz")


@pytest.mark.parametrize("head", [[], {}, {"schema": 1}, "text"], ids=str)
def test_a_header_that_is_none_is_refused(tmp_path, head):
    path = tmp_path / "x.npz"
    with path.open("wb") as file:
        np.savez(file, header=np.frombuffer(json.dumps(head).encode(), dtype=np.uint8))
    with pytest.raises(ValueError, match=r"x\.npz' is not a fa4sim trace"):
        load(path)


def test_other_files_are_refused(tmp_path):
    np.save(tmp_path / "array.npy", np.zeros(3))
    (tmp_path / "empty").touch()
    good = save(sample(), tmp_path / "good.npz").read_bytes()
    (tmp_path / "damaged").write_bytes(good[:200] + bytes(50) + good[250:])
    for name in ("array.npy", "empty", "damaged"):
        with pytest.raises(ValueError, match=f"{name}' is not a fa4sim trace"):
            load(tmp_path / name)
