"""The what-if lab: what a knob does, what a refusal says, and how long an answer takes."""

from __future__ import annotations

import importlib
import math
import random
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from fa4sim import B200, Design, Problem, simulate
from tests.speed import usual_seconds

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"


@pytest.fixture(name="lab")
def _lab(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(NOTEBOOKS))
    return importlib.import_module("lab")


@pytest.fixture(name="checks")
def _checks(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(NOTEBOOKS))
    return importlib.import_module("checks_whole")


class Shown:
    """Stands for what IPython shows: keeps things, and what they are replaced by."""

    def __init__(self) -> None:
        self.things: list[Any] = []

    def __call__(self, *things: Any, **_: Any) -> Shown:
        self.things += things
        return self

    update = __call__


@pytest.fixture(name="shown")
def _shown(lab: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Shown:
    shown = Shown()
    monkeypatch.setattr(lab, "display", shown)
    monkeypatch.setattr(importlib.import_module("lesson"), "display", shown)
    return shown


def test_the_first_answer_is_the_running_example(lab: ModuleType) -> None:
    run = simulate(Problem(seqlen_q=256, seqlen_k=1024), scope="cta")
    first = lab.kernel_lab().first
    assert first.cycles == run.report.cycles / 2 and first.report.units == run.report.units


def test_an_answer_says_what_the_kernel_chose(lab: ModuleType) -> None:
    design = Design.for_problem(Problem(seqlen_q=256, seqlen_k=1024), B200)
    kernel, serving = lab.kernel_lab(), lab.serving_lab()
    assert kernel.first.chosen["kv_stages"] == design.kv_stages
    assert "kv_stages" not in kernel.ask(kv_stages=2).chosen
    assert f"own choice: kv_stages={design.kv_stages}, " in kernel.page(kernel.first).data
    assert serving.ask(num_splits=0).chosen == {"num_splits": 4}
    assert "own choice" not in serving.page(serving.first).data


def test_a_knob_changes_the_design(lab: ModuleType) -> None:
    problem = Problem(seqlen_q=256, seqlen_k=1024)
    design = Design.for_problem(problem, B200, kv_stages=2)
    answer = lab.kernel_lab().ask(kv_stages=2)
    assert 2 * answer.cycles == simulate(problem, design, scope="cta").report.cycles


def test_a_slice_has_its_share_of_memory(lab: ModuleType) -> None:
    for rate in ("l2_bytes_per_cycle", "hbm_bytes_per_second"):
        assert math.isclose(getattr(lab.SLICE, rate) * 148, getattr(B200, rate) * lab.SLICE.sms)
    answer = lab.serving_lab().ask(batch=4)
    assert answer.report.units["hbm"] > 0.7, "as on a whole GPU with as many tiles as SMs"


def test_a_slider_shows_the_new_answer_beside_the_first(lab: ModuleType, shown: Shown) -> None:
    lab.kernel_lab().show()
    box, page = shown.things
    assert "nothing changed" in page.data
    sliders = {slider.description: slider for slider in box.children}
    sliders["kv_stages"].value = 2
    assert "kv_stages=2" in shown.things[-1].data and "times as fast" in shown.things[-1].data
    sliders["kv_stages"].value = 6
    assert "Refused: this design needs" in shown.things[-1].data
    assert "simulated in" in shown.things[-1].data


def test_a_bar_is_as_long_as_its_share_wherever_it_is_shown(lab: ModuleType) -> None:
    """In parts of its column, which may be narrow: a phone shows the page of the notebook."""
    made = lab.kernel_lab()
    answer = made.ask(kv_stages=2)
    data = made.page(answer).data
    bars = [float(part) for part in re.findall(r"height:0.8em;width:([\d.]+)%", data)]
    units = [answer.report.units[u] for u in ("tensor", "mufu", "fma", "issue", "smem", "hbm")]
    assert bars == pytest.approx([100, *(100 * share for share in units)], abs=0.06)


def test_every_knob_of_both_labs_is_a_slider(lab: ModuleType, shown: Shown) -> None:
    for make in (lab.kernel_lab, lab.serving_lab):
        shown.things.clear()
        make().show()
        sliders = shown.things[0].children
        assert [slider.description for slider in sliders] == list(make().choices)
        assert all(slider.index == 0 for slider in sliders)


def test_without_widgets_there_is_an_answer_and_a_hint(
    lab: ModuleType, shown: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    lab.serving_lab().show()
    hint, page = shown.things
    assert "`lab.look(batch=4, keys=2048" in hint.data and "nothing changed" in page.data


@pytest.mark.parametrize(
    ("given", "words"),
    [({"slots": 3}, "no knob is called 'slots'"), ({"kv_stages": 9}, "is not on")],
)
def test_what_is_on_no_knob_is_refused(lab: ModuleType, given: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        lab.kernel_lab().ask(**given)


#: Settings of the serving lab that need most simulated, of all 2,400, and how many events that is.
SLOWEST = {
    (4, 2560, 32, "naive", 4, "e4m3"): 14_500,
    (4, 2560, 16, "naive", 3, "e4m3"): 14_100,
    (4, 2560, 256, "naive", 2, "e4m3"): 13_600,
    (4, 1024, 1, "naive", 4, "e4m3"): 13_500,
}


@pytest.mark.parametrize("values", SLOWEST, ids=str)
def test_no_setting_makes_somebody_wait(lab: ModuleType, values: tuple[Any, ...]) -> None:
    """CPU time, the best of five. A slider may take a tenth of a second; a busy machine more.

    Events are what does not depend on the machine: each is a few microseconds.
    """
    made = lab.serving_lab()
    chosen = dict(zip(made.choices, values, strict=True))
    assert min(usual_seconds(lambda: made.ask(**chosen).seconds) for _ in range(5)) < 0.2
    assert made.ask(**chosen).report.events <= SLOWEST[values]


@pytest.mark.parametrize("name", ["kernel_lab", "serving_lab"])
def test_an_answer_takes_less_than_a_tenth_of_a_second(lab: ModuleType, name: str) -> None:
    """CPU time, the median of settings drawn at random: other work on the machine counts little."""
    made, draw = getattr(lab, name)(), random.Random(11)

    def seconds() -> float:
        return made.ask(**{knob: draw.choice(v) for knob, v in made.choices.items()}).seconds

    assert sorted(usual_seconds(seconds) for _ in range(15))[7] < 0.1


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "no answer here"),
        ({"exp2_period": 7, "rescale_threshold": "own", "p_first_columns": "own"}, "not on its"),
        ({"exp2_period": 10}, "no answer here"),
        ({"exp2_period": 4, "rescale_threshold": "own", "p_first_columns": "own"}, "one knob at a"),
        ({"exp2_period": 8, "rescale_threshold": "own", "p_first_columns": "own"}, "can be had"),
    ],
)
def test_settings_that_are_not_the_best(checks: ModuleType, given: Any, message: str) -> None:
    answer = checks.check_tuned(**given)
    assert not answer.right and message in answer.message


@pytest.mark.parametrize(
    ("splits", "message"),
    [(None, "no answer here"), (0, "not among"), (5, "not among"), (1, "2 tiles on 4 SMs"),
     (3, "6 tiles on 4 SMs")],
)  # fmt: skip
def test_a_wrong_number_of_splits(checks: ModuleType, splits: Any, message: str) -> None:
    answer = checks.check_splits(splits)
    assert not answer.right and message in answer.message
