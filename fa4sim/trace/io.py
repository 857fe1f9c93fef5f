"""Reading and writing traces: one NumPy archive per trace, written whole or not at all."""

from __future__ import annotations

import json
import os
import zipfile
from pathlib import Path

import numpy as np

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
    try:
        with np.load(Path(path)) as archive:
            head = json.loads(bytes(archive["header"]).decode())
            tables = {name: archive[name] for name in COLUMNS if name in archive}
    except (KeyError, ValueError, zipfile.BadZipFile) as error:
        raise ValueError(f"{os.fspath(path)!r} is not a fa4sim trace: {error}") from None
    if head["schema"] != SCHEMA:
        raise ValueError(
            f"{os.fspath(path)!r} has trace schema {head['schema']}; this fa4sim reads {SCHEMA}"
        )
    trace = Trace(head["clock"], head["meta"])
    for text in head["strings"]:
        trace.code(text)
    for name in COLUMNS:
        rows = np.ascontiguousarray(tables[name], dtype=np.int64)
        if head["columns"][name] != list(COLUMNS[name]):
            raise ValueError(f"{os.fspath(path)!r}: table {name!r} has other columns than ours")
        trace._data[name].frombytes(rows.tobytes())
    return trace
