"""How the Hopper kernel does it: consumers, tiles, rings, turns; and which design a machine needs.

On Hopper each warpgroup multiplies for itself and keeps its accumulators in registers, so little of
:class:`~fa4sim.specs.design.Design` applies: no Q stages that share an MMA warp, no tensor memory,
no correction role, no CTA pairs. Hence a type of its own, with the same verbs.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from fa4sim.specs.checks import flag, multiple_of, one_of, quoted, whole_between
from fa4sim.specs.design import Design
from fa4sim.specs.faults import Fault
from fa4sim.specs.limits import LEAST_REGISTERS, MOST_REGISTERS, check_size, checked_faults
from fa4sim.specs.machine import Machine
from fa4sim.specs.problem import FP8, Problem

#: Rows of Q of one consumer warpgroup: what one wgmma multiplies.
ROWS = 64
WARPGROUP = 128

#: Shared memory for barriers, and the pattern of the widest swizzle: tiles begin at multiples.
SMALL_BYTES = 1024

#: Registers of a consumer thread that hold no scores, weights or outputs: addresses, statistics,
#: loop counters. An estimate, only used to refuse what must spill.
OTHER_REGISTERS = 16

HOPPER_SCHEDULERS = ("single_tile", "static_persistent", "lpt")


@dataclass(frozen=True)
class HopperDesign:
    """One way to run a problem on a Hopper GPU; all sizes per CTA.

    ``consumers`` warpgroups multiply 64 rows of Q each with every block of ``tile_n`` keys, which
    one load warp brings into two rings, for K and for V, of ``kv_stages`` slots. With ``overlap``
    the products of the next block and of this one are under way together, and the softmax of the
    next block computes beside O += P V of this one. With ``ping_pong`` the consumers pass a turn
    around, so that one computes its softmax while another's products run. ``o_waited_early`` is the
    order in which the compiler arranges a step: with ``overlap`` O += P V is waited for before the
    exponentials, which then mix with the rescaling of O and the rounding of P; without it the
    softmax computes beside O += P V all the same, and the turn is passed in the middle of it. Off,
    the source's order holds.

    Without ``specialised`` there is no load warp: a plain FlashAttention-2 on the same hardware,
    for comparison. All warpgroups meet around every block, one thread of theirs asks for the next
    tile, every product is waited for; ``overlap`` and ``ping_pong`` must then be off, and K and V
    have one slot each.

    Raises ``ValueError`` for a value that no kernel could have, quoting it.

    >>> HopperDesign(consumers=4)
    Traceback (most recent call last):
    ...
    ValueError: consumers=4 must be 1 to 3: with four 64-row consumers a thread has 128 registers
    """

    consumers: int = 2
    tile_n: int = 128
    kv_stages: int = 2
    overlap: bool = True
    ping_pong: bool = True
    specialised: bool = True
    o_waited_early: bool = True
    head_dim_padded: int = 128
    head_dim_v_padded: int = 128
    scheduler: str = "static_persistent"
    registers_consumer: int = 240
    registers_load: int = 24
    faults: tuple[Fault, ...] = ()

    # What the code for all designs asks for, and is the same on every Hopper kernel here.
    cta_group = 1
    pack_gqa = False
    tile_m = ROWS
    rescale_threshold = 0.0
    num_splits = 1
    is_dynamic = False
    dependent_launch = False

    def __post_init__(self) -> None:
        def keep(name: str, value: object) -> None:
            object.__setattr__(self, name, value)

        why = "with four 64-row consumers a thread has 128 registers"
        keep("consumers", whole_between("consumers", self.consumers, 1, 3, why))
        keep("tile_n", multiple_of(16, "tile_n", self.tile_n, 16, 256, "one k-step of P V"))
        keep("kv_stages", whole_between("kv_stages", self.kv_stages, 1, 16))
        for name in ("overlap", "ping_pong", "specialised", "o_waited_early"):
            keep(name, flag(name, getattr(self, name)))
        for name in ("head_dim_padded", "head_dim_v_padded"):
            keep(name, multiple_of(16, name, getattr(self, name), 16, 256, "one k-step of wgmma"))
        keep("scheduler", one_of("scheduler", self.scheduler, HOPPER_SCHEDULERS))
        for name in ("registers_consumer", "registers_load"):
            value = getattr(self, name)
            keep(name, multiple_of(8, name, value, LEAST_REGISTERS, MOST_REGISTERS))
        keep("faults", checked_faults(self.faults))
        if self.specialised and self.overlap and self.kv_stages < 2:
            raise ValueError(
                f"kv_stages={self.kv_stages} must be 2 or more with overlap: K of the next block "
                "is read while V of this one is; use 2 or overlap=False"
            )
        if self.ping_pong and self.consumers == 1:
            raise ValueError("ping_pong=True needs 2 or 3 consumers to take turns, not 1")
        if not self.specialised and (self.overlap or self.ping_pong or self.kv_stages > 1):
            raise ValueError(
                "without a load warp (specialised=False) every product is waited for and K and V "
                "have one slot each; use overlap=False, ping_pong=False and kv_stages=1"
            )

    # -- the choice for a problem --------------------------------------------------------------

    @classmethod
    def for_problem(cls, problem: Problem, machine: Machine, **changes: Any) -> HopperDesign:
        """The design for ``problem`` on ``machine``, then ``changes``.

        Up to head dim 64 three consumers fit, beyond two. A mask that depends on the row runs
        longest tile first, everything else persistently. Raises ``ValueError`` for an unknown
        field, a value no design can have or a design that does not fit the machine.
        """
        _check_kinds(problem, machine)
        changes = _known(changes)
        d = changes.get("head_dim_padded", -(-problem.head_dim // 16) * 16)
        dv = changes.get("head_dim_v_padded", -(-problem.dim_v // 16) * 16)
        specialised = changes.get("specialised", True)
        consumers = changes.get("consumers", 3 if max(d, dv) <= 64 else 2)
        masked = problem.causal or problem.is_local
        values: dict[str, Any] = {
            "consumers": consumers,
            "kv_stages": 2 if specialised else 1,
            "overlap": specialised,
            "ping_pong": specialised and consumers != 1,
            "head_dim_padded": d,
            "head_dim_v_padded": dv,
            "scheduler": "lpt" if masked else "static_persistent",
            "registers_consumer": 160 if consumers == 3 else 240,
            "registers_load": 32 if consumers == 3 else 24,
        }
        design = cls(**(values | changes))
        design.check(problem, machine)
        return design

    def replace(self, problem: Problem, machine: Machine, **changes: Any) -> HopperDesign:
        """A what-if of this design, checked; nothing else follows from a change.

        Raises ``ValueError`` as :meth:`for_problem`.
        """
        design = dataclasses.replace(self, **_known(changes))
        design.check(problem, machine)
        return design

    # -- what it needs -------------------------------------------------------------------------

    @property
    def q_stages(self) -> int:
        """Tiles of ``tile_m`` rows that share K and V: one of each consumer."""
        return self.consumers

    @property
    def kv_load(self) -> str:
        """How K and V come: always by TMA."""
        return "tma"

    @property
    def work_rows(self) -> int:
        """Query rows of one CTA's work tile."""
        return ROWS * self.consumers

    @property
    def threads(self) -> int:
        """Threads of a CTA."""
        return WARPGROUP * (self.consumers + (1 if self.specialised else 0))

    def q_tile_bytes(self, problem: Problem) -> int:
        """Bytes of one consumer's Q."""
        return ROWS * self.head_dim_padded * problem.element_bytes

    def k_tile_bytes(self, problem: Problem) -> int:
        """Bytes of a K tile."""
        return self.tile_n * self.head_dim_padded * problem.element_bytes

    def v_tile_bytes(self, problem: Problem) -> int:
        """Bytes of a V tile."""
        return self.tile_n * self.head_dim_v_padded * problem.element_bytes

    def o_tile_bytes(self, problem: Problem) -> int:
        """Bytes of one consumer's O."""
        return ROWS * self.head_dim_v_padded * problem.out_bytes

    def smem_bytes(self, problem: Problem) -> dict[str, int]:
        """Shared memory by part: Q (O takes its place at the end), K ring, V ring, barriers."""
        return {
            "Q": self.consumers * max(self.q_tile_bytes(problem), self.o_tile_bytes(problem)),
            "O": 0,
            "K ring": self.kv_stages * self.k_tile_bytes(problem),
            "V ring": self.kv_stages * self.v_tile_bytes(problem),
            "barriers": SMALL_BYTES,
        }

    @property
    def accumulator_registers(self) -> int:
        """Registers of a thread for S (fp32), P (16-bit) and O (fp32)."""
        return self.tile_n // 2 + self.tile_n // 4 + self.head_dim_v_padded // 2

    def check(self, problem: Problem, machine: Machine) -> None:
        """Raise ``ValueError`` with the figures, and what would fit, if this cannot run."""
        _check_kinds(problem, machine)
        _check_problem(self, problem)
        _check_smem(self, problem, machine)
        _check_registers(self, machine)
        check_size(self, problem)


