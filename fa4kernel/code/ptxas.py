"""What NVIDIA's assembler says of a PTX text: registers, spills, stack."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

#: Where CUDA's own installer puts it.
USUAL = "/usr/local/cuda/bin/ptxas"
ABSENT = (
    "ptxas was not found, so registers and spills are not known here: install a CUDA toolkit "
    "(12.8 or newer knows sm_100a), or name the program by the environment variable PTXAS"
)


class ToolError(RuntimeError):
    """A program of NVIDIA's refused what it was given; the message is its own."""


@dataclass(frozen=True)
class Assembly:
    """What ``ptxas -v`` says.

    Attributes:
        registers: of a thread at launch.
        spill_stores, spill_loads: bytes of a thread that go to local memory, and come from there.
        stack: bytes of a thread's stack frame.
        static_shared: bytes of shared memory that the text itself declares.
    """

    registers: int
    spill_stores: int
    spill_loads: int
    stack: int
    static_shared: int

    @property
    def spills(self) -> bool:
        """Whether a register is spilled."""
        return self.spill_stores + self.spill_loads > 0


def find() -> str | None:
    """The path of ptxas: that in ``PTXAS``, on the path, or in CUDA's usual place; else None."""
    named = os.environ.get("PTXAS")
    if named is not None:
        return shutil.which(named)
    return shutil.which("ptxas") or shutil.which(USUAL)


def version(ptxas: str) -> str:
    """Its version, as ``13.0.88``.

    Raises:
        ToolError: the program does not say.
    """
    try:
        done = subprocess.run([ptxas, "--version"], capture_output=True, text=True)
    except OSError as error:
        raise ToolError(f"{ptxas} does not run: {error}") from None
    found = re.search(r"\bV(\d+(?:\.\d+)+)", done.stdout)
    if found is None:
        raise ToolError(f"{ptxas} --version says no version: {done.stdout or done.stderr!r}")
    return found[1]


def assemble(ptx: str, ptxas: str, keep: Path | None = None) -> Assembly:
    """Assemble a text with one kernel for the architecture that it names.

    Args:
        ptx: the text.
        ptxas: the program.
        keep: where to leave the machine code; by default it is thrown away.

    Raises:
        ToolError: the program refuses the text (as one of a newer PTX than it knows).
    """
    target = re.search(r"^\s*\.target\s+(\w+)", ptx, re.MULTILINE)
    if target is None:
        raise ToolError("the text has no .target, so no architecture to assemble it for")
    with tempfile.TemporaryDirectory(prefix="fa4sim-") as folder:
        source = Path(folder, "kernel.ptx")
        source.write_text(ptx)
        output = keep or Path(folder, "kernel.cubin")
        done = subprocess.run(
            [ptxas, f"-arch={target[1]}", "-v", str(source), "-o", str(output)],
            capture_output=True,
            text=True,
        )
    if done.returncode:
        raise ToolError(f"{ptxas}: {done.stderr.strip()[-1000:]}")
    return read(done.stderr)


def read(said: str) -> Assembly:
    """The numbers out of what ``ptxas -v`` prints.

    Raises:
        ToolError: they are not there.

    >>> read('''
    ...     8 bytes stack frame, 4 bytes spill stores, 12 bytes spill loads
    ... ptxas info    : Used 128 registers, used 16 barriers, 40 bytes smem''')
    Assembly(registers=128, spill_stores=4, spill_loads=12, stack=8, static_shared=40)
    """
    frame = re.search(
        r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", said
    )
    registers = re.search(r"Used (\d+) registers", said)
    if frame is None or registers is None:
        raise ToolError(f"ptxas -v did not say what was expected: {said.strip()[-500:]!r}")
    stack, stores, loads = map(int, frame.groups())
    shared = re.search(r"(\d+) bytes smem", said)
    return Assembly(int(registers[1]), stores, loads, stack, int(shared[1]) if shared else 0)
