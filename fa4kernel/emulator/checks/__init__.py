"""Checks for data races and broken protocols, by what happens before what."""

from fa4kernel.emulator.checks.hazard import KINDS, Hazard, Party, Place

__all__ = ["KINDS", "Hazard", "Party", "Place"]
