"""What commands print and write: JSON, tables, progress, and files written whole or not at all."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click

from fa4sim.cli.errors import BadInput
from fa4sim.files import json_text as json_text
from fa4sim.files import plain as plain
from fa4sim.files import write_whole as write_whole
from fa4sim.specs.checks import quoted

T = TypeVar("T")


def print_json(facts: Mapping[str, Any]) -> None:
    """Print one JSON object on standard output."""
    click.echo(json_text(facts))


def say(text: str = "") -> None:
    """Print text for people on standard output."""
    click.echo(text)


def note(text: str) -> None:
    """Print a remark on standard error."""
    click.echo(text, err=True)


def table(head: Sequence[str], rows: Iterable[Sequence[str]], left: Sequence[str] = ()) -> str:
    """Lay out a table of text; columns named in ``left`` are aligned left, the others right.

    >>> print(table(["unit", "busy"], [["tensor", "74 %"], ["mufu", "9 %"]], left=["unit"]))
    unit    busy
    tensor  74 %
    mufu     9 %
    """
    lines = [list(head), *(list(row) for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if name in left else cell.rjust(width)
            for cell, width, name in zip(line, widths, head, strict=True)
        ).rstrip()
        for line in lines
    )


def shows_progress() -> bool:
    """Whether somebody watches: standard error is a terminal."""
    return sys.stderr.isatty()


@contextmanager
def progress(items: Sequence[T], label: str) -> Iterator[Iterable[T]]:
    """``items`` under a progress bar on standard error, if that is a terminal."""
    if not shows_progress():
        yield items
        return
    with click.progressbar(items, label=label, file=sys.stderr) as bar:
        yield bar


class Steps:
    """A progress bar that is told how far things are: ``steps(done, total)``."""

    def __init__(self, label: str) -> None:
        self.label = label
        self.bar: Any = None

    def __call__(self, done: int, total: int, *_: object) -> None:
        """Show that ``done`` of ``total`` are done."""
        if not shows_progress():
            return
        if self.bar is None:
            self.bar = click.progressbar(length=total, label=self.label, file=sys.stderr)
            self.bar.__enter__()
        self.bar.update(max(0, done - self.bar.pos))

    def __enter__(self) -> Steps:
        return self

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.__exit__(None, None, None)


def check_target(path: str, endings: Sequence[str]) -> Path:
    """``path`` as a file that can be written, by its ending.

    Raises a usage failure before any work is done: another ending, a folder that does not exist,
    a folder of that name.
    """
    target = Path(path)
    if target.suffix.lower() not in endings:
        raise BadInput(
            f"cannot tell what to write from {path!r}: its name must end in {one_of(endings)}"
        )
    try:
        if target.is_dir():
            raise BadInput(f"{path!r} is a folder; give a file name")
    except OSError as error:  # as a name too long for the file system
        raise BadInput(
            f"cannot write {quoted(path)}: {error.strerror}; give another name"
        ) from None
    if not target.parent.is_dir():
        raise BadInput(f"the folder of {path!r} does not exist; make it first: {target.parent}")
    if not os.access(target.parent, os.W_OK):
        raise BadInput(f"the folder of {path!r} cannot be written: {target.parent}")
    return target


def one_of(words: Sequence[str]) -> str:
    """``".png, .svg or .pftrace"``."""
    return f"{', '.join(words[:-1])} or {words[-1]}" if len(words) > 1 else words[0]
