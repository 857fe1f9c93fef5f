"""Write the pages of the reference: one for each public package, one for each command."""

from __future__ import annotations

from pathlib import Path

#: Package (documented by its ``__all__``), and what a reader finds there.
PACKAGES = {
    "fa4sim": "Simulate a problem: what most readers need",
    "fa4sim.specs": "Problems, designs, machines",
    "fa4sim.numerics": "The arithmetic, bit by bit",
    "fa4sim.trace": "The record of a run",
    "fa4sim.views": "Pictures and exports",
    "fa4sim.analysis": "Waits, overlap, critical path, bottleneck",
    "fa4sim.schedulers": "Tile schedulers",
    "fa4sim.kvcache": "The memory of a KV cache in pages",
    "fa4sim.validation": "Simulated beside published",
    "fa4kernel": "Attention by our kernels",
    "fa4kernel.emulator": "The PTX emulator",
}
#: Names that the page of a package shows only as a line, since another page describes them.
TOP = "fa4sim"

COMMANDS = {"fa4sim": "fa4sim.cli.main:main", "fa4kernel": "fa4kernel.cli.main:main"}


def write_reference(folder: Path) -> None:
    """Write all pages and their table of contents into ``folder``."""
    folder.mkdir(parents=True)
    entries = []
    for package, about in PACKAGES.items():
        members = ":members:\n:imported-members:\n:exclude-members: set\n"  # set: Matplotlib's
        members += ":no-index:\n" if package == TOP else ""
        text = f"# `{package}`\n\n```{{eval-rst}}\n.. automodule:: {package}\n"
        text += "".join(f"   {line}\n" for line in members.splitlines()) + "```\n"
        _write(folder / f"{package}.md", text)
        entries.append((package, f"`{package}`: {about}"))
    for command, where in COMMANDS.items():
        text = f"# The `{command}` command\n\n```{{eval-rst}}\n.. click:: {where}\n"
        text += f"   :prog: {command}\n   :nested: full\n```\n"
        _write(folder / f"command-{command}.md", text)
        entries.append((f"command-{command}", f"The `{command}` command"))
    listed = "".join(f"{title} <{name}>\n" for name, title in entries)
    _write(
        folder / "index.md",
        "# Reference\n\nFrom the docstrings of the packages and the help of the commands.\n\n"
        f"```{{toctree}}\n:maxdepth: 1\n\n{listed}```\n",
    )


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
