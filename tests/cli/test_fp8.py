"""`fa4sim fp8`: the numerics of 8-bit inputs, as tables."""

from pathlib import Path

import pytest

from fa4sim.cli import fp8 as command
from fa4sim.cli import fp8_tables

SMALL = ("--table", "choices", "--keys", 512)


def test_the_choices_are_measured_as_asked_for(fa4sim):
    options = (*SMALL, "--dtype", "e4m3", "--offset", 8, "--threshold", 0, "--threshold", 4)
    facts = fa4sim("fp8", *options, "--json").json
    assert facts["schema"] == 1 and list(facts) == ["schema", "seed", "choices"]
    kept, lost = facts["choices"]["rows"]
    assert (kept["threshold"], lost["threshold"]) == (0, 4)
    assert kept["fits"] and not lost["fits"]
    assert lost["relative_error"] > 5 * kept["relative_error"]
    text = fa4sim("fp8", *options).out
    assert f"{lost['relative_error']:.3f}*" in text and f"{kept['relative_error']:.3f} " in text
    assert f"{lost['row_rescales']:.1%}" in text


def test_the_boundaries_stand_beside_the_published_ones(fa4sim):
    text = fa4sim("fp8", "--table", "boundaries").out
    line = next(line for line in text.splitlines() if line.split()[:1] == ["129"])
    _, first, *kept, published = map(float, line.split())
    assert first < 0.96 and min(kept) > 0.999 and published == 0.8628
    assert "2109 (8, 4)" in text


def test_the_tables_come_in_the_order_asked_for_and_once(fa4sim, monkeypatch):
    tables = {}
    for name in ("inputs", "spread"):
        made = fp8_tables.Table(f"Title of {name}", ["a"], [["1"]], [], "Note.", [{"a": 1}])
        monkeypatch.setattr(fp8_tables, name, lambda _seed, made=made: made)
        tables[name] = made
    outcome = fa4sim("fp8", "--table", "spread", "--table", "inputs", "--table", "spread")
    assert outcome.out == "\n\n".join(tables[name].text() for name in ("spread", "inputs")) + "\n"


def test_writing_renews_the_section_and_leaves_the_rest(fa4sim, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in command.TABLES:
        made = fp8_tables.Table(name.title(), ["keys", "x"], [["1", "2"]], ["x"], "Note.", [])
        monkeypatch.setattr(fp8_tables, name, lambda *_args, made=made: made)
    page = tmp_path / command.PAGE
    assert fa4sim("fp8", "--write").out.endswith(f"wrote {command.PAGE}\n")
    first = page.read_text()
    assert first.startswith("# Inference\n\n" + command.BEGIN)
    assert "| keys | x |\n| ---: | :--- |\n| 1 | 2 |" in first
    page.write_text(first.replace("| 1 | 2 |", "| 9 | 9 |") + "\nWritten by hand.\n")
    assert fa4sim("fp8", "--write", "--json").json["file"] == command.PAGE
    assert page.read_text() == first + "\nWritten by hand.\n"


@pytest.mark.parametrize(
    "options, quoted",
    [
        (("--table", "all"), "'all'"),
        (("--dtype", "bf16"), "'bf16'"),
        (("--keys", 0), "0"),
        (("--keys", 10**6), "1000000"),
        (("--score-std", "nan"), "nan"),
        ((*SMALL, "--threshold", -1), "-1"),
        ((*SMALL, "--offset", 127), "127"),
        (("--write", "--table", "spread"), "--table"),
    ],
)
def test_bad_options_are_refused(fa4sim, options, quoted):
    outcome = fa4sim("fp8", *options)
    assert outcome.code == 2 and quoted in outcome.err and outcome.out == ""


def test_the_page_has_what_the_command_measures():
    page = Path(__file__).resolve().parents[2] / command.PAGE
    section = page.read_text("utf-8").split(command.BEGIN)[1].split(command.END)[0]
    made = fp8_tables.choices((0, 4, 8), (0, 0.75, 2, 4, 8), ("e4m3", "e5m2"), 2048, 1.5, 0)
    part = section.split(f"### {made.title}\n")[1].split("\n###")[0]
    written = [[cell.strip() for cell in line.split("|")[1:-1]] for line in part.splitlines()
               if line.startswith("|")]  # fmt: skip
    assert written[0] == made.head and part.strip().endswith(made.note)
    for row, cells in zip(made.rows, written[2:], strict=True):
        assert [cell.strip()[-1:] == "*" for cell in row] == [c[-1:] == "*" for c in cells]
        for ours, theirs in zip(row[2:], cells[2:], strict=True):
            near = pytest.approx(float(theirs.strip("*%")), abs=0.2 if "%" in theirs else 0.002)
            assert float(ours.strip(" *%")) == near
