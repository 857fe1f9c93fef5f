"""Every notebook runs from start to end without the network, and is stored without outputs."""

import time
from importlib.util import find_spec
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

FOLDER = Path(__file__).resolve().parent.parent / "notebooks"
NOTEBOOKS = sorted(
    path for path in FOLDER.rglob("*.ipynb") if ".ipynb_checkpoints" not in path.parts
)
FIRST_RESULT_SECONDS = 60

NO_NETWORK = """
import socket

def _refuse(host, *args, **kwargs):
    raise OSError(f"a notebook must not use the network (asked for {host!r})")

def _connect(self, address, _connect=socket.socket.connect):
    local = isinstance(address, (str, bytes)) or address[0] in {"127.0.0.1", "::1", "localhost"}
    return _connect(self, address) if local else _refuse(address)

socket.socket.connect = _connect
socket.getaddrinfo = _refuse
del _connect
"""


def name(path: Path) -> str:
    return path.relative_to(FOLDER).with_suffix("").as_posix()


def run(notebook, folder: Path) -> float:
    """Execute all cells without the network; return the seconds until the first output."""
    started = time.monotonic()
    first_result = []

    def note_result(cell, cell_index, execute_reply):
        if cell.get("outputs") and not first_result:
            first_result.append(time.monotonic() - started)

    notebook.cells.insert(0, nbformat.v4.new_code_cell(NO_NETWORK))
    client = NotebookClient(
        notebook,
        timeout=300,
        kernel_name="python3",
        resources={"metadata": {"path": str(folder)}},
        on_cell_executed=note_result,
    )
    client.execute()
    assert first_result, "the notebook shows nothing"
    return first_result[0]


@pytest.mark.notebook
@pytest.mark.timeout(900)
@pytest.mark.parametrize("path", NOTEBOOKS, ids=name)
def test_runs_and_shows_something_within_a_minute(path):
    notebook = nbformat.read(path, as_version=4)
    if find_spec("cutlass") is None and "KERNEL_EXTRA" in str(notebook):
        pytest.skip("compiles a kernel: needs pip install 'fa4sim[kernel]'")
    seconds = run(notebook, path.parent)
    assert seconds <= FIRST_RESULT_SECONDS


@pytest.mark.parametrize("path", NOTEBOOKS, ids=name)
def test_is_stored_without_outputs(path):
    notebook = nbformat.read(path, as_version=4)
    kept = [i for i, cell in enumerate(notebook.cells) if cell.get("outputs")]
    counted = [i for i, cell in enumerate(notebook.cells) if cell.get("execution_count")]
    assert not kept, f"cells {kept} hold outputs; clear them before committing"
    assert not counted, f"cells {counted} hold execution counts; clear them before committing"


@pytest.mark.notebook
@pytest.mark.parametrize(
    "source, complaint",
    [
        ("1 / 0", "ZeroDivisionError"),
        ("import urllib.request as u; u.urlopen('http://example.org')", "must not use the network"),
        ("x = 1", "shows nothing"),
    ],
)
def test_a_bad_notebook_is_noticed(source, complaint, tmp_path):
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)])
    with pytest.raises(Exception, match=complaint):
        run(notebook, tmp_path)
