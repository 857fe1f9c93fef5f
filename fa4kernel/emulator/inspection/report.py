"""All that the text of a module tells about its kernels, gathered."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property

from fa4kernel.emulator.inspection.addresses import Addresses
from fa4kernel.emulator.inspection.barriers import Barrier
from fa4kernel.emulator.inspection.known import Shared
from fa4kernel.emulator.inspection.parameters import ParameterUse, parameters_of
from fa4kernel.emulator.inspection.roles import Role
from fa4kernel.emulator.inspection.survey import Refused, refused
from fa4kernel.emulator.labels import PLAIN, Labels
from fa4kernel.emulator.machine.layout import SHARED_START, AddressOf
from fa4kernel.emulator.machine.operand_checks import check_operands
from fa4kernel.emulator.names import Names
from fa4kernel.emulator.ptx import parse
from fa4kernel.emulator.ptx.module import (
    Address,
    Function,
    Immediate,
    Instruction,
    Module,
    Operand,
    Variable,
)

#: Threads of a CTA that are assumed where the text doesn't say.
BLOCK = (128, 1, 1)
#: Opcodes that are told apart by what follows: by how many qualifiers.
FAMILIES = {"tcgen05": 1, "wgmma": 1, "mbarrier": 1, "cp": 3, "fence": 2, "bar": 1, "barrier": 2,
            "ld": 1, "st": 1, "atom": 2, "red": 2}  # fmt: skip


@dataclass(frozen=True)
class Kernel:
    """One entry of a module; each part is worked out when it is first asked for."""

    module: Module
    function: Function
    labels: Labels = PLAIN

    @property
    def name(self) -> str:
        """The entry's name."""
        return self.function.name

    @cached_property
    def address_of(self) -> AddressOf:
        """Where its variables lie."""
        return AddressOf.lay_out(self.module, self.function, 0)

    @property
    def block(self) -> tuple[int, int, int]:
        """Threads of a CTA: those the text asks for, or :data:`BLOCK`."""
        said = self.function.directives.get("reqntid") or self.function.directives.get("maxntid")
        x, y, z = (*(said or BLOCK), 1, 1)[:3]
        return x, y, z

    @property
    def block_is_known(self) -> bool:
        """Whether the text says how many threads a CTA has."""
        return "reqntid" in self.function.directives

    @property
    def cluster(self) -> tuple[int, int, int] | None:
        """CTAs of a cluster, if the text says so."""
        said = self.function.directives.get("reqnctapercluster")
        if not said:
            return None
        x, y, z = (*said, 1, 1)[:3]
        return x, y, z

    @cached_property
    def names(self) -> Names:
        """Names of barriers and roles."""
        return Names(self.function, self.address_of, self.block, self.labels)

    @cached_property
    def parameters(self) -> list[ParameterUse]:
        """Its parameters and what they seem to be."""
        return parameters_of(self.function, self.address_of)

    @property
    def mbarriers(self) -> list[Barrier]:
        """Its mbarriers, by offset."""
        return list(self.names.mbarriers.values())

    @property
    def named_barriers(self) -> list[Barrier]:
        """Its named barriers, by number."""
        return list(self.names.named_barriers.values())

    @property
    def roles(self) -> list[Role]:
        """Its roles, by first warp."""
        return self.names.roles

    @cached_property
    def shared(self) -> list[Variable]:
        """Shared variables; the dynamic array has no size."""
        variables = (*self.module.variables, *self.function.variables)
        return [v for v in variables if v.space == "shared"]

    @cached_property
    def dynamic_bytes(self) -> int:
        """Bytes of dynamic shared memory that are surely used: a lower bound."""
        dynamic = [self.address_of.shared[v.name] for v in self.shared if v.size is None]
        if not dynamic:
            return 0
        operands = [o for i in self.function.instructions for o in _shared_operands(i)]
        known = Addresses(self.function, self.address_of, operands)
        places = [known.of(operand) for operand in operands]
        highest = max((p.base for p in places if p.origin == Shared()), default=SHARED_START)
        return max(0, highest + 8 - min(dynamic))

    @cached_property
    def tmem_columns(self) -> list[int]:
        """Columns of each allocation of tensor memory, 0 where that is not known."""
        allocs = [
            i for i in self.function.instructions
            if i.opcode == "tcgen05" and i.qualifiers[0] == "alloc"
        ]  # fmt: skip
        known = Addresses(self.function, self.address_of, [i.operands[1] for i in allocs])
        counts = [known.of(i.operands[1]) for i in allocs]
        return [count.base if count.exact else 0 for count in counts]

    @cached_property
    def mix(self) -> dict[str, int]:
        """How often each kind of instruction stands in the text, the most frequent first."""
        return dict(Counter(family(i) for i in self.function.instructions).most_common())

    def registers_of(self, role: Role) -> list[int]:
        """Registers a thread that a role asks for (``setmaxnreg``), in the order of the text."""
        asked = []
        for index in sorted(role.code):
            instruction = self.function.instructions[index]
            if instruction.opcode == "setmaxnreg":
                operand = instruction.operands[0]
                if isinstance(operand, Immediate) and operand.value not in asked:
                    asked.append(operand.value)
        return asked

    @cached_property
    def refused(self) -> list[Refused]:
        """The instructions that the emulator does not execute: all of them, in order."""
        return refused(self.module, self.function)


def family(instruction: Instruction) -> str:
    """What an instruction is counted as.

    >>> family(Instruction("tcgen05", ("mma", "cta_group::1", "kind::f16"), ()))
    'tcgen05.mma'
    """
    count = FAMILIES.get(instruction.opcode, 0)
    words = [q for q in instruction.qualifiers if "::" not in q or instruction.opcode == "tcgen05"]
    return ".".join((instruction.opcode, *words[:count]))


def inspect(ptx: str | Module, labels: Labels = PLAIN) -> list[Kernel]:
    """The kernels of a module; `labels` are those of a launch, for barriers and roles.

    Raises:
        PtxError: the text cannot be read, or has no entry.

    >>> kernel = '''.version 8.8
    ... .target sm_100a
    ... .address_size 64
    ... .visible .entry twice(.param .u64 twice_x) .reqntid 32, 1, 1 { .reg .b64 %rd<2>;
    ... .reg .b32 %r<3>; ld.param.u64 %rd1, [twice_x]; ld.global.u32 %r1, [%rd1];
    ... shl.b32 %r2, %r1, 1; st.global.u32 [%rd1], %r2; ret; }'''
    >>> (twice,) = inspect(kernel)
    >>> twice.block, twice.parameters[0].words, twice.refused
    ((32, 1, 1), 'pointer', [])
    """
    module = parse(ptx) if isinstance(ptx, str) else ptx
    entries = [function for function in module.functions if function.is_entry]
    if not entries:
        module.entry()
    for function in entries:
        check_operands(function)
    return [Kernel(module, function, labels) for function in entries]


def _shared_operands(instruction: Instruction) -> list[Operand]:
    if any(q.startswith("shared") for q in instruction.qualifiers):
        return [o for o in instruction.operands if isinstance(o, Address)]
    return []
