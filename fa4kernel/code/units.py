"""Units that instructions go to, and what each costs: the weights by which kernels are compared.

PTX is not what the hardware issues: ``ptxas`` drops moves, folds a shift into the addition behind
it and keeps some things in uniform registers. The weights say how many instructions of the machine
code one of PTX becomes, as far as that can be said of an instruction alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fa4kernel.emulator.ptx.module import Instruction


@dataclass(frozen=True)
class Unit:
    """A kind of instruction.

    Attributes:
        name: as a column or row of the page is called.
        what: PTX instructions that belong to it.
        slots: issue slots of its warp's sub-partition that one of them takes.
        source: what ptxas 13.0 makes of it for sm_100a: the reason for ``slots``.
        constant: the name of the constant of ``fa4sim``'s machine that tells how many cycles one
            of them occupies the unit, or "".
        pipe: the pipe that the constant is about: "MUFU", "FMA", "ALU" or "".
    """

    name: str
    what: str
    slots: int
    source: str
    constant: str = ""
    pipe: str = ""


UNITS: Mapping[str, Unit] = {
    unit.name: unit
    for unit in (
        Unit("MUFU", "`ex2`, `rcp`, `lg2`, …", 1, "MUFU", "mufu_cycles_per_warp", "MUFU"),
        Unit("packed FMA", "`fma`, `add`, `sub`, `mul` of `.f32x2`", 1,
             "FFMA2, FADD2, FMUL2", "fma_packed_cycles_per_warp", "FMA"),
        Unit("scalar FMA", "the same of one float or of two halves", 1, "FFMA, FADD, FMUL",
             "fma_cycles_per_warp", "FMA"),
        Unit("maximum", "`max`, `min` of floats, two or three operands", 1,
             "FMNMX, FMNMX3", "alu_cycles_per_warp", "ALU"),
        Unit("conversion", "`cvt` from or to floats", 1, "F2FP",
             "convert_cycles_per_warp", "ALU"),
        Unit("integer, logic", "integer arithmetic, comparisons, selects, bits", 1,
             "IADD3, LOP3, ISETP, SEL, …", "alu_cycles_per_warp", "ALU"),
        Unit("shift left", "`shl`", 0, "folded into the addition behind it (IMAD, LEA)"),
        Unit("TMEM load", "`tcgen05.ld`", 1, "LDTM"),
        Unit("TMEM store", "`tcgen05.st`", 1, "STTM"),
        Unit("TMEM wait", "`tcgen05.wait`", 1, "NOP that waits, FENCE.VIEW.ASYNC.T"),
        Unit("MMA", "`tcgen05.mma`", 1, "UTCHMMA, UTCQMMA"),
        Unit("commit", "`tcgen05.commit`", 1, "UTCBAR"),
        Unit("TMA", "`cp.async.bulk`", 1, "UTMALDG, UTMASTG"),
        Unit("TMA groups", "`cp.async.bulk.commit_group`, `.wait_group`", 1,
             "UTMACMDFLUSH, DEPBAR"),
        Unit("mbarrier wait", "`mbarrier.try_wait`, `.test_wait`", 1, "SYNCS"),
        Unit("mbarrier arrive", "all other `mbarrier`", 1, "SYNCS"),
        Unit("named barrier", "`bar`, `barrier`", 1, "BAR.SYNC, BAR.ARV, NOP"),
        Unit("proxy fence", "`fence.proxy`", 2, "MEMBAR and FENCE.VIEW.ASYNC.S"),
        Unit("fence", "other fences", 1, "NOP, MEMBAR"),
        Unit("shared memory", "`ld.shared`, `st.shared`, `ldmatrix`, …", 1, "LDS, STS"),
        Unit("parameter", "`ld.param`, `ld.const`", 1, "LDC, LDCU"),
        Unit("global memory", "`ld`, `st`, `red`, … elsewhere", 1, "LDG, STG"),
        Unit("warp", "`shfl`, `vote`, `elect`, `redux`, `match`", 1, "SHFL or R2UR, VOTE, ELECT"),
        Unit("branch", "`bra`, `ret`, `exit`", 1, "BRA"),
        Unit("jump", "`bra.uni`", 0, "blocks are laid out one behind the other"),
        Unit("move", "`mov`, `cvta`, `not.pred`, size changes of integers", 0,
             "registers are renamed"),
        Unit("other", "everything else", 1, "one instruction each"),
    )
}  # fmt: skip

_MUFU = frozenset(("ex2", "rcp", "lg2", "rsqrt", "sqrt", "sin", "cos", "tanh"))
_ARITHMETIC = frozenset(("add", "sub", "mul", "fma", "mad"))
_INTEGER = frozenset(
    ("add", "sub", "mul", "mad", "min", "max", "abs", "neg", "div", "rem", "and", "or", "xor",
     "not", "lop3", "shr", "shf", "bfe", "bfi", "bfind", "brev", "clz", "popc", "prmt", "selp",
     "slct", "set", "setp", "sad", "szext", "bmsk", "dp4a", "copysign", "testp")
)  # fmt: skip
_WARP = frozenset(("shfl", "vote", "elect", "redux", "match", "activemask"))
_MEMORY = frozenset(("ld", "ldu", "st", "red", "atom"))
_MATRIX = frozenset(("ldmatrix", "stmatrix"))
_FLOATS = ("f16", "f16x2", "bf16", "bf16x2", "f32", "tf32", "f64", "e4m3", "e5m2", "ue8m0")


def unit_of(instruction: Instruction) -> str:
    """The unit of an instruction, a key of :data:`UNITS`.

    >>> from fa4kernel.emulator.ptx.module import Instruction
    >>> unit_of(Instruction("add", ("rn", "f32x2"), ())), unit_of(Instruction("add", ("s32",), ()))
    ('packed FMA', 'integer, logic')
    """
    opcode, kind = instruction.opcode, instruction.type
    if opcode in _MUFU:
        return "MUFU"
    if opcode in _ARITHMETIC and kind == "f32x2":
        return "packed FMA"
    if opcode in _ARITHMETIC and kind in _FLOATS:
        return "scalar FMA"
    if opcode in ("max", "min") and kind in _FLOATS:
        return "maximum"
    if opcode == "cvt":
        return "conversion" if _changes_floats(instruction) else "move"
    if opcode in ("mov", "cvta") or (opcode == "not" and kind == "pred"):
        return "move"
    if opcode == "shl":
        return "shift left"
    if opcode in _INTEGER:
        return "integer, logic"
    return _beside(instruction)


def _changes_floats(instruction: Instruction) -> bool:
    return any(
        q.startswith(_FLOATS) or q.startswith(("e2m", "e3m")) for q in instruction.qualifiers
    )


def _beside(instruction: Instruction) -> str:
    """The unit of an instruction that is no arithmetic."""
    opcode, first = instruction.opcode, (*instruction.qualifiers, "")[0]
    if opcode in ("tcgen05", "wgmma", "mma"):
        return _tensor(opcode, first)
    if opcode == "cp":
        if "bulk" not in instruction.qualifiers:
            return "shared memory"
        return "TMA groups" if instruction.has("commit_group") or _waits(instruction) else "TMA"
    if opcode == "mbarrier":
        return "mbarrier wait" if first in ("try_wait", "test_wait") else "mbarrier arrive"
    if opcode in ("bar", "barrier"):
        return "named barrier"
    if opcode in ("fence", "membar"):
        return "proxy fence" if first == "proxy" else "fence"
    if opcode in _MATRIX or (opcode in _MEMORY and _shared(instruction)):
        return "shared memory"
    if opcode in _MEMORY:
        return "parameter" if first in ("param", "const") else "global memory"
    if opcode in _WARP:
        return "warp"
    if opcode in ("bra", "brx", "ret", "exit"):
        return "jump" if first == "uni" else "branch"
    return "other"


def _tensor(opcode: str, first: str) -> str:
    if opcode == "mma" or first.startswith("mma"):
        return "MMA"
    names = {"ld": "TMEM load", "st": "TMEM store", "commit": "commit", "commit_group": "commit"}
    if first.startswith("fence"):
        return "fence"
    if first.startswith("wait"):
        return "TMEM wait"
    return names.get(first, "other")


def _waits(instruction: Instruction) -> bool:
    return any(q.startswith("wait_group") for q in instruction.qualifiers)


def _shared(instruction: Instruction) -> bool:
    return any(q.startswith("shared") for q in instruction.qualifiers)
