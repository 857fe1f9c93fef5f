"""The exercises: wrong answers get a message that helps, the solutions pass."""

from __future__ import annotations

import ast
import importlib
import math
import re
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import nbformat
import numpy as np
import pytest

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"
SOLUTIONS = sorted((NOTEBOOKS / "solutions").glob("[0-9]*.md"))


#: The exercises of notebooks 07 to 10 compile kernels.
COMPILING = ("07", "08", "09", "10")
needs_the_dsl = pytest.mark.skipif(
    find_spec("cutlass") is None, reason="needs the CuTe DSL: pip install 'fa4sim[kernel]'"
)


@pytest.fixture(name="checks")
def _checks(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(NOTEBOOKS))
    return importlib.import_module("checks")


def imports_of(path: Path) -> str:
    """The imports of a notebook: what an answer pasted into it may use."""
    cells = nbformat.read(path, as_version=4).cells
    code = "\n".join(cell.source for cell in cells if cell.cell_type == "code")
    return "\n".join(
        ast.unparse(node)
        for node in ast.walk(ast.parse(re.sub(r"^%.*", "", code, flags=re.MULTILINE)))
        if isinstance(node, ast.Import | ast.ImportFrom)
    )


def answers_of(path: Path) -> list[Any]:
    """What the checks say to the answers in a file of solutions, pasted into the notebook."""
    blocks = re.findall(r"```python\n(.*?)```", path.read_text("utf-8"), flags=re.DOTALL)
    imports = imports_of(NOTEBOOKS / f"{path.stem}.ipynb")
    found = []
    for block in blocks:
        *body, last = block.strip().splitlines()
        names: dict[str, Any] = {}
        exec("\n".join([imports, *body]), names)
        found.append(eval(last, names))
    return found


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, id=path.stem, marks=[needs_the_dsl] * path.stem.startswith(COMPILING))
        for path in SOLUTIONS
    ],
)
def test_the_solutions_are_right(checks: ModuleType, path: Path) -> None:
    answers = answers_of(path)
    assert len(answers) == 2
    assert [answer.right for answer in answers] == [True, True], answers


def test_every_notebook_has_solutions() -> None:
    assert [path.stem for path in SOLUTIONS] == [
        path.stem for path in sorted(NOTEBOOKS.glob("[0-9]*.ipynb"))
    ]


@pytest.mark.parametrize(
    "ask",
    [
        lambda c: c.check_slot(lambda *_: None),
        lambda c: c.check_slots_needed(None),
        lambda c: c.check_parity(lambda *_: None),
        lambda c: c.check_mystery(),
        lambda c: c.check_merge(lambda *_: None),
        lambda c: c.check_thresholds(),
        lambda c: c.check_split(lambda *_: None),
        lambda c: c.check_period(None),
        lambda c: c.check_announcement(),
        lambda c: c.check_repair(),
        lambda c: c.check_pair(),
        lambda c: c.check_simulator(),
        lambda c: c.check_count(),
        lambda c: c.check_mask(),
        lambda c: c.check_time(lambda *_: None),
        lambda c: c.check_beside(lambda *_: None),
    ],
)
def test_an_untouched_exercise_says_so(
    checks: ModuleType, ask: Callable[[ModuleType], Any]
) -> None:
    answer = ask(checks)
    assert not answer.right and repr(answer).startswith("✗ Not yet. There is no answer here")


def load(tensor: str, block: int, blocks: int) -> int:
    return 2 * (blocks - 1 - block) + (tensor == "V")


@pytest.mark.parametrize(
    ("slot_of", "message"),
    [
        (lambda t, b, n, s: (2 * b + (t == "V")) % s, "from the last one down"),
        (lambda t, b, n, s: (n - 1 - b) % s, "two slots, not one"),
        (lambda t, b, n, s: (2 * (n - 1 - b) + (t == "K")) % s, "K comes before V"),
        (lambda t, b, n, s: b % s, "number the loads"),
        (lambda t, b, n, s: load(t, b, 8) % s, "here there are 6: use blocks"),
        (lambda t, b, n, s: load(t, b, n) % 3, "use kv_stages"),
        (lambda t, b, n, s: load(t, b, n), "modulo"),
        (lambda t, b, n, s: 0, "you say 0, the simulator put it into slot 1"),
        (lambda t, b, n, s: 1 / 0, "ZeroDivisionError"),
    ],
)
def test_a_wrong_slot(checks: ModuleType, slot_of: Callable[..., int], message: str) -> None:
    answer = checks.check_slot(slot_of)
    assert not answer.right and message in answer.message


