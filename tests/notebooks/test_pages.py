"""Checks of the exercises about pages: wrong answers get a message that helps."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"


@pytest.fixture(name="checks")
def _checks(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(NOTEBOOKS))
    return importlib.import_module("checks_pages")


@pytest.mark.parametrize(
    ("row_of", "message"),
    [
        (lambda i, t, n, p: None, "no answer here"),
        (lambda i, t, n, p: i * n + t, "a shuffle does not reach that far"),
        (lambda i, t, n, p: i * (n // p) + t // p, "and so does turn 0, thread 0"),
        (lambda i, t, n, p: t * 1000, "no row from 0 to 127"),
        (lambda i, t, n, p: 1.5, "1.5, which is no row"),
        (lambda i, t, n, p: 1 // 0, "ZeroDivisionError"),
    ],
)
def test_a_wrong_row(checks: ModuleType, row_of: Callable[..., Any], message: str) -> None:
    answer = checks.check_row(row_of)
    assert not answer.right and message in answer.message


def test_any_order_within_reach_is_right(checks: ModuleType) -> None:
    def backwards(i: int, thread: int, threads: int, per_row: int) -> int:
        groups = threads // per_row
        turn = 128 // threads - 1 - i
        return turn * threads + (per_row - 1 - thread % per_row) * groups + thread // per_row

    assert checks.check_row(backwards).right


@pytest.mark.parametrize(
    ("size", "message"),
    [(None, "no answer here"), (7, "7 is not among 1, 8, 16"), ("16", "without quotes"),
     (1, "room for larger ones"), (256, "of their slots are empty")],
)  # fmt: skip
def test_a_wrong_page_size(checks: ModuleType, size: Any, message: str) -> None:
    answer = checks.check_page_size(size)
    assert not answer.right and message in answer.message
