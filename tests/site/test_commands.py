"""Every command that the pages show is one that the command line takes."""

import re
import shlex
from pathlib import Path

import click
import pytest

from fa4kernel.cli.main import main as fa4kernel
from fa4sim.cli.main import main as fa4sim

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
COMMANDS = {"fa4sim": fa4sim, "fa4kernel": fa4kernel}


def shown(page: Path) -> list[str]:
    """Commands on a page: whole lines of shell blocks, and code in running text."""
    text = page.read_text(encoding="utf-8")
    blocks = re.findall(r"```(?:sh|console|bash)\n(.*?)```", text, re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    lines += re.findall(r"`((?:fa4sim|fa4kernel) [^`\n]+)`", prose)
    commands = [line.split("  #")[0].split(" | ")[0].strip() for line in lines]
    return [each for each in commands if each.split(" ")[0] in COMMANDS and "…" not in each]


ALL = sorted({(page.name, command) for page in PAGES for command in shown(page)})


def test_there_are_some():
    assert len(ALL) > 30


@pytest.mark.parametrize("page, command", ALL, ids=lambda each: str(each)[:60])
def test_is_taken(page, command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("kernel.ptx", "my_kernel.ptx", "launch.py", "lengths.json", "lengths.csv"):
        Path(name).write_text("")
    Path("kernels").mkdir()
    program, *words = shlex.split(command)
    group = COMMANDS[program]
    assert isinstance(group, click.Group)
    if words[0] in ("-h", "--help"):
        return
    subcommand = group.commands.get(words[0])
    assert subcommand is not None, f"{program} has no command {words[0]!r}"
    if words[1:] not in ([], ["--help"]):  # alone it is the name of the command
        subcommand.make_context(words[0], words[1:])  # raises for what it doesn't take