@pytest.mark.parametrize(
    ("slots", "message"),
    [(2, "waits"), (6, "fewer slots do"), (9, "not among"), ("4", "without quotes")],
)
def test_a_wrong_number_of_slots(checks: ModuleType, slots: int, message: str) -> None:
    answer = checks.check_slots_needed(slots)
    assert not answer.right and message in answer.message


@pytest.mark.parametrize(
    ("wait_parity", "message"),
    [
        (lambda role, n: n % 2, "Deadlock"),
        (lambda role, n: (n + 1) % 2, "reads an empty slot"),
        (lambda role, n: (n + (role == "mma")) % 2, "reads an empty slot"),
        (lambda role, n: int(role == "load"), "overwrites|Deadlock|reads"),
        (lambda role, n: n, "A parity is 0 or 1"),
        (lambda role, n: [][n], "IndexError"),
    ],
)
def test_a_wrong_parity(
    checks: ModuleType, wait_parity: Callable[[str, int], int], message: str
) -> None:
    answer = checks.check_parity(wait_parity)
    assert not answer.right and re.search(message, answer.message)


@pytest.mark.parametrize(
    ("said", "message"),
    [
        (("S_full", "tensor", "arrival"), "as a victim"),
        (("SoftmaxStatsW0[0]", "softmax0", "arrival"), "as a victim"),
        (("P_full", "correction", "arrival"), "no barrier"),
        (("P_full_O_rescaled", "softmax0", "arrival"), "softmax0 did its part"),
        (("P_full_O_rescaled[0]", "correction", "count"), "half of them are missing"),
        (("P_full_O_rescaled", "mma", "wait"), "hazard"),
        (("P_full_O_rescaled", "correction", "bytes"), "must be"),
        (("P_full_O_rescaled[1]", "correction", "arrival"), "it isn't 1"),
        (("P_full_O_rescaled", "Correction", "arrival"), "There is no role 'Correction'"),
    ],
)
def test_a_wrong_culprit(checks: ModuleType, said: tuple[str, str, str], message: str) -> None:
    answer = checks.check_mystery(*said)
    assert not answer.right and message in answer.message


def scaled(base: float) -> Callable[..., tuple[float, float]]:
    def merge(m1: float, l1: float, m2: float, l2: float) -> tuple[float, float]:
        m = max(m1, m2)
        return m, l1 * base ** (m1 - m) + l2 * base ** (m2 - m)

    return merge


@pytest.mark.parametrize(
    ("merge", "message"),
    [
        (lambda m1, l1, m2, l2: (max(m1, m2), l1 + l2), "add the two sums as they are"),
        (scaled(math.e), "not with e"),
        (scaled(0.5), "upside down"),
        (lambda m1, l1, m2, l2: (m2, l1 * 2 ** (m1 - m2) + l2), "larger maximum"),
        (
            lambda m1, l1, m2, l2: (max(m1, m2), l1 * 2 ** (m1 - max(m1, m2)) + l2),
            "only one of the two",
        ),
        (scaled(2.0), "seen nothing"),
        (lambda m1, l1, m2, l2: max(m1, m2), "Return a pair"),
        (lambda m1, l1, m2, l2: (m1, math.nan), "stands for"),
        (lambda m1, l1, m2, l2: (0.0, l1 * 2**m1 + l2 * 2**m2), "larger maximum"),
        (lambda m1, l1, m2, l2: undefined, "NameError"),  # type: ignore[name-defined] # noqa: F821
    ],
)
def test_a_wrong_merge(checks: ModuleType, merge: Callable[..., Any], message: str) -> None:
    answer = checks.check_merge(merge)
    assert not answer.right and message in answer.message


