"""What ``--set`` can name, with usage failures: see :mod:`fa4sim.specs.fields`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from fa4sim.cli.errors import BadInput, refusals
from fa4sim.specs.fields import Settings


def settings_of(values: Mapping[str, object]) -> Settings:
    """``values`` sorted by what they change. Raises a usage failure quoting one that is wrong."""
    refuse_faults(values)
    with refusals():
        return Settings.of(values)


def refuse_faults(names: Iterable[str]) -> None:
    """Raise a usage failure if ``faults`` is among the names: an option of its own has them."""
    if "faults" in names:
        raise BadInput("faults are put in with --break KIND:BARRIER[:STAGE[:ROLE]], not --set")
