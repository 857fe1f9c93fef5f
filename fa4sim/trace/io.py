"""Reading and writing traces: one NumPy archive per trace, written whole or not at all."""

from __future__ import annotations

import json
import os
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fa4sim.trace.trace import COLUMNS, SCHEMA, Trace


def save(trace: Trace, path: str | os.PathLike[str]) -> Path:
    """Write ``trace`` (expanded) to ``path`` as a compressed NumPy archive and return the path.

    The file appears complete or not at all. Raises ``OSError`` if the folder is not writable.
    """
    target = Path(path)
    whole = trace.expand()
    head = {
        "schema": SCHEMA,
        "clock": whole.clock,
        "meta": whole.meta,
        "strings": whole.strings,
        "columns": {name: list(columns) for name, columns in COLUMNS.items()},
    }
    partial = target.with_name(target.name + ".partial")
    try:
        with partial.open("wb") as file:
            tables = {name: whole.table(name).array for name in COLUMNS}
            header = np.frombuffer(json.dumps(head).encode(), dtype=np.uint8)
            np.savez_compressed(file, allow_pickle=False, header=header, **tables)
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
    return target


def load(path: str | os.PathLike[str]) -> Trace:
    """Read a trace that :func:`save` wrote.

    Raises ``ValueError`` if the file is no trace, or of another schema (the error names both).
    """
    name = os.fspath(path)
    if not zipfile.is_zipfile(name):
        Path(path).open("rb").close()  # a missing file is told apart from one of another kind
        raise ValueError(f"{name!r} is not a fa4sim trace: it is no NumPy archive (.npz)")
    try:
        with np.load(Path(path), allow_pickle=False) as archive:
            head = json.loads(bytes(archive["header"]).decode())
            tables = {table: archive[table] for table in COLUMNS if table in archive}
        trace = _trace(name, head, tables)
    except SchemaError:
        raise
    except (KeyError, TypeError, ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        told = f"it lacks {error}" if isinstance(error, KeyError) else str(error)
        raise ValueError(f"{name!r} is not a fa4sim trace: {told}") from None
    return trace


class SchemaError(ValueError):
    """A trace, but one that another version of fa4sim wrote."""


def _trace(name: str, head: dict[str, Any], tables: dict[str, NDArray[np.int64]]) -> Trace:
    """The trace of a file's header and tables."""
    if head["schema"] != SCHEMA:
        raise SchemaError(f"{name!r} has trace schema {head['schema']}; this fa4sim reads {SCHEMA}")
    trace = Trace(head["clock"], head["meta"])
    for text in head["strings"]:
        trace.code(text)
    for table in COLUMNS:
        rows = np.ascontiguousarray(tables[table], dtype=np.int64)
        if head["columns"][table] != list(COLUMNS[table]):
            raise SchemaError(f"{name!r}: table {table!r} has other columns than ours")
        trace._data[table].frombytes(rows.tobytes())
    return trace
