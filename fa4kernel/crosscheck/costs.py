"""Part 6: the instructions that the simulator's costs assume, and those of the compiled kernel.

The kernel's are measured: what one block of keys more, and one tile more, makes a warp execute
(:mod:`fa4kernel.code.measure`), on long problems of the same head dims and mask, whose
CTAs and heads work together in the same way.
"""

from __future__ import annotations

from functools import lru_cache

from fa4kernel.code.kernels import KERNELS
from fa4kernel.code.measure import Measurement, Role, measure, slots
from fa4kernel.code.shapes import SHAPES, Shape
from fa4kernel.crosscheck.verdict import Part
from fa4sim.pipelines.fa4.costs import SoftmaxCosts, correction_costs, softmax_costs
from fa4sim.specs import Design, Machine, Problem

COST_MODEL = "cost model"
STEP_SLOTS = "issue slots of a softmax step"
#: By how much issue slots of a softmax step may differ. Those of the kernel are PTX instructions by
#: a table of weights, which is within 3 % of the machine code; the rest is what compilers do with
#: addresses and loops, and :func:`design_from_kernel` takes it from the kernel.
TOLERANCE = 0.06
#: Query heads in a tile of packed ones: a number that divides its rows, and one that does not.
WHOLE_GROUP, ODD_GROUP = 4, 3
#: Stages whose O one correction warp looks after.
STAGES = 2
#: Packed instructions of a polynomial of degree n for two columns: n multiply-adds, and three that
#: take the integer part off; and two maxima that keep it in range.
BESIDE_DEGREE, CLAMPS = 3, 2
#: Maxima that merge the chains and the maximum so far; the simulator has them in the statistics.
MERGING_MAXIMA = 2


def compare_costs(against: str, problem: Problem, design: Design, machine: Machine) -> Part:
    """Compare counts per softmax step, per rescaled step of the correction, and per tile."""
    part = Part(COST_MODEL)
    measured = measurement(against, shape_of(problem, design))
    softmax, correction = _role(measured, "softmax"), _role(measured, "correction")
    assumed = softmax_costs(problem, design, machine)
    for name, (mine, theirs) in (
        _softmax(assumed, design, machine, softmax)
        | _correction(problem, design, machine, correction)
    ).items():
        part.equal(name, mine, theirs)
        part.figures[name] = {"simulator": mine, "kernel": theirs}
    mine, theirs = assumed_slots(assumed), slots(softmax.step)
    part.figures[STEP_SLOTS] = {"simulator": mine, "kernel": theirs}
    part.holds(
        f"{STEP_SLOTS}: simulator {mine}, kernel {theirs:g}, more than {TOLERANCE:.0%} apart",
        abs(theirs - mine) <= TOLERANCE * mine,
    )
    part.notes.append(
        f"issue slots of a softmax step: simulator {mine}, kernel {theirs:g}; of a correction step "
        f"{slots(correction.step):g}, rescaled {slots(correction.rescaled):g}; of a tile's end "
        f"{slots(correction.tile):g} (the simulator has latencies for these)"
    )
    return part


def design_from_kernel(
    against: str, problem: Problem, machine: Machine, cta_group: int | None = None
) -> Design:
    """The design of a compiled kernel: its registers, and the issue slots of a step that it needs.

    What else a kernel chooses, :meth:`Design.for_problem` chooses the same.

    Args:
        against: "ours" or "official".
        problem: head dims, mask and dtype decide what is compiled.
        machine: what it is to run on.
        cta_group: 1 or 2 CTAs that work as one, None for the kernel's choice.

    Raises:
        ValueError: the kernel cannot be compiled here; the message says what to install.
    """
    chosen = {} if cta_group is None else {"cta_group": cta_group}
    design = Design.for_problem(problem, machine, **chosen)
    measured = measurement(against, shape_of(problem, design))
    softmax = _role(measured, "softmax")
    others = assumed_slots(softmax_costs(problem, design, machine)) - design.softmax_overhead_slots
    registers = {
        field: role.registers
        for field, name in (
            ("registers_softmax", "softmax"), ("registers_correction", "correction"),
            ("registers_other", "mma"),
        )
        if (role := measured.role(name)) is not None and role.registers is not None
    }  # fmt: skip
    overhead = max(0, round(slots(softmax.step)) - others)
    return design.replace(problem, machine, softmax_overhead_slots=overhead, **registers)


