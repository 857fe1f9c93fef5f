"""The page of what was measured and simulated."""

from __future__ import annotations

from pathlib import Path

import pytest

from fa4kernel.bench.fit import CONSTANTS, POINTS
from fa4kernel.bench.page import PAGE, draw, errors, page, predicted, ratios
from fa4kernel.bench.page_reader import page_errors
from fa4kernel.bench.predict import Compared, compare, point_of, simulated_cycles
from fa4kernel.bench.stored import measured
from fa4sim.specs import H200

STORED = measured()


@pytest.fixture(scope="module")
def perfect() -> list[Compared]:
    """As if the simulator had been right everywhere, but twice as slow at the last point."""
    rows = STORED["points"]
    cycles = [round(row["ours"]["ms"] * 1e-3 * row["ours"]["clock_hz"]) for row in rows]
    cycles[-1] *= 2
    return [Compared(point_of(r), r, c, 0.0) for r, c in zip(rows, cycles, strict=True)]


def test_errors_and_ratios(perfect):
    mean, worst = errors(perfect)
    assert worst == pytest.approx(1, abs=1e-3) and mean == pytest.approx(1 / 90, abs=1e-3)
    assert {each.point.name for each in perfect} - {p.point.name for p in predicted(perfect)} == {
        *POINTS
    }
    found = ratios(perfect)
    row = next(row for row in STORED["points"] if row["name"] == "d128 causal 4096 b8 h16")
    best = min(row[name]["ms"] for name in ("cudnn", "fa2", "fa4"))
    assert found[row["name"]] == best / row["ours"]["ms"]


def test_the_page_says_what_is_met_and_what_is_missed(perfect):
    text = page(STORED, perfect, "today")
    wanted = text.partition("## What was wanted")[2].partition("\n## ")[0]
    assert "largest error | at most 10% | 100.0% | **missed**" in wanted
    assert "without the fitted points | at most 5% | 1.2% | met" in wanted
    assert text.count("**miss**") == 1 and text.count("(fitted)") == len(POINTS) == 6
    assert all(row["name"] in text for row in STORED["points"])
    assert "WRONG SIGN" not in text


def test_the_picture_is_drawn(perfect, tmp_path):
    draw(perfect, tmp_path / "h200.png")
    assert (tmp_path / "h200.png").read_bytes().startswith(b"\x89PNG")


def test_predictions_use_the_clock_that_was_measured():
    row = next(row for row in STORED["points"] if row["name"] == "d128 full 4096 b1 h16")
    (found,) = compare([row], STORED["empty_ms"], processes=1)
    assert found.cycles == simulated_cycles(row)
    assert abs(found.error) < 0.1
    assert found.simulated_ms == pytest.approx(
        found.cycles / row["ours"]["clock_hz"] * 1e3 + STORED["empty_ms"]
    )
    slower = {**row, "ours": {**row["ours"], "clock_hz": row["ours"]["clock_hz"] / 2}}
    assert simulated_cycles(slower) <= found.cycles  # memory is then faster, counted in cycles


def test_two_constants_are_fitted_and_no_more():
    assert {name for name, origin in H200.origins.items() if origin.kind == "fitted"} == {
        *CONSTANTS
    }


def test_the_page_can_be_read_again(perfect):
    found = page_errors(page(STORED, perfect, "today"))
    assert list(found) == [each.point.name for each in perfect]
    assert list(found.values())[-1] == 1.0 and sum(map(abs, found.values())) == 1.0
    with pytest.raises(ValueError, match="give docs"):
        page_errors("# Something else")


def test_the_page_in_the_repository_is_of_the_stored_measurement():
    text = (Path(__file__).parents[2] / PAGE).read_text("utf-8")
    assert list(page_errors(text)) == [row["name"] for row in STORED["points"]]
    assert f"| date | {STORED['about']['date']} |" in text
    assert all(f"\n## {each}\n" in text for each in ("Timelines", "Order of events", "Outputs"))
    for row in STORED["points"]:
        assert f"| {row['name']} | {row['ours']['ms']:.3f} | " in text


def test_timelines_have_a_section_of_their_own(perfect):
    text = page(STORED, perfect, "today", ["\n## Timelines\n\nhere\n"])
    assert text.index("## What changes") < text.index("## Timelines") < text.index("## Every point")
