"""The generated tables of docs/emulator.md."""

import pytest

from fa4kernel.emulator import tables
from fa4kernel.emulator.checks.hazard import KINDS
from fa4kernel.emulator.isa.table import OPCODES
from fa4kernel.emulator.machine.program import DECODERS


def test_the_page_is_up_to_date():
    assert not tables.pages_differ(), "run `fa4kernel tables --write`"


def test_every_opcode_and_every_check_is_in_a_table():
    text = tables.instructions()
    assert all(f"`{opcode}`" in text for opcode in (*OPCODES, *DECODERS))
    assert all(f"`{kind}`" in tables.checks() for kind in KINDS)
    assert "`arrival-underflow`" in tables.faults()
    assert "2 ulp" in tables.errors()


def test_a_page_that_lacks_a_mark_is_refused(tmp_path):
    with pytest.raises(ValueError, match="lacks the marks"):
        tables.renewed("# A page\n")
    with pytest.raises(ValueError, match="does not exist"):
        tables.page_path(tmp_path)


def test_what_stands_around_the_tables_is_left_as_it_is():
    text = "before\n" + tables.page() + "\nafter\n"
    assert tables.renewed(text.replace("`mapa`", "`paam`")) == text
