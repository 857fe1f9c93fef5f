"""What is wanted of our kernel, and the page that says whether it is so."""

from dataclasses import replace

import pytest

from fa4kernel.code.comparison import Tools, facts, look, wishes
from fa4kernel.code.kernels import Kernel
from fa4kernel.code.measure import busiest
from fa4kernel.code.page import Report, page
from tests.code.codes import NO_SPILLS, SHAPE, SPILLS, code
from tests.code.kernels import EXPONENTIALS, stand_in, stand_in_launch

ABSENT = Tools(None, None)


def verdicts(ours, official):
    return [wish.met for wish in wishes(ours, official)]


def test_equal_kernels_are_what_is_wanted():
    assert verdicts(code(), code("official")) == [True, True, True]


def test_fewer_slots_are_wanted_and_one_more_is_too_many():
    assert verdicts(code(exponentials=112), code("official"))[0] is True
    assert verdicts(code(exponentials=114), code("official"))[0] is False


@pytest.mark.parametrize("what", ["mmas", "flops", "loads", "loaded", "stores", "stored"])
def test_other_work_is_not_wanted_be_it_more_or_less(what):
    for count in (3.0, 5.0):
        wish = wishes(code(work={what: count}), code("official"))[1]
        assert wish.met is False
        assert f"per step: {count:g} and 4" in wish.words


def test_spills_are_not_wanted_of_ours_and_no_fault_in_the_official():
    assert verdicts(code(assembly=SPILLS), code("official"))[2] is False
    assert verdicts(code(), code("official", assembly=SPILLS))[2] is True


def test_without_ptxas_nobody_knows_of_spills():
    assert verdicts(code(assembly=None), code("official", assembly=None)) == [True, True, None]


def test_a_kernel_without_a_softmax_cannot_be_judged_by_its_step():
    assert verdicts(code(roles=()), code("official"))[0] is None


def test_a_kernel_is_looked_at_without_any_program():
    kernel = Kernel("ours", "a stand-in", stand_in(), stand_in_launch)
    found = look(kernel, SHAPE, ABSENT)
    assert found.assembly is None and not found.loops and not found.refusal
    assert facts(found)["roles"]["softmax"]["step_slots"] == EXPONENTIALS + 7


def test_a_program_that_refuses_is_quoted(tmp_path):
    path = tmp_path / "ptxas"
    path.write_text("#!/bin/sh\necho 'too new for me' >&2\nexit 1\n")
    path.chmod(0o755)
    kernel = Kernel("ours", "a stand-in", stand_in(), stand_in_launch)
    found = look(kernel, SHAPE, Tools(str(path), None))
    assert found.assembly is None
    assert "too new for me" in found.refusal
    text = page(Report({SHAPE: {"ours": found}}, ABSENT))
    assert "too new for me" in text


def rows(text, first):
    """Cells of the tables' lines that begin with this."""
    lines = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line] for line in lines if line[0] == first]


def test_the_page_has_both_kernels_and_says_what_is_met():
    text = page(
        Report({SHAPE: {"ours": code(exponentials=114), "official": code("official")}}, ABSENT)
    )
    title = SHAPE.title
    wanted, by_role = rows(text, title)
    assert wanted[1:] == [
        "**missed**: 116 and 115", "met: all equal", "met: 0 bytes stored, 0 loaded",
    ]  # fmt: skip
    assert by_role[1:] == ["**116** / 115", "**116** / 115"]
    assert ["MUFU", "114", "113"] in rows(text, "MUFU")
    assert ["**issue slots**", "**116**", "**115**"] in rows(text, "**issue slots**")
    assert rows(text, "machine code") == [["machine code", "120", "120"]]
    assert rows(text, "of this, spills") == [["of this, spills", "7", "7"]]
    assert rows(text, "FLOPs of them per step") == [["FLOPs of them per step", "4", "4"]]
    assert "the official kernel, version 7" in text


def test_a_page_without_ptxas_says_so_clearly():
    text = page(Report({SHAPE: {"ours": code(assembly=None)}}, ABSENT))
    assert "**Ptxas was not found, so registers and spills are not known here" in text
    assert "PTXAS" in text


def test_a_page_about_one_kernel_makes_no_verdict():
    text = page(Report({SHAPE: {"official": code("official")}}, ABSENT))
    assert "## What is wanted" not in text
    assert rows(text, "official")[0][:3] == ["official", "128", "0 / 0"]


def test_the_page_warns_where_steps_or_warps_differ():
    plain = page(Report({SHAPE: {"ours": code()}}, ABSENT))
    assert "differ;" not in plain
    warned = page(Report({SHAPE: {"ours": code(exact=False, even=False)}}, ABSENT))
    assert "ours, softmax: blocks differ; figures are the average of 12." in warned
    assert "ours, softmax: warps differ; figures are those of warp 0." in warned


def test_spilled_bytes_stand_in_the_table():
    text = page(
        Report({SHAPE: {"ours": code(assembly=SPILLS), "official": code("official")}}, ABSENT)
    )
    assert rows(text, "ours")[0][2:4] == ["8 / 24", "16"]
    assert rows(text, "official")[0][2:4] == ["0 / 0", "0"]
    assert NO_SPILLS.registers == 128


def test_the_busiest_sub_partition_has_every_fourth_warp():
    softmax = code(exponentials=100).measured.roles[0]  # 102 slots, with two packed instructions
    mma = replace(softmax, name="mma", warps=(4,), step={"MMA": 32.0})
    load = replace(softmax, name="load", warps=(6,), step={"TMA": 4.0})
    assert busiest(code(roles=(softmax, mma, load)).measured) == 102 + 32
    assert busiest(code(roles=(softmax, load)).measured) == 102 + 4
