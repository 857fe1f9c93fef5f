"""What ``fa4sim fp8`` measures, as tables for a terminal, for a page and as plain data."""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fa4sim.cli.output import table
from fa4sim.numerics import (
    HISTORY,
    PUBLISHED_BOUNDARY,
    PUBLISHED_SPREAD,
    QuantizationRow,
    SaturationRow,
    measure_boundaries,
    measure_quantization,
    measure_saturation,
    measure_spread,
)

FIRST = HISTORY["2109"]
"""Offset and threshold of the kernel's first version, whose errors were published."""


@dataclass(frozen=True)
class Table:
    """A measured table.

    Attributes:
        title: what it shows.
        head, rows: cells as text.
        left: headings of columns that are aligned left.
        note: how it was measured, in a sentence or two.
        facts: the measured rows in full.
    """

    title: str
    head: list[str]
    rows: list[list[str]]
    left: list[str]
    note: str
    facts: list[dict[str, Any]]

    def text(self) -> str:
        """For a terminal."""
        note = textwrap.fill(self.note, 100)
        return f"{self.title}\n\n{table(self.head, self.rows, self.left)}\n\n{note}"

    def markdown(self) -> str:
        """For a page."""
        rule = [":---" if name in self.left else "---:" for name in self.head]
        lines = ["| " + " | ".join(row) + " |" for row in (self.head, rule, *self.rows)]
        return "\n".join([f"### {self.title}", "", *lines, "", self.note])


def choices(
    offsets: Sequence[float],
    thresholds: Sequence[float],
    dtypes: Sequence[str],
    keys: int,
    score_std: float,
    seed: int,
) -> Table:
    """Relative error by offset and threshold."""
    measured = measure_saturation(offsets, thresholds, dtypes, keys, score_std, seed=seed)
    found = {(row.dtype, row.offset, row.threshold): row for row in measured}
    rows = [
        [dtype, f"{offset:g}", *(_error(found[dtype, offset, limit]) for limit in thresholds)]
        for dtype in dtypes
        for offset in offsets
    ]
    rescales = [f"{found[dtypes[0], offsets[0], limit].row_rescales:.1%}" for limit in thresholds]
    return Table(
        "Offset and threshold",
        ["dtype", "offset", *(f"threshold {limit:g}" for limit in thresholds)],
        [*rows, ["rescaled rows", "", *rescales]],
        ["dtype"],
        f"Relative error of the output against float64 on the same 8-bit inputs, {keys} keys, "
        f"normal scores of deviation {score_std:g}, seed {seed}; * where 2^(offset + threshold) "
        f"exceeds the format. Last line: rows that rescale, of each step after the first "
        f"({dtypes[0]}, offset {offsets[0]:g}).",
        _facts(measured),
    )


def _error(row: SaturationRow) -> str:
    return f"{row.relative_error:.3f}{' ' if row.fits else '*'}"


def boundaries(seed: int) -> Table:
    """Cosine by length around multiples of a block."""
    measured = measure_boundaries(seed=seed)
    columns = {name: choice for name, choice in HISTORY.items()}
    lengths = sorted({row.keys for row in measured})
    found = {(row.keys, row.offset, row.threshold): row.cosine for row in measured}
    shifted = {keys + 1: cosine for keys, cosine in PUBLISHED_BOUNDARY.items()}
    rows = [
        [
            str(keys),
            *(f"{found[keys, *choice]:.4f}" for choice in columns.values()),
            f"{shifted[keys]:.4f}" if keys in shifted else "-",
        ]
        for keys in lengths
    ]
    return Table(
        "A decode step around multiples of 128 keys",
        ["keys", *map(_heading, columns.items()), "published"],
        rows,
        [],
        "Cosine of the output and float64 attention of the same e4m3 inputs, 16 sequences with one "
        f"query of 6 heads that share a key head, head dim 128, seed {seed}. Published: offset 8 "
        "and threshold 4 on a B300 against bf16, one sequence of other values (flash-attention "
        "issue 2577), whose lengths are taken as one key less than ours.",
        _facts(measured),
    )


def spread(seed: int) -> Table:
    """Relative error by the spread of the scores."""
    measured = measure_spread(seed=seed)
    found = {(row.score_std, row.offset, row.threshold): row for row in measured}
    stds = sorted({row.score_std for row in measured})
    rows = []
    for std in stds:
        cells = [f"{std:g}"]
        for choice in HISTORY.values():
            cells.append(f"{found[std, *choice].relative_error:.3f}")
            if choice in PUBLISHED_SPREAD:
                cells.append(f"{PUBLISHED_SPREAD[choice][std]:.3f}")
        rows.append(cells)
    head = ["score std"]
    for name, choice in HISTORY.items():
        head.append(_heading((name, choice)))
        if choice in PUBLISHED_SPREAD:
            head.append(f"published ({choice[0]:g}, {choice[1]:g})")
    return Table(
        "Spread of the scores",
        head,
        rows,
        [],
        "Relative error of the output against float64 on the same e4m3 inputs, 8192 keys, head dim "
        f"128, seed {seed}. Published: on a B300 against the bf16 kernel (flash-attention pull "
        "request 2694), which doesn't say how the error is normalised.",
        _facts(measured),
    )


def _heading(column: tuple[str, tuple[float, float]]) -> str:
    name, (offset, threshold) = column
    return f"{name} ({offset:g}, {threshold:g})"


def inputs(seed: int, seqlen: int = 1024) -> Table:
    """Error by distribution of the inputs."""
    measured = measure_quantization(seqlen=seqlen, seed=seed)
    rows = [
        [
            row.inputs,
            row.dtype,
            row.descale,
            f"{row.from_inputs:.4f}",
            f"{row.from_arithmetic:.4f}",
            f"{row.total:.4f}",
            f"{row.cosine:.4f}",
        ]
        for row in measured
    ]
    return Table(
        "Inputs and descales",
        ["inputs", "dtype", "descale", "quantised", "kernel", "total", "cosine"],
        rows,
        ["inputs", "dtype", "descale"],
        f"Relative errors of the output, {seqlen} keys, head dim 128, seed {seed}. quantised: "
        "float64 attention of the rounded inputs against that of the inputs; kernel: the kernel's "
        "order against float64, on the rounded inputs; total: the kernel's order against the "
        "inputs.",
        _facts(measured),
    )


def _facts(rows: Sequence[SaturationRow] | Sequence[QuantizationRow]) -> list[dict[str, Any]]:
    return [dataclasses.asdict(row) for row in rows]


def section(tables: Mapping[str, Table], begin: str, end: str) -> str:
    """The section of a page, with its markers."""
    parts = [table.markdown() for table in tables.values()]
    return "\n\n".join([begin, *parts, end]) + "\n"
