"""What the notebooks share: tables, charts with a description, the knob, the stepper."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from fa4sim import Deadlock, Design, Fault, Problem, Trace, simulate
from fa4sim.views import alt_text

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"
EXAMPLE = Problem(seqlen_q=256, seqlen_k=1024)


@pytest.fixture(name="lesson")
def _lesson(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(NOTEBOOKS))
    return importlib.import_module("lesson")


@pytest.fixture(name="shown")
def _shown(lesson: ModuleType, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    things: list[Any] = []
    monkeypatch.setattr(lesson, "display", lambda *args, **_: things.extend(args))
    return things


@pytest.fixture(name="trace", scope="module")
def _trace() -> Trace:
    return simulate(EXAMPLE, scope="cta").trace


class MBarrier:
    def __init__(self, count: int) -> None:
        self.count = self.pending = count
        self.bytes = self.completions = 0

    def count_down(self, arrivals: int = 0, announced: int = 0, landed: int = 0) -> None:
        self.pending -= arrivals
        self.bytes += announced - landed
        if self.pending == 0 and self.bytes == 0:
            self.completions += 1
            self.pending = self.count

    def passes(self, parity: int) -> bool:
        return self.completions % 2 != parity


def test_a_table_puts_numbers_on_the_right(lesson: ModuleType) -> None:
    text = lesson.table(["what", "n", "share"], [("K", 32768, "5%"), ("V", 1, "–")]).data
    assert text.splitlines() == [
        "| what | n | share |",
        "| :--- | ---: | ---: |",
        "| K | 32,768 | 5% |",
        "| V | 1 | – |",
    ]


def test_a_chart_says_in_words_what_it_shows(lesson: ModuleType) -> None:
    figure = lesson.chart(
        {"B200": ([0, 1, 2], [30.0, 10.0, 20.0])}, "Cycles", "share", "cycles", marks={"knee": 1}
    )
    assert alt_text(figure) == (
        "Chart: Cycles. Across: share. Up: cycles. B200: 30 at 0, lowest 10 at 1, 20 at 2. "
        "A line at 1 marks knee."
    )


def test_the_picture_of_columns_lists_them(lesson: ModuleType) -> None:
    text = alt_text(lesson.columns_picture([False] * 44 + [True] * 4 + [False] * 80))
    assert "4 of 32 in fragment 1" in text and text.endswith("Columns: 44, 45, 46, 47.")


def test_a_running_maximum_tells_the_reference_from_the_maximum(lesson: ModuleType) -> None:
    text = alt_text(lesson.running_maximum([1.0, 3.0, 2.0], [1.0, 1.0, 1.0], "Row"))
    assert "True running maximum: 1.0, 3.0, 3.0. Reference in use: 1.0, 1.0, 1.0." in text


def test_a_knob_shows_a_slider_and_the_first_picture(lesson: ModuleType, shown: list[Any]) -> None:
    lesson.knob(lambda n: f"picture {n}", n=(3, 2))
    slider, picture = shown
    assert picture == "picture 3" and slider.options == (3, 2)


def test_a_knob_without_widgets_says_how_to_turn_it(
    lesson: ModuleType, shown: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ipywidgets", None)

    def ring(kv_stages: int) -> str:
        return f"picture {kv_stages}"

    lesson.knob(ring, kv_stages=(2, 3))
    hint, picture = shown
    assert "`ring(kv_stages=3)`" in hint.data and picture == "picture 2"


def test_the_stepper_walks_every_slot_to_its_end(lesson: ModuleType, trace: Trace) -> None:
    for slot in range(3):
        stepper = lesson.Stepper(MBarrier, trace, slot)
        barriers, waiting = stepper.state(len(stepper) - 1)
        full, empty = barriers.values()
        assert full.completions == empty.completions > 4
        assert set(waiting.values()) == {""}


def test_the_stepper_says_what_its_picture_shows(lesson: ModuleType, trace: Trace) -> None:
    stepper = lesson.Stepper(MBarrier, trace, 2)
    text = alt_text(stepper.show(0))
    assert text.startswith("Step 0 of ") and "load waits, parity 1" in text
    with pytest.raises(ValueError, match="step -1"):
        stepper.show(-1)


def test_the_stepper_notices_a_barrier_that_is_not_one(lesson: ModuleType, trace: Trace) -> None:
    class Wrong(MBarrier):
        def passes(self, parity: int) -> bool:
            return self.completions % 2 == parity

    stepper = lesson.Stepper(Wrong, trace, 2)
    with pytest.raises(AssertionError, match="disagree"):
        stepper.state(len(stepper) - 1)


def test_a_diagnosis_names_each_role_once(
    lesson: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    from fa4sim import B200

    design = Design.for_problem(EXAMPLE, B200, faults=(Fault("drop_arrival", "load_KV_empty"),))
    with pytest.raises(Deadlock) as caught:
        simulate(EXAMPLE, design, scope="cta")
    lesson.diagnosis(caught.value)
    text = capsys.readouterr().out
    assert text.count("softmax0   stands at") == 1 and "suspects:  load_KV_empty" in text
    lesson.diagnosis(caught.value, reasons=False)
    assert "suspects" not in capsys.readouterr().out


def test_a_meeting_tells_both_parties_and_where_they_stand(
    lesson: ModuleType, shown: list[Any]
) -> None:
    from fa4kernel.emulator.checks.hazard import Hazard, Party, Place
    from fa4kernel.emulator.ptx import parse

    text = ".version 8.8\n.target sm_100a\n.entry e() {\nst.shared.u32 [64], 1;\nret;\n}"
    write = parse(text).entry().instructions[0]
    place = Place("shared", 0, 64, 67)
    parties = Party("warp 0 of CTA 0", write, 3), Party("warp 1 of CTA 0", write, 1234)
    rows = lesson.meeting(Hazard("overwrite-while-written", "no order", *parties, place, count=2))
    assert "2 times at shared bytes 0x40 to 0x43 of CTA 0" in shown[0].data
    assert "| first | warp 0 of CTA 0 | `st.shared.u32` | PTX line 4 | 3 |" in rows.data
    assert "1,234" in rows.data


def test_who_stands_where_is_told_once_for_each_role(lesson: ModuleType) -> None:
    from fa4kernel.emulator.errors import DeadlockError
    from fa4kernel.emulator.waiting import Waiting

    waits = [
        Waiting(cta=0, role=role, warps=(warp,), line=9, text="", source="mma.py:7: full.wait()",
                kind="mbarrier", on=on, arrived=1, expected=2, missing=missing)
        for role, warp, on, missing in (
            ("mma", 12, "S_full[0]", ("load (warp 14)",)),
            ("correction", 8, "stats[0]", ()),
            ("correction", 9, "stats[1]", ()),
        )
    ]  # fmt: skip
    text = lesson.standing(DeadlockError("", waits, [], 1)).data
    assert "| mma | S_full[0] | mma.py:7 | 1 of 2 | load (warp 14) |" in text
    assert "stats[0]" in text and "stats[1]" not in text and text.endswith("nobody |")


def test_two_functions_stand_side_by_side_without_their_docstrings(lesson: ModuleType) -> None:
    def left(x: int) -> bool:
        """Not to be seen."""
        return x < 1

    def right() -> int:
        return 2

    def more() -> int:
        return 3

    text = lesson.beside((left,), (right, more), ("here", "there")).data
    assert text.index("here") < text.index("return x &lt; 1") < text.index("there")
    assert text.index("return 2") < text.index("return 3")
    assert "Not to be seen" not in text
