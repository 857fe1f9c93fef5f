"""The command's entry point and what its subcommands share."""

from __future__ import annotations

import click

import fa4sim


@click.group()
@click.version_option(fa4sim.__version__, prog_name="fa4sim")
def main() -> None:
    """Simulate FlashAttention-4's forward pass on NVIDIA Blackwell, barrier by barrier."""
