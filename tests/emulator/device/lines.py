"""More lines than the tables have: every rounding mode, flag and pair of types, without rows."""

from __future__ import annotations

from itertools import product

from tests.emulator.isa.case import Case, op
from tests.emulator.isa.tables import CASES

MODES = ("rn", "rz", "rm", "rp")
WHOLE = ("rni", "rzi", "rmi", "rpi")
INTEGERS = ("u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64")


def _register(kind: str) -> str:
    return {"u8": "b16", "s8": "b16"}.get(kind, kind)


def _arithmetic() -> list[Case]:
    found = []
    for name, mode, ftz, sat in product(
        ("add", "sub", "mul", "fma"), MODES, ("", ".ftz"), ("", ".sat")
    ):
        operands, kinds = ("a, b, c", "f32 f32 f32") if name == "fma" else ("a, b", "f32 f32")
        found.append(op(f"{name}.{mode}{ftz}{sat}.f32 d, {operands};", f"{kinds} -> f32"))
    for name in ("add", "mul", "fma"):
        operands, kinds = ("a, b, c", "f64 f64 f64") if name == "fma" else ("a, b", "f64 f64")
        found.append(op(f"{name}.rn.f64 d, {operands};", f"{kinds} -> f64"))
    for name, mode, ftz in product(("div", "rcp", "sqrt"), MODES, ("", ".ftz")):
        operands, kinds = ("a, b", "f32 f32") if name == "div" else ("a", "f32")
        found.append(op(f"{name}.{mode}{ftz}.f32 d, {operands};", f"{kinds} -> f32"))
    for name, kind, flag in product(
        ("add", "sub", "mul", "fma"), ("f16", "f16x2"), ("", ".ftz", ".sat", ".ftz.sat")
    ):
        operands = "a, b, c" if name == "fma" else "a, b"
        kinds = " ".join([kind] * len(operands.split()))
        found.append(op(f"{name}.rn{flag}.{kind} d, {operands};", f"{kinds} -> {kind}"))
    for name, kind in product(("add", "sub", "mul"), ("bf16", "bf16x2")):
        found.append(op(f"{name}.rn.{kind} d, a, b;", f"{kind} {kind} -> {kind}"))
    for kind, flag in product(("f16", "f16x2", "bf16", "bf16x2"), ("", ".relu")):
        found.append(op(f"fma.rn{flag}.{kind} d, a, b, c;", f"{kind} {kind} {kind} -> {kind}"))
    return found


def _conversions() -> list[Case]:
    found = []
    for mode, whole in product(WHOLE, INTEGERS):
        for kind, ftz in (("f32", ""), ("f32", ".ftz"), ("f16", ""), ("f64", "")):
            text = f"cvt.{mode}{ftz}.{whole}.{kind} d, a;"
            found.append(op(text, f"{kind} -> {_register(whole)}"))
        if whole.endswith("32"):
            found.append(op(f"cvt.{mode}.{whole}.bf16 d, a;", f"bf16 -> {whole}"))
    for mode, whole, kind in product(MODES, INTEGERS, ("f32", "f16", "f64")):
        if mode == "rn" or not (kind == "f64" and whole.endswith("64")):  # not modelled
            found.append(op(f"cvt.{mode}.{kind}.{whole} d, a;", f"{_register(whole)} -> {kind}"))
    for whole in INTEGERS[2:]:
        found.append(op(f"cvt.rn.bf16.{whole} d, a;", f"{whole} -> bf16"))
    for mode, flag in product(MODES, ("", ".ftz", ".sat", ".ftz.sat")):
        found.append(op(f"cvt.{mode}{flag}.f32.f64 d, a;", "f64 -> f32"))
        found.append(op(f"cvt.{mode}{flag}.f16.f32 d, a;", "f32 -> f16"))
        found.append(op(f"cvt.{mode[0]}{mode[1]}i{flag}.f32.f32 d, a;", "f32 -> f32"))
    for mode in MODES:
        found.append(op(f"cvt.{mode}.f16.f64 d, a;", "f64 -> f16"))
        found.append(op(f"cvt.{mode}i.f64.f64 d, a;", "f64 -> f64"))
        found.append(op(f"cvt.{mode}i.f16.f16 d, a;", "f16 -> f16"))
    for mode, flag in product(("rn", "rz"), ("", ".relu", ".satfinite", ".relu.satfinite")):
        for kind in ("f16", "bf16"):
            found.append(op(f"cvt.{mode}{flag}.{kind}.f32 d, a;", f"f32 -> {kind}"))
            found.append(op(f"cvt.{mode}{flag}.{kind}x2.f32 d, a, b;", f"f32 f32 -> {kind}x2"))
        if "satfinite" not in flag:  # which needs sm_100
            found.append(op(f"cvt.{mode}{flag}.tf32.f32 d, a;", "f32 -> tf32"))
    for kind, relu in product(("e4m3x2", "e5m2x2"), ("", ".relu")):
        text = f"cvt.rn.satfinite{relu}.{kind}"
        found.append(op(f"{text}.f32 d, a, b;", f"f32 f32 -> {kind}"))
        found.append(op(f"{text}.f16x2 d, a;", f"f16x2 -> {kind}"))
        found.append(op(f"cvt.rn{relu}.f16x2.{kind} d, a;", f"{kind} -> f16x2"))
    found += [
        op("cvt.rna.tf32.f32 d, a;", "f32 -> tf32"),
        op("cvt.rna.satfinite.tf32.f32 d, a;", "f32 -> tf32"),
        op("cvt.f32.f16 d, a;", "f16 -> f32"),
        op("cvt.ftz.f32.f16 d, a;", "f16 -> f32"),
        op("cvt.f64.f16 d, a;", "f16 -> f64"),
        op("cvt.f64.f32 d, a;", "f32 -> f64"),
        op("cvt.ftz.f64.f32 d, a;", "f32 -> f64"),
        op("cvt.sat.f16.f16 d, a;", "f16 -> f16"),
    ]
    return found


def _holds(to: str, of: str) -> bool:
    """Whether an integer type has all values of another."""
    more = int(to[1:]) - int(of[1:])
    return more >= 0 if to[0] == of[0] else to[0] == "s" and more > 0


def _integers() -> list[Case]:
    found = []
    for to, of in product(INTEGERS, INTEGERS):
        for sat in ("", ".sat"):
            text = f"cvt{sat}.{to}.{of} d, a;"
            if to != of and not (sat and _holds(to, of)):
                found.append(op(text, f"{_register(of)} -> {_register(to)}"))
    for name, kind in product(("div", "rem"), INTEGERS[2:]):
        found.append(op(f"{name}.{kind} d, a, b;", f"{kind} {kind} -> {kind}"))
    return found


def key(case: Case) -> str:
    """A line with its types, which together name a case."""
    kinds = " ".join(k for _, k in case.sources) + " -> " + " ".join(k for _, k in case.results)
    return f"{case.text} {kinds}"


def on_hopper(needs: str) -> bool:
    """Whether an H200 has what needs this architecture."""
    return int("".join(c for c in needs if c.isdigit())) <= 90


TABLE = tuple(case for case in CASES if on_hopper(case.needs))
_KNOWN = {key(case) for case in TABLE}
_MORE = {key(c): c for c in (*_arithmetic(), *_conversions(), *_integers())}
EXTRA = tuple(case for name, case in _MORE.items() if name not in _KNOWN)
