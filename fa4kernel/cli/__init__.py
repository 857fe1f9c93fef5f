"""The ``fa4kernel`` command."""

from fa4kernel.cli.main import main

__all__ = ["main"]
