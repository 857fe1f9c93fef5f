"""What people call the parts of a kernel: its barriers, its roles, its lines.

Names come from the source as far as PTX names it (`.loc`; with CuTe DSL set CUTE_DSL_LINEINFO=1)
and it can be read here. Without it a barrier goes by its offset in shared memory, and a role by the
numbers of its warps. A launch's labels go before all of these.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

from fa4kernel.emulator.errors import source_line
from fa4kernel.emulator.inspection.barriers import Barrier, mbarriers, named_barriers
from fa4kernel.emulator.inspection.roles import Role, roles_of, warps_words
from fa4kernel.emulator.inspection.sites import Sites, home_of, locations
from fa4kernel.emulator.inspection.sources import Sources
from fa4kernel.emulator.labels import PLAIN, Labels
from fa4kernel.emulator.machine.layout import AddressOf
from fa4kernel.emulator.ptx.module import Function, Instruction, Location


class Names:
    """The names in one kernel; each part is worked out when it is first asked for.

    Args:
        function: the kernel.
        address_of: where its shared variables lie.
        block: threads of a CTA in x, y, z.
        labels: of the launch.

    >>> from fa4kernel.emulator.ptx import parse
    >>> kernel = '''.version 8.8
    ... .target sm_100a
    ... .address_size 64
    ... .visible .entry kernel() { .shared .align 8 .b64 done;
    ... mbarrier.init.shared.b64 [done], 1; ret; }'''
    >>> module = parse(kernel)
    >>> function = module.entry()
    >>> names = Names(function, AddressOf.lay_out(module, function, 0), (64, 1, 1))
    >>> names.mbarrier(1024), names.role(1)
    ('mbarrier@0x400', 'warps 0-1')
    """

    def __init__(
        self, function: Function, address_of: AddressOf, block: tuple[int, int, int],
        labels: Labels = PLAIN,
    ) -> None:  # fmt: skip
        self.function = function
        self.block = block
        self.labels = labels
        self._address_of = address_of
        self.sources = Sources()

    @cached_property
    def sites(self) -> Sites:
        """The instructions that touch barriers."""
        return Sites.of(self.function, self._address_of)

    @cached_property
    def mbarriers(self) -> dict[int, Barrier]:
        """The mbarriers, by offset in shared memory."""
        found = mbarriers(self.sites.mbarriers, self.sources)
        for offset, each in found.items():
            family, stage = self.labels.barrier(each.family, each.stage, offset)
            found[offset] = replace(each, family=family, stage=stage)
        return found

    @cached_property
    def named_barriers(self) -> dict[int, Barrier]:
        """The named barriers, by number."""
        found = named_barriers(self.sites.named, self.sources)
        for number, name in self.labels.named.items():
            if number in found:
                found[number] = replace(found[number], family=name, stage=None)
        return found

    @cached_property
    def roles(self) -> list[Role]:
        """The roles, by first warp."""
        found = roles_of(self.function, self.block, self.sources)
        return [replace(each, name=self.labels.role(each.name, each.warps)) for each in found]

    @cached_property
    def home(self) -> tuple[str, str]:
        """The kernel's source file, and the name of its function in there; "" if not known."""
        return home_of(self.function, self.sources)

    @cached_property
    def _role_of(self) -> dict[int, Role]:
        return {warp: role for role in self.roles for warp in role.warps}

    @cached_property
    def _located(self) -> dict[int, Location | None]:
        places = locations(self.function)
        return {id(i): place for i, place in zip(self.function.instructions, places, strict=True)}

    def mbarrier(self, offset: int) -> str:
        """The name of the mbarrier at an offset in shared memory, with its stage."""
        found = self.mbarriers.get(offset)
        return f"mbarrier@{offset:#x}" if found is None else found.name

    def mbarrier_parts(self, offset: int) -> tuple[str, int]:
        """The name of a mbarrier's family, and its stage; 0 for one that is alone."""
        found = self.mbarriers.get(offset)
        if found is None:
            return f"mbarrier@{offset:#x}", 0
        return found.family, found.stage or 0

    def named_barrier(self, number: int) -> str:
        """The name of a named barrier, its number included."""
        found = self.named_barriers.get(number)
        plain = f"named barrier {number}"
        return plain if found is None or found.name == plain else f"{found.name} ({plain})"

    def role(self, warp: int) -> str:
        """The name of a warp's role."""
        found = self._role_of.get(warp)
        return f"warp {warp}" if found is None else found.name

    def role_and_warps(self, warps: list[int]) -> str:
        """Warps of one role in words: ``softmax0 (warps 0-3)``."""
        role, numbers = self.role(warps[0]), warps_words(warps)
        return role if numbers in role or role == numbers else f"{role} ({numbers})"

    def location(self, instruction: Instruction) -> Location | None:
        """Where an instruction, or else the last one before it that tells, is in the source."""
        return self._located.get(id(instruction), instruction.location)

    def source(self, instruction: Instruction) -> str:
        """File and line, and the text that stands there if it can be read; "" if unknown.

        Of an instruction that has no line of its own it says near which line it is.
        """
        place = self.location(instruction)
        if place is None:
            return ""
        if place is not instruction.location:
            return f"near {source_line(place)}"
        text = self.sources.line(place)
        return f"{source_line(place)}: {text}" if text else source_line(place)

    def function_of(self, instruction: Instruction) -> str:
        """The source function that an instruction stands in, or ""."""
        return self.sources.function(self.location(instruction))