def test_a_part_that_saw_nothing_must_not_spoil_the_other(checks: ModuleType) -> None:
    def merge(m1: float, l1: float, m2: float, l2: float) -> tuple[float, float]:
        if math.isinf(m1) or math.isinf(m2):
            return m1, l1
        return scaled(2.0)(m1, l1, m2, l2)

    answer = checks.check_merge(merge)
    assert not answer.right and "must change nothing" in answer.message


@pytest.mark.parametrize(
    ("fp16", "e4m3", "message"),
    [
        (16, 0, "65,536"),
        (8, 0, "not the largest"),
        (15, 8, "forget the offset"),
        (16, 0, "become infinite"),
        (15, 1, "become 448, and the row would be wrong."),
        (15.5, 0, "whole number"),
        (15, -1, "0 to 1000"),
    ],
)
def test_a_wrong_threshold(checks: ModuleType, fp16: int, e4m3: int, message: str) -> None:
    answer = checks.check_thresholds(fp16, e4m3)
    assert not answer.right and message in answer.message


@pytest.mark.parametrize(
    ("split", "message"),
    [
        (lambda x: (int(x), x - int(x)), "truncates towards zero"),
        (lambda x: (round(x), x - round(x)), "outside|rounds up"),
        (lambda x: (math.floor(x), abs(x) - abs(int(x))), "comes out wrong"),
        (lambda x: (x, 0.0), "no whole number"),
        (lambda x: math.floor(x), "Return a pair"),
        (lambda x: (math.ceil(x), x - math.ceil(x)), "fraction"),
    ],
)
def test_a_wrong_split(checks: ModuleType, split: Callable[[float], Any], message: str) -> None:
    answer = checks.check_split(split)
    assert not answer.right and re.search(message, answer.message)


@pytest.mark.parametrize(
    ("period", "message"),
    [
        (0, "MUFU holds"),
        (32, "MUFU holds"),
        (4, "FMA units hold"),
        (7, "not among"),
        ("8", "without quotes"),
    ],
)
def test_a_wrong_period(checks: ModuleType, period: int, message: str) -> None:
    answer = checks.check_period(period)
    assert not answer.right and message in answer.message


def test_the_mystery_really_hangs(checks: ModuleType) -> None:
    from fa4sim import Deadlock, simulate

    with pytest.raises(Deadlock) as caught:
        simulate(checks.EXAMPLE, checks.mystery_design(), scope="cta")
    assert caught.value.suspects[0] == "P_full_O_rescaled"


@needs_the_dsl
@pytest.mark.parametrize(
    ("barrier", "announced", "message"),
    [
        ("empty", 32768, "as a victim"),
        ("summed[0]", 32768, "as a victim"),
        ("ring", 32768, "no barrier"),
        (1, 32768, "in quotes"),
        ("full", "32768", "whole number of bytes"),
        ("full", 49152, "16,384 announced bytes have not landed"),
        ("full[0]", 16384, "16,384 bytes landed that nobody announced"),
        ("full", 0, "nothing can go on"),
        ("full", 10**7, "at most 1048575"),
    ],
)
def test_a_wrong_announcement(
    checks: ModuleType, barrier: str, announced: int, message: str
) -> None:
    answer = checks.check_announcement(barrier, announced)
    assert not answer.right and message in answer.message


@needs_the_dsl
@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("fence.proxy.async.shared::cta;", "does not wait for a copy"),
        ("bar.sync 1, 128;", "the others don't come"),
        ("cp.async.bulk.commit_group;", "does not wait for it"),
        ("cp.async.bulk.wait_group.read 1;", "how many groups"),
        ("nanosleep.u32 1000;", "Time is no order"),
        ("", "overwrite-while-read"),
        ("wait;", "The emulator refuses it"),
        ("cp.async.bulk.wait_group.read 0", "The emulator refuses it"),
        ("bar.sync 0;\nbar.sync 0;", "one line of PTX"),
        (0, "in quotes"),
    ],
)
def test_a_wrong_repair(checks: ModuleType, statement: str, message: str) -> None:
    answer = checks.check_repair(statement)
    assert not answer.right and message in answer.message


