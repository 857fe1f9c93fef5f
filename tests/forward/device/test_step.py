"""The softmax step's arithmetic: one by one as two at a time, near the truth, and as on an H200."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("cutlass", reason="needs the CuTe DSL: pip install 'fa4sim[kernel]'")

from fa4kernel.emulator import emulate
from fa4sim.numerics import from_bits16
from fa4sim.numerics.exp2 import COEFFICIENTS
from tests.forward.device.run import exact
from tests.forward.device.steps import STEPS, Step

STORED = Path(__file__).parent / "h200.json"
FAST = STEPS[:1]


def outputs(step: Step, packed: bool) -> list[np.ndarray]:
    """What the emulator gives."""
    launch, arrays = step.launch()
    assert not emulate(step.ptx(packed), launch).hazards
    return arrays


@pytest.mark.parametrize("step", FAST, ids=lambda step: step.name)
def test_a_step_is_right(step):
    check(step, outputs(step, packed=True))


@pytest.mark.slow
@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.name)
def test_one_by_one_gives_the_bits_of_two_at_a_time(step):
    packed = outputs(step, packed=True)
    check(step, packed)
    for one, two in zip(outputs(step, packed=False), packed, strict=True):
        assert np.array_equal(one, two)


@pytest.mark.slow
@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.name)
def test_an_h200_gives_the_same_bits_on_the_fma_units(step):
    stored = json.loads(STORED.read_text(encoding="utf-8"))["steps"][step.name]
    assert exact(step, outputs(step, packed=False)) == stored["exact"]


def test_an_h200_was_near_on_the_special_function_units():
    steps = json.loads(STORED.read_text(encoding="utf-8"))["steps"]
    assert set(steps) == {step.name for step in STEPS}
    for each in steps.values():
        near = each["near"]
        assert near["on MUFU"]["most ulps"] <= 2  # PTX ISA: ex2.approx.ftz.f32 within 2 ulps
        assert near["P"]["most ulps"] <= 1 and near["P"]["differ"] <= 1e-4 * near["P"]["of"]
        assert near["factor"]["most ulps"] <= 2


def polynomial_error(degree: int) -> float:
    """The largest relative error of the polynomial for 2^x on [0, 1)."""
    x = np.linspace(0, 1, 10001)
    power = np.polynomial.polynomial.polyval(x, COEFFICIENTS[degree])
    return float(np.abs(power / 2.0**x - 1).max())


def check(step: Step, found: list[np.ndarray]) -> None:
    """The step against float64: maximum exact, the others within what 2^x may be off."""
    launch, _ = step.launch()
    scores, states = (np.asarray(x, np.float64) for x in launch.arguments[:2])
    scale = float(launch.arguments[2])
    p, probabilities = found[0].view(np.float32), from_bits16(found[1], step.cfg.dtype)
    factor, top, total = found[2].view(np.float32).T
    highest = np.maximum(scores.max(axis=1), states[:, 0])
    with np.errstate(invalid="ignore"):  # nothing seen so far, nor now
        kept_top = (states[:, 0] - highest) * scale >= -step.cfg.rescale_threshold
    assert np.array_equal(top[~kept_top], highest[~kept_top].astype(np.float32))
    assert np.isin(top[kept_top], states[kept_top, 0]).all() or step.first
    used = np.where(np.isinf(top), 0, top).astype(np.float64)
    exact = 2.0 ** ((scores - used[:, None]) * scale)
    error = polynomial_error(step.cfg.exp2_degree) + 2.0**-21  # of ex2, and of float32
    size = np.abs(scores).max(axis=1, where=np.isfinite(scores), initial=0) + np.abs(used)
    bound = error + size * scale * 2.0**-23  # shift and exponent are rounded
    assert (np.abs(p - exact) <= bound[:, None] * exact + 2.0**-125).all()
    half = {"bf16": 2.0**-8, "fp16": 2.0**-11}[step.cfg.dtype]
    assert (np.abs(probabilities - p) <= half * p + 2.0**-24).all()
    wanted = p.astype(np.float64).sum(axis=1)
    if not step.first:
        wanted += states[:, 1] * factor
    assert np.allclose(total, wanted, rtol=1e-5)
    assert (factor[~np.isinf(top)] <= 1).all()