def shape_of(problem: Problem, design: Design) -> Shape:
    """The shape whose kernel is measured for a problem.

    Pages, a window and the number of Q tiles are left out: they change who loads and what is
    masked, and nothing that is counted. Where heads are packed and nothing is masked, other
    exponentials are on FMA units, by whether lengths vary; so there packing is part of the shape.
    """
    masked = problem.causal or problem.is_local
    packed = design.pack_gqa and problem.group > 1 and not masked
    whole = design.tile_m % problem.group == 0
    wanted = Shape(
        "", problem.head_dim, problem.dim_v, problem.causal, design.cta_group == 2,
        problem.dtype,  # type: ignore[arg-type]
        group=(WHOLE_GROUP if whole else ODD_GROUP) if packed else 1,
        varlen=packed and problem.seqlens_q is not None,
    )  # fmt: skip
    for shape in SHAPES.values():
        if shape.title == wanted.title:
            return shape
    return wanted


@lru_cache(maxsize=64)
def measurement(against: str, shape: Shape) -> Measurement:
    """What a kernel executes; about ten seconds the first time."""
    return measure(KERNELS[against](shape), shape)


def assumed_slots(costs: SoftmaxCosts) -> int:
    """Issue slots of a softmax step without a mask, as the simulator's roles use them."""
    arrivals = 3  # statistics, the first part of P, the rest
    groups = [group for fragment in costs.fragments for group in fragment]
    groups += [*costs.row_max, *costs.row_sum, costs.stats, costs.overhead]
    loads, stores = len(costs.fragments), len(costs.fragments) * costs.store_issue
    return sum(group.issue for group in groups) + loads + stores + arrivals


def _role(measured: Measurement, name: str) -> Role:
    found = measured.role(name)
    if found is None:
        raise ValueError(f"{measured.kernel.title} has no warps that are {name}")
    return found


def _softmax(
    costs: SoftmaxCosts, design: Design, machine: Machine, role: Role
) -> dict[str, tuple[float, float]]:
    """Counts of a step of one warp without a mask: the simulator's, the kernel's."""
    n = design.tile_n
    mufu = sum(group.mufu for fragment in costs.fragments for group in fragment) + costs.stats.mufu
    pairs = n * design.emulated_share / 2
    step = role.step
    packed = step["packed FMA"] - pairs * (BESIDE_DEGREE + design.exp2_degree)
    maxima = n / (machine.max_operands_per_instruction - 1) + MERGING_MAXIMA
    return {
        "softmax step: MUFU": (mufu / machine.mufu_cycles_per_warp, step["MUFU"]),
        "softmax step: packed FMA beside polynomials": (n / 2 + n / 2, packed),
        "softmax step: maxima beside polynomials": (maxima, step["maximum"] - CLAMPS * pairs),
        "softmax step: conversions": (n / 2, step["conversion"]),
        "softmax step: TMEM loads": (len(costs.fragments), step["TMEM load"]),
        "softmax step: TMEM stores": (len(costs.fragments), step["TMEM store"]),
    }


def _correction(
    problem: Problem, design: Design, machine: Machine, role: Role
) -> dict[str, tuple[float, float]]:
    """Counts of a rescale, and of the end of a tile, for one stage."""
    costs = correction_costs(problem, design, machine)
    columns = design.head_dim_v_padded
    rescale = {unit: role.rescaled.get(unit, 0) - role.step.get(unit, 0) for unit in role.rescaled}
    # Under a causal mask the upper stage sees no key of the first block: its maximum then grows.
    once = 1 / STAGES if problem.causal else 0
    end = {unit: role.tile.get(unit, 0) - once * rescale.get(unit, 0) for unit in role.tile}
    return {
        "rescale: packed multiplies": (columns / 2, rescale["packed FMA"] / STAGES),
        "rescale: TMEM loads": (costs.chunks, rescale["TMEM load"] / STAGES),
        "rescale: TMEM stores": (costs.chunks, rescale["TMEM store"] / STAGES),
        "tile's end: packed multiplies": (columns / 2, end["packed FMA"] / STAGES),
        "tile's end: conversions": (columns / 2, end["conversion"] / STAGES),
        "tile's end: TMEM loads": (costs.chunks, end["TMEM load"] / STAGES),
    }
