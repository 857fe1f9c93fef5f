"""What a caller calls the parts of a kernel, where its source says something else or nothing.

Barriers go by what the source calls them (see :mod:`names`). A caller who knows better gives labels
with the launch; reports, deadlocks, traces and pictures then use these.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Ring:
    """Slots of shared memory that are filled again and again.

    Attributes:
        name: of the slots: ``sKV`` for ``sKV[0]``, ``sKV[1]``, …
        empty: the barriers that say a slot has been given up, one for each slot and one phase for
            each filling; "" if nothing says so. Barriers ``X.full`` have ``X.empty`` by default.
    """

    name: str
    empty: str = ""


@dataclass(frozen=True)
class Labels:
    """Names of barriers, tensors, slots and columns; whatever isn't given keeps its usual name.

    Attributes:
        barriers: names of mbarriers, by what the source calls all of a ring
            (``"pipeline_kv.full"``), or by offset in shared memory (then with the stage:
            ``"load_KV_full[2]"``).
        named: names of named barriers, by number.
        roles: names of roles, by what the source calls them, or by the number of their first warp.
        tensors: names of tensors, by the number of the kernel parameter that describes them.
        rings: slots of shared memory, by the name (or label) of the barriers that say a slot is
            full.
        products: names of accumulators in tensor memory, by where the first factor lies:
            ``"shared"`` or ``"tensor"``.
        factor: name of first factors in tensor memory.

    >>> labels = Labels(barriers={"pipeline_kv.full": "load_KV_full", 1080: "other[0]"})
    >>> labels.barrier("pipeline_kv.full", 2, 1072), labels.barrier("pipeline_kv.full", 3, 1080)
    (('load_KV_full', 2), ('other', 0))
    """

    barriers: Mapping[str | int, str] = field(default_factory=dict)
    named: Mapping[int, str] = field(default_factory=dict)
    roles: Mapping[str | int, str] = field(default_factory=dict)
    tensors: Mapping[int, str] = field(default_factory=dict)
    rings: Mapping[str, Ring] = field(default_factory=dict)
    products: Mapping[str, str] = field(default_factory=dict)
    factor: str = "A"

    def barrier(self, family: str, stage: int | None, offset: int) -> tuple[str, int | None]:
        """Name and stage of the mbarrier at an offset, which the source calls so."""
        name = self.barriers.get(offset)
        if name is None:
            return self.barriers.get(family, family), stage
        found = re.fullmatch(r"(.+)\[(\d+)\]", name)
        return (name, None) if found is None else (found[1], int(found[2]))

    def role(self, name: str, warps: Sequence[int]) -> str:
        """The name of the role that these warps have, which the source calls so."""
        return self.roles.get(warps[0], self.roles.get(name, name))

    def tensor(self, parameter: int) -> str:
        """The name of a tensor."""
        return self.tensors.get(parameter, f"argument {parameter}")

    def ring(self, family: str) -> Ring:
        """The slots that barriers of this name say to be full.

        >>> PLAIN.ring("pipeline_kv.full")
        Ring(name='pipeline_kv', empty='pipeline_kv.empty')
        """
        if family in self.rings or not family.endswith("full"):
            return self.rings.get(family, Ring(family))
        stem = family.removesuffix("full")
        return Ring(stem.rstrip("._") or "ring", f"{stem}empty")

    def product(self, factor_in_tmem: bool) -> str:
        """The name of what is summed up from first factors in tensor or in shared memory."""
        return self.products.get("tensor" if factor_in_tmem else "shared", "D")


#: Nothing has another name.
PLAIN = Labels()
