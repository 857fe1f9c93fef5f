"""What the commands read: a PTX text, and a Python file that describes its launch."""

from __future__ import annotations

import contextlib
import importlib.util
import sys
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fa4kernel.emulator import Launch
from fa4kernel.emulator.ptx.module import PtxError
from fa4sim.cli.errors import BadInput

#: The name under which a launch file is imported.
MODULE = "fa4kernel_launch"


def read_ptx(path: str) -> str:
    """The text of a PTX file; the zero bytes that CuTe DSL may leave at its end are dropped.

    Raises:
        BadInput: it cannot be read, or is no text.
    """
    try:
        raw = Path(path).read_bytes()
    except OSError as error:
        missing = isinstance(error, FileNotFoundError)
        why = "there is no such file" if missing else error.strerror or error
        raise BadInput(f"{path!r}: {why}") from None
    try:
        return raw.rstrip(b"\0").decode("utf-8-sig")
    except UnicodeDecodeError:
        raise BadInput(
            f"{path!r} is no text: give PTX, not a cubin (CUTE_DSL_KEEP=ptx keeps it)"
        ) from None


@contextlib.contextmanager
def naming(path: str) -> Iterator[None]:
    """A PTX text that cannot be read is told with its file's name."""
    try:
        yield
    except PtxError as error:
        raise BadInput(f"{path!r}: {error}") from None


@dataclass(frozen=True)
class LaunchFile:
    """A launch, and the function that looks at its outputs, if there is one."""

    path: str
    launch: Launch
    check: Callable[[], object] | None

    @classmethod
    def load(cls, path: str) -> LaunchFile:
        """Import a file and call its ``launch()``. This runs the file's code.

        Raises:
            BadInput: there is no such file, it fails, or it gives no launch.
        """
        module = _imported(path)
        launch = getattr(module, "launch", None)
        if not callable(launch):
            raise BadInput(
                f"{path!r} has no function launch(): `fa4kernel inspect FILE.ptx --template "
                f"{path}` writes one to start from"
            )
        found = _called(path, launch)
        if not isinstance(found, Launch):
            raise BadInput(
                f"{path!r}: launch() gave a {type(found).__name__}, not a fa4kernel.emulator.Launch"
            )
        check = getattr(module, "check", None)
        return cls(path, found, check if callable(check) else None)

    def checked(self) -> str:
        """Call ``check()``: "" if it is content, or what it says is wrong.

        It is content if it returns None or something true, and not if it returns something false
        or raises AssertionError.
        """
        assert self.check is not None
        check = self.check
        try:
            verdict = _called(self.path, lambda: _verdict(check))
        except Complaint as complaint:
            return str(complaint) or "an assertion failed"
        return str(verdict)


def _verdict(check: Callable[[], object]) -> str:
    """What a check returned that says no; "" if it did not."""
    verdict = check()
    return "" if verdict is None or bool(verdict) else f"check() returned {verdict!r}"


class Complaint(Exception):
    """An assertion of a launch file's ``check``."""


def _imported(path: str) -> Any:
    file = Path(path)
    if not file.is_file():
        raise BadInput(f"{path!r}: there is no such file")
    spec = importlib.util.spec_from_file_location(MODULE, file)
    if spec is None or spec.loader is None:
        raise BadInput(f"{path!r} is no Python file: its name must end in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[MODULE] = module  # dataclasses and pickling look their module up
    folder = str(file.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)  # so that it finds its neighbours, as a script would
    _called(path, lambda: spec.loader.exec_module(module))  # type: ignore[union-attr]
    return module


def _called(path: str, function: Callable[[], object]) -> object:
    """Call something of a launch file; what it raises is told with the line in that file.

    What it prints goes to standard error: standard output may be a JSON object.
    """
    try:
        with contextlib.redirect_stdout(sys.stderr):
            return function()
    except AssertionError as error:
        raise Complaint(f"{_place(path, error)}{str(error) or 'an assertion failed'}") from None
    except (Exception, SystemExit) as error:
        raise BadInput(f"{_place(path, error)}{type(error).__name__}: {error}") from None


def _place(path: str, error: BaseException) -> str:
    file = str(Path(path).resolve())
    if isinstance(error, SyntaxError) and error.lineno is not None:
        return f"{path}:{error.lineno}: "
    frames = traceback.extract_tb(error.__traceback__)
    lines = [f.lineno for f in frames if str(Path(f.filename).resolve()) == file]
    return f"{path}:{lines[-1]}: " if lines else f"{path}: "
