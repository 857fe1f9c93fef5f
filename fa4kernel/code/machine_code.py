"""Loops of roles in the machine code, as a check on the weights that PTX is counted with.

``ptxas`` makes the machine code, ``nvdisasm`` prints it. Triton brings a ``nvdisasm`` along, and
the official package brings Triton.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fa4kernel.code.ptxas import ToolError
from fa4kernel.official.compile import interpreter

USUAL = "/usr/local/cuda/bin/nvdisasm"
IN_TRITON = "lib/python3*/site-packages/triton/backends/nvidia/bin/nvdisasm"

_LINE = re.compile(r"^\s*(?:(\.L\w+):|/\*[0-9a-f]+\*/\s+([^;]*?)\s*;)")
_BACK = re.compile(r"\bBRA\b.*`\((\.L\w+)\)")


@dataclass(frozen=True)
class MachineLoop:
    """A loop of the machine code.

    Attributes:
        instructions: it has, from its label to the branch back.
        marks: those among them by which it was found.
        spills: loads and stores of local memory among them.
    """

    instructions: int
    marks: int
    spills: int


def find() -> str | None:
    """The path of nvdisasm: in ``NVDISASM``, on the path, in CUDA's usual place or in Triton."""
    named = os.environ.get("NVDISASM")
    if named is not None:
        return shutil.which(named)
    environment = Path(interpreter()).absolute().parents[1]
    in_triton = next((str(path) for path in environment.glob(IN_TRITON)), None)
    return shutil.which("nvdisasm") or shutil.which(USUAL) or in_triton


def disassemble(cubin: Path, nvdisasm: str) -> str:
    """The machine code as text.

    Raises:
        ToolError: the program refuses the file.
    """
    done = subprocess.run([nvdisasm, "-c", str(cubin)], capture_output=True, text=True)
    if done.returncode:
        raise ToolError(f"{nvdisasm}: {done.stderr.strip()[-1000:]}")
    return done.stdout


def loop_with(text: str, opcodes: Sequence[str], count: int) -> MachineLoop | None:
    """The shortest loop that has so many instructions of any of these opcodes or more.

    >>> loop_with(
    ...     '''
    ... .L_x_1:
    ...         /*0010*/  MUFU.EX2 R2, R2 ;
    ...         /*0020*/  @P0 BRA `(.L_x_1) ;
    ...         /*0030*/  EXIT ;''',
    ...     ("MUFU.EX2",),
    ...     1,
    ... )
    MachineLoop(instructions=2, marks=1, spills=0)
    """
    code, labels = _read(text)
    found: MachineLoop | None = None
    for end, instruction in enumerate(code):
        branch = _BACK.search(instruction)
        start = labels.get(branch[1]) if branch else None
        if start is None or start > end:
            continue
        loop = _loop(code[start : end + 1], opcodes)
        shorter = found is None or loop.instructions < found.instructions
        if loop.marks >= count and shorter:
            found = loop
    return found


def _read(text: str) -> tuple[list[str], dict[str, int]]:
    """Instructions, and for each label the index of the one behind it."""
    code: list[str] = []
    labels: dict[str, int] = {}
    for line in text.splitlines():
        match = _LINE.match(line)
        if match is None:
            continue
        if match[1]:
            labels[match[1]] = len(code)
        else:
            code.append(match[2])
    return code, labels


def _loop(code: Sequence[str], wanted: Sequence[str]) -> MachineLoop:
    opcodes = [re.sub(r"^@!?U?P\w+\s+", "", each).split(" ")[0] for each in code]
    spills = sum(each.split(".")[0] in ("STL", "LDL") for each in opcodes)
    dotted = tuple(f"{each}." for each in wanted)
    marks = sum(each in wanted or each.startswith(dotted) for each in opcodes)
    return MachineLoop(len(code), marks, spills)
