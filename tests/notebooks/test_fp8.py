"""8-bit inputs: wrong answers get a message that helps."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from fa4sim.numerics import is_representable, round_to

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"


@pytest.fixture(name="checks")
def _checks(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(NOTEBOOKS))
    return importlib.import_module("checks_fp8")


def test_the_inputs_are_values_of_their_format(checks: ModuleType) -> None:
    q, k, v = checks.normal_inputs(4, 6, "e4m3", std=2.0)
    assert q.shape == (1, 4, 1, 128) and k.shape == v.shape == (1, 6, 1, 128)
    assert all(is_representable(x, "e4m3") for x in (q, k, v))
    assert 1.8 < q.std() < 2.2 and 0.9 < k.std() < 1.1


def rounded(x: np.ndarray, descale: Any) -> np.ndarray:
    with np.errstate(all="ignore"):
        return round_to((x / descale).astype(np.float32), "e4m3")


def by(descale_of: Callable[[np.ndarray], Any]) -> Callable[[np.ndarray], Any]:
    """An answer that divides by this descale and rounds."""
    return lambda x: (rounded(x, descale_of(x)), descale_of(x))


def unrounded(x: np.ndarray) -> tuple[np.ndarray, float]:
    descale = np.abs(x).max() / 448 or 1.0
    return x / descale, descale


@pytest.mark.parametrize(
    ("quantise", "message"),
    [
        (lambda x: None, "no answer here so far"),
        (lambda x: x, "Return two things"),
        (lambda x: (x.ravel(), 1.0), "must have the shape of x"),
        (lambda x: (x, np.ones(2)), "the descale is one number"),
        (by(lambda x: np.abs(x).max() / 448), "For zeros there is a NaN or an infinity"),
        (by(lambda x: x.max() / 448 or 1.0), "The largest in magnitude is negative"),
        (by(lambda x: np.abs(x).max() / 500 or 1.0), "elements saturate at 448"),
        (by(lambda x: np.abs(x).max() or 1.0), "the largest magnitude becomes 1,"),
        (lambda x: (rounded(x, np.abs(x).max() / 448), 448 / np.abs(x).max()), "*back*"),
        (lambda x: (x, np.abs(x).max() / 448), "aren't x divided by it"),
        (unrounded, "no e4m3 numbers"),
        (lambda x: (np.zeros_like(x), 0.0 * x.max()) if not x.any() else unrounded(x), "no e4m3"),
        (lambda x: 1 / 0, "raised ZeroDivisionError"),
    ],
)
def test_a_wrong_quantisation(
    checks: ModuleType, quantise: Callable[[np.ndarray], Any], message: str
) -> None:
    answer = checks.check_quantize(quantise)
    assert not answer.right and message in answer.message


def test_a_descale_of_0_for_zeros(checks: ModuleType) -> None:
    def quantise(x: np.ndarray) -> tuple[np.ndarray, float]:
        descale = float(np.abs(x).max() / 448)
        return rounded(x, descale or 1.0), descale

    answer = checks.check_quantize(quantise)
    assert not answer.right and "For zeros your descale is 0" in answer.message


def test_what_arrives_is_measured(checks: ModuleType) -> None:
    assert checks.arriving(0, 8, 4.0) == pytest.approx(1, rel=0.01)
    assert checks.arriving(4, 8, 4.0) == pytest.approx(448 / 4096, rel=0.01)
    assert checks.arriving(4, 8, 0.75) == pytest.approx(1, rel=0.01)
    assert checks.arriving(4, 4, 4.0) == pytest.approx(1, rel=0.01)


@pytest.mark.parametrize(
    ("share", "message"),
    [
        (lambda r, o, t: None, "no answer here so far"),
        (lambda r, o, t: None if o else 1.0, "Return a number for every case"),
        (lambda r, o, t: 1.0, "How large is P for this key"),
        (lambda r, o, t: min(1.0, 448 / 2.0 ** (o + r)), "makes the key the new reference"),
        (
            lambda r, o, t: 448 / 2.0 ** (o + (r if r <= t else 0)),
            "No key brings more than its own",
        ),
        (lambda r, o, t: min(1.0, 448 / 2.0**r), "How large is P for this key"),
        (lambda r, o, t: 1 / 0, "raised ZeroDivisionError"),
    ],
)
def test_a_wrong_share(checks: ModuleType, share: Callable[..., Any], message: str) -> None:
    answer = checks.check_arriving(share)
    assert not answer.right and message in answer.message
