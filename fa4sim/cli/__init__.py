"""The ``fa4sim`` command."""

from fa4sim.cli.main import main

__all__ = ["main"]
