"""Checks for data races and broken protocols, by what happens before what.

A :class:`~fa4kernel.emulator.checks.monitor.Monitor` is told by the machine what happens. It keeps

- for each warp a clock, what it knows to have happened (``clocks``), handed on at mbarriers
  (``barriers``), at named and cluster barriers (``rendezvous``), by copies (``copies``, ``series``)
  and commits (``tensor``), by flags (``flags``) and fences (``fences``);
- for each piece of shared and tensor memory the last write and the reads since (``shadow``,
  ``records``).

An access that meets one its party does not know of is a race (``accesses``), in whatever order the
two came in this run. So one schedule finds what many would have to be lucky to show.
"""

from fa4kernel.emulator.checks.hazard import KINDS, Hazard, Party, Place

__all__ = ["KINDS", "Hazard", "Party", "Place"]