@needs_the_dsl
def test_a_longer_wait_than_needed_is_a_repair_too(checks: ModuleType) -> None:
    answer = checks.check_repair("cp.async.bulk.wait_group 0;")
    assert answer.right and "that the tile has been read is enough" in answer.message


def test_the_checks_need_no_notebook(checks: ModuleType) -> None:
    assert "IPython" not in vars(checks) and sys.modules["checks"] is checks


@pytest.mark.parametrize(
    "fp16, e4m3", [("a", 0), (2000, 0), (15, "b"), (0.5, 0), (-1, 0), (float("nan"), 0)]
)
def test_a_threshold_that_is_none_gets_a_sentence(checks, fp16, e4m3):
    answer = checks.check_thresholds(fp16, e4m3)
    assert not answer.right and "give a whole number" in answer.message


def test_a_mystery_is_answered_in_names(checks):
    for answer in ((3, "a", "arrival"), ("S_full", 1, "wait"), ("S_full", "mma", None)):
        said = checks.check_mystery(*answer)
        assert not said.right


@needs_the_dsl
@pytest.mark.parametrize(
    ("said", "message"),
    [
        ((256, 32768), "works for both CTAs"),
        ((512, 16384), "Whose bytes"),
        (("512", 32768), "without quotes"),
    ],
)
def test_a_wrong_pair(checks: ModuleType, said: tuple[int, int], message: str) -> None:
    answer = checks.check_pair(*said)
    assert not answer.right and message in answer.message


@needs_the_dsl
@pytest.mark.parametrize(
    ("order", "message"),
    [
        (lambda blocks: ["QK0", "QK1", "PV0"], "you name 3 MMAs; the kernel issues 4"),
        (lambda blocks: ["QK0", "QK1", "PV1", "PV0"], "after QK0 QK1, you say PV1"),
        (lambda blocks: ["QK0", "QK1", "PV0", "PV1"] * blocks, "With 2 blocks, after QK1 PV0"),
        (lambda blocks: "QK0", "give a list of names"),
        (lambda blocks: 1 / 0, "ZeroDivisionError"),
        (lambda blocks: None, "no answer here"),
    ],
)
def test_a_wrong_order(checks: ModuleType, order: Callable[[int], Any], message: str) -> None:
    answer = checks.check_order(order)
    assert not answer.right and message in answer.message


@needs_the_dsl
@pytest.mark.parametrize(
    ("said", "message"),
    [
        (("S_empty", 1), "There is no barrier"),
        (("P_full_O_rescaled[0]", 256), "is a victim"),
        (("softmax_stats_empty", 129), "it hangs, softmax0 at softmax_stats_empty[0] with 128 of"),
        (("softmax_stats_empty", 127), "split-arrival"),
        (("softmax_stats_empty", 0), "at least 1"),
    ],
)
def test_a_wrong_count(checks: ModuleType, said: tuple[str, int], message: str) -> None:
    answer = checks.check_count(*said)
    assert not answer.right and message in answer.message


@needs_the_dsl
@pytest.mark.parametrize(
    ("keys", "message"), [(0, "+0 keys"), (-1, "-1 keys"), (2, "+2 keys"), ("1", "whole number")]
)
def test_a_wrong_mask(checks: ModuleType, keys: Any, message: str) -> None:
    answer = checks.check_mask(keys)
    assert not answer.right and message in answer.message


@needs_the_dsl
@pytest.mark.parametrize(
    ("said", "message"),
    [
        (("slots", 3), "has no field 'slots'"),
        (("kv_stages", 4), "barriers: DIFFER"),
        (("epilogue", "correction"), "barriers: DIFFER: Epilogue"),
        (("epilogue", "none"), "epilogue='none'"),
    ],
)
def test_a_wrong_field(checks: ModuleType, said: tuple[str, object], message: str) -> None:
    answer = checks.check_simulator(*said)
    assert not answer.right and message in answer.message