#: A design for either kind of machine.
AnyDesign = Design | HopperDesign


def design_for(problem: Problem, machine: Machine, **changes: Any) -> AnyDesign:
    """The design for ``problem`` of the kind that ``machine`` runs, then ``changes``.

    Raises ``ValueError`` as ``Design.for_problem``.

    >>> from fa4sim.specs import H200, Problem
    >>> design_for(Problem(seqlen_q=8192), H200).work_rows
    128
    """
    if not isinstance(machine, Machine):
        raise ValueError(f"machine={quoted(machine)} must be a fa4sim.Machine, as fa4sim.B200")
    kind = HopperDesign if machine.is_hopper else Design
    return kind.for_problem(problem, machine, **changes)


def _check_kinds(problem: Any, machine: Any) -> None:
    if not isinstance(problem, Problem):
        raise ValueError(f"problem={problem!r} must be a fa4sim.Problem")
    if not isinstance(machine, Machine):
        raise ValueError(f"machine={machine!r} must be a fa4sim.Machine, as fa4sim.H200")
    if not machine.is_hopper:
        raise ValueError(f"a HopperDesign does not run on {machine.name}; use fa4sim.Design")


def _known(changes: dict[str, Any]) -> dict[str, Any]:
    known = [spec.name for spec in dataclasses.fields(HopperDesign)]
    for name in changes:
        if name not in known:
            raise ValueError(
                f"a Hopper design has no field {name!r}; it has {', '.join(sorted(known))}"
            )
    return changes


