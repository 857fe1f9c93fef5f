"""Decode steps and split keys: wrong answers get a message that helps."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"


@pytest.fixture(name="checks")
def _checks(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(NOTEBOOKS))
    return importlib.import_module("checks_splits")


def unsafe(outs: np.ndarray, lses: np.ndarray) -> np.ndarray:
    weights = np.exp(lses)
    return weights @ outs / weights.sum()


@pytest.mark.parametrize(
    ("combine", "message"),
    [
        (lambda outs, lses: None, "no answer here so far"),
        (lambda outs, lses: outs.mean(axis=0), "This is the mean of the outputs"),
        (lambda outs, lses: lses @ outs / lses.sum(), "weighted by their log-sum-exps"),
        (lambda outs, lses: np.exp(lses - lses.max()) @ outs, "not yet divided by the sum"),
        (lambda outs, lses: outs, "shape (2, 4), not (4,)"),
        (lambda outs, lses: outs[0] + 1, "largest column is off by"),
        (lambda outs, lses: 1 / 0, "raised ZeroDivisionError"),
        (unsafe, "exp(800) is too large"),
    ],
)
def test_a_wrong_combine(
    checks: ModuleType, combine: Callable[[np.ndarray, np.ndarray], Any], message: str
) -> None:
    answer = checks.check_combine(combine)
    assert not answer.right and message in answer.message


@pytest.mark.parametrize(
    ("count", "message"),
    [
        (None, "no answer here so far"),
        (7, "168 CTAs for 148 SMs"),
        (148, "more than one wave"),
        (5, "5 is not among 1, 2, 4"),
        ("6", "without quotes"),
        (1, "1 split, 24 CTAs for 148 SMs"),
        (2, "2 splits, 48 CTAs for 148 SMs"),
        (8, "a second wave"),
        (48, "goes through the splits one after the other"),
    ],
)
def test_a_wrong_number_of_splits(checks: ModuleType, count: Any, message: str) -> None:
    answer = checks.check_count(count)
    assert not answer.right and message in answer.message


def test_the_right_number_fills_the_sms_once(checks: ModuleType) -> None:
    answer = checks.check_count(6)
    assert answer.right and "144 CTAs" in answer.message
