"""What one run needs, put together from settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fa4sim.specs.fields import Settings
from fa4sim.specs.hopper import AnyDesign, design_for
from fa4sim.specs.machine import Machine
from fa4sim.specs.problem import Problem

#: Fields of a problem that lengths by sequence determine.
BY_SEQUENCE = ("batch", "seqlen_q", "seqlen_k")


@dataclass(frozen=True)
class Setup:
    """What is run: a problem, a design and a machine."""

    problem: Problem
    design: AnyDesign
    machine: Machine

    @classmethod
    def of(
        cls, machine: Machine, settings: Settings, defaults: Mapping[str, Any] | None = None
    ) -> Setup:
        """The design the kernel would choose, with settings changed.

        Args:
            machine: on what, before ``settings.machine``.
            settings: fields of the problem, of the design, constants of the machine.
            defaults: fields of the problem for those that ``settings`` leaves open; lengths by
                sequence take the place of ``batch``, ``seqlen_q`` and ``seqlen_k``.

        Raises ``ValueError`` with the message of whoever refuses.
        """
        values = dict(settings.problem)
        by_sequence = any(values.get(name) is not None for name in ("seqlens_q", "seqlens_k"))
        for name, value in (defaults or {}).items():
            if not (by_sequence and name in BY_SEQUENCE):
                values.setdefault(name, value)
        if settings.machine:
            machine = machine.with_constants(**settings.machine)
        problem = Problem(**values)
        return cls(problem, design_for(problem, machine, **settings.design), machine)