@needs_the_dsl
@pytest.mark.parametrize(
    ("loaded", "message"),
    [
        (lambda q, k: (q + 2 * k) * 256, "512 queries, 512 keys: you say"),
        (lambda q, k: 1 / 0, "ZeroDivisionError"),
        (lambda q, k: None, "no answer here"),
        (lambda q, k: "65536", "Return a number of bytes"),
    ],
)
def test_wrong_bytes(checks: ModuleType, loaded: Callable[[int, int], Any], message: str) -> None:
    answer = checks.check_loaded(loaded)
    assert not answer.right and message in answer.message


@pytest.mark.parametrize(
    ("milliseconds", "message"),
    [
        (lambda t, b, c, hz: t / 132 * b * c / hz * 1e3, "cannot share a tile"),
        (lambda t, b, c, hz: math.ceil(t / 132) * b * c / hz, "Cycles by clock are seconds"),
        (lambda t, b, c, hz: t // 132 * b * c / hz * 1e3, "You round down"),
        (lambda t, b, c, hz: math.ceil(t / 148) * b * c / hz * 1e3, "148 are a B200's"),
        (lambda t, b, c, hz: t * b * c / hz * 1e3, "one SM doing everything"),
        (lambda t, b, c, hz: 7.0, "how many blocks are those"),
        (lambda t, b, c, hz: "0.4 ms", "Return a number of milliseconds"),
        (lambda t, b, c, hz: 1 / 0, "ZeroDivisionError"),
    ],
)
def test_a_wrong_time(checks: ModuleType, milliseconds: Callable[..., Any], message: str) -> None:
    answer = checks.check_time(milliseconds)
    assert not answer.right and message in answer.message


def shared(first: Any, second: Any) -> int:
    return sum(max(0, min(a[1], b[1]) - max(a[0], b[0])) for a in first for b in second)


@pytest.mark.parametrize(
    ("beside", "message"),
    [
        (lambda a, b: shared(a, b) / sum(e - s for s, e in [*a, *b]), "count them for each"),
        (lambda a, b: 0.0, "later start and the earlier end"),
        (lambda a, b: "a third", "Return a number from 0 to 1"),
        (lambda a, b: 1 / 0, "ZeroDivisionError"),
    ],
)
def test_a_wrong_share(checks: ModuleType, beside: Callable[..., Any], message: str) -> None:
    answer = checks.check_beside(beside)
    assert not answer.right and message in answer.message


#: What people type by accident.
ODD = ("x", [1, 2], {}, float("nan"), float("inf"), True, np.arange(3), object(), b"a")


def anything(checks: ModuleType) -> dict[str, Callable[[Any], Any]]:
    """Every check that needs no compiler, as a function of one answer."""
    whole, fp8, pages, splits = map(
        importlib.import_module, ("checks_whole", "checks_fp8", "checks_pages", "checks_splits")
    )
    functions = (
        *(checks.check_slot, checks.check_parity, checks.check_merge, checks.check_split),
        *(whole.check_longest, whole.check_schedule, fp8.check_quantize, fp8.check_arriving),
        *(pages.check_row, splits.check_combine, checks.check_time, checks.check_beside),
    )
    values = (
        *(checks.check_slots_needed, checks.check_period, whole.check_doubled, whole.check_heads),
        *(whole.check_splits, pages.check_page_size, splits.check_count),
    )
    return {
        **{check.__name__: lambda odd, ask=check: ask(lambda *_: odd) for check in functions},
        **{f"{check.__name__}, no function": check for check in functions},
        **{check.__name__: check for check in values},
        "check_mystery, barrier": lambda odd: checks.check_mystery(odd, "mma", "arrival"),
        "check_mystery, role": lambda odd: checks.check_mystery("P_full_O_rescaled", odd, "wait"),
        "check_thresholds": lambda odd: checks.check_thresholds(15, odd),
        "check_tuned": lambda odd: whole.check_tuned(odd, "own", "own"),
    }


@pytest.mark.parametrize("odd", ODD, ids=lambda odd: type(odd).__name__)
def test_an_odd_answer_gets_a_sentence(checks: ModuleType, odd: Any) -> None:
    for name, ask in anything(checks).items():
        answer = ask(odd)
        assert isinstance(answer, checks.Answer) and not answer.right, name
        assert len(answer.message) > 20, name
