"""Sentences beside figures follow from the figures: other figures, another sentence or none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fa4sim.specs import B200
from fa4sim.validation import Inference, inference_page, pages_section
from fa4sim.validation.bandwidth import InFlight
from fa4sim.validation.decode import ALONE_BLOCKS, ASSUMPTIONS, LAUNCH, decode_section
from fa4sim.validation.inference import BATCHES, KEYS, inference_calls
from fa4sim.validation.inference_runs import Outcome, published
from fa4sim.validation.pages import LAYOUTS, Pages, published_rows, variations
from fa4sim.validation.pages import Outcome as PageOutcome

STEPS = published()["decode"]


def outcome(time_us: float = 10.0, hbm: float = 3e12, splits: int = 1) -> Outcome:
    return Outcome(
        time_us, 100.0, hbm, time_us, 0.0, splits, 0.5, "A: b.", {"tensor": 0.5, "mufu": 0.5}
    )


def decoded(
    errors: dict[str, tuple[float, float, float]],
    chain: float,
    chains: dict[str, float] | None = None,
) -> str:
    """The section on decode steps with these errors, 0.2 where none is given, and these chains."""
    least = 0.2
    found = {}
    for name, constants in ASSUMPTIONS.items():
        clock = constants.get("clock_hz", B200.clock_hz)
        found["assume", name, "alone"] = outcome(
            (chains or {}).get(name, chain) * ALONE_BLOCKS / clock * 1e6
        )
        for row, error in zip(STEPS, errors.get(name, (least,) * 3), strict=True):
            found["assume", name, row["name"]] = outcome(row["published_us"] / (1 + error))
    for row, error in zip(STEPS, errors.get("as chosen", (least,) * 3), strict=True):
        found["decode", row["name"]] = outcome(row["published_us"] / (1 + error))
    return decode_section(found)


def test_whether_an_assumption_brings_both_steps_near_is_looked_up() -> None:
    far = decoded({LAUNCH: (0.11, 0.5, -0.02)}, 2000)
    words = "No assumption brings both steps with two Q tiles within 10%; the nearest"
    assert f"{words}, *{LAUNCH}*, leaves +11.0 % and −2.0 %." in far
    near = decoded({LAUNCH: (0.09, 0.5, -0.02)}, 2000)
    assert "No assumption" not in near
    assert f"within 10%, *{LAUNCH}*: +9.0 % and −2.0 %." in near


def test_what_holds_a_step_with_one_tile_follows_from_chain_and_share() -> None:
    hbm = "HBM gives 7.2 TB/s, the most"
    text = decoded({hbm: (0.9, 0.9, 0.9), LAUNCH: (0.2, 0.23, 0.2)}, 2000)
    assert (
        "HBM holds the step, and assumptions about anything else move its error by 3.0 points"
        in text
    )
    assert "the chain holds the step, not HBM" in decoded({}, 2700)
    assert "lengthens" not in text, "every chain is as long as that of the machine"
    text = decoded({}, 2000, {LAUNCH: 2500, hbm: 2050})
    assert f"what lengthens it: *{LAUNCH}* 2,500; no one of them is enough." in text
    text = decoded({}, 2000, {LAUNCH: 3500})
    assert f"what lengthens it: *{LAUNCH}* 3,500; enough: {LAUNCH}." in text


def test_the_launch_is_ruled_out_only_if_it_changes_little() -> None:
    assert "The launch is ruled out" in decoded({LAUNCH: (0.2, 0.19, 0.2)}, 2000)
    assert "The launch is ruled out" not in decoded({LAUNCH: (0.2, 0.17, 0.2)}, 2000)


def test_a_simulation_that_is_too_slow_somewhere_is_no_best_case() -> None:
    assert "20% to 20% too fast, so take it for the best" in decoded({}, 2000)
    text = decoded({"as chosen": (0.3, 0.2, -0.1)}, 2000)
    assert "off by −10.0 % to +30.0 %" in text and "too fast, so" not in text


@pytest.fixture(name="result")
def _result() -> Inference:
    rings = (InFlight("hbm", 1, 16, 13.8, 15.3), InFlight("hbm", 132, 16, 22.0, 19.0))
    return Inference({key: outcome() for key, _ in inference_calls()}, rings, {(4, 32): 21.0}, 1.0)


def test_sentences_on_bytes_in_flight_need_every_row(result: Inference) -> None:
    one, all_of_them = "One SM alone waits longer", "Several SMs with little in flight wait shorter"
    assert one in inference_page(result) and all_of_them in inference_page(result)
    other = replace(result, rings=(InFlight("hbm", 1, 16, 15.4, 15.3), result.rings[1]))
    assert one not in inference_page(other) and all_of_them in inference_page(other)
    other = replace(result, rings=(result.rings[0], InFlight("hbm", 132, 16, 18.0, 19.0)))
    assert one in inference_page(other) and all_of_them not in inference_page(other)


def test_sentences_on_splits_need_every_row(result: Inference) -> None:
    fills, short = "Where tiles fill the GPU", "short sequences gain least"
    assert fills in inference_page(result) and short in inference_page(result)
    split = {("split", max(BATCHES), KEYS[-1], 0): outcome(11.0, splits=2)}
    text = inference_page(replace(result, outcomes=result.outcomes | split))
    assert fills not in text and short not in text


def test_sentences_on_bandwidth_quote_what_is_used(result: Inference) -> None:
    assert "all 148 do not use it up" in inference_page(result)
    full = {("ctas", "e4m3", 148): outcome(hbm=0.95 * B200.hbm_bytes_per_second)}
    assert "do not use it up" not in inference_page(
        replace(result, outcomes=result.outcomes | full)
    )
    best = {("long", 32, 1, 64): outcome(2.0, hbm=0.87 * B200.hbm_bytes_per_second)}
    text = inference_page(replace(result, outcomes=result.outcomes | best))
    assert "64 gains most, 5.00 ×, with 87% of what HBM gives" in text


def paged(errors: dict[str, float]) -> str:
    """The section on pages with these errors by report; none elsewhere."""
    rows = tuple(
        (row, PageOutcome((row.published_us or 900.0) / (1 + errors.get(row.report, 0.0)), "", {}))
        for row in published_rows()
    )
    times = {"looped": 5000.0, "naive": 1000.0, "transposed": 900.0}
    prefill = {(layout, causal): 1000.0 for layout in LAYOUTS for causal in (False, True)}
    return pages_section(Pages(rows, {key: times for key in variations()}, prefill))


def test_sentences_on_pages_follow_from_the_rows() -> None:
    naive, looped = "before pointers were transposed", "when pages of any size came"
    slow = paged({naive: -0.3, looped: 0.2})
    assert "as pages of one token come out too slow" in slow and "would slow all three" in slow
    assert "+20.0 % too fast" in slow and "with −30.0 % to −30.0 %" in slow
    fast = paged({naive: 0.1, looped: -0.2})
    assert "too slow above" not in fast and "would slow all three" not in fast
    assert "too fast, the last" not in fast and "with +10.0 % to +10.0 %" in fast
    assert "pages of one token would come out +85.1 % with two" in fast