def _check_problem(design: HopperDesign, problem: Problem) -> None:
    if problem.dtype in FP8:
        raise ValueError(f"dtype={problem.dtype!r}: the Hopper kernel knows bf16 and fp16")
    if problem.page_size is not None:
        raise ValueError(
            f"page_size={problem.page_size}: on Hopper K and V are modelled in one piece; leave "
            "page_size out, or take a Blackwell machine"
        )
    if problem.seqlens_q is not None:
        raise ValueError("seqlens_q: the Hopper kernel serves query lengths that are all equal")
    if problem.num_splits != 1:
        raise ValueError(
            f"num_splits={problem.num_splits}: the Hopper kernel does not split keys; use 1"
        )
    for name, given in (("softcap", problem.softcap), ("sink", problem.sink)):
        if given:
            raise ValueError(f"{name}={given}: the Hopper kernel has no {name}")
    if problem.head_dim > design.head_dim_padded or problem.dim_v > design.head_dim_v_padded:
        raise ValueError(
            f"head dims ({problem.head_dim}, {problem.dim_v}) exceed the design's "
            f"({design.head_dim_padded}, {design.head_dim_v_padded}); make head_dim_padded and "
            "head_dim_v_padded at least as large"
        )


def _check_smem(design: HopperDesign, problem: Problem, machine: Machine) -> None:
    parts = design.smem_bytes(problem)
    total, most = sum(parts.values()), machine.smem_bytes_per_cta
    if total > most:
        slot = design.k_tile_bytes(problem) + design.v_tile_bytes(problem)
        fits = (most - parts["Q"] - parts["barriers"]) // slot
        words = ", ".join(f"{name} {size:,}" for name, size in parts.items() if size)
        raise ValueError(
            f"this design needs {total:,} bytes of shared memory ({words}) and a CTA has {most:,}; "
            f"kv_stages up to {max(0, fits)} would fit, or a smaller tile_n"
        )


def _check_registers(design: HopperDesign, machine: Machine) -> None:
    groups = design.consumers * design.registers_consumer
    groups += design.registers_load if design.specialised else 0
    most = machine.registers_per_sm // WARPGROUP
    if groups > most:
        raise ValueError(
            f"registers: {design.consumers} x {design.registers_consumer} (consumers) + "
            f"{design.registers_load} (load) = {groups}, and an SM has {most} per lane of its "
            f"warpgroups; take {groups - most} away somewhere"
        )
    needed = design.accumulator_registers + OTHER_REGISTERS
    if needed > design.registers_consumer:
        raise ValueError(
            f"S, P and O of a consumer thread take {design.accumulator_registers} registers and "
            f"the rest about {OTHER_REGISTERS}, but registers_consumer={design.registers_consumer}:"
            " it would spill, which is not modelled; use a smaller tile_n or fewer consumers"
        )
