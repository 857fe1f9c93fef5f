"""Which registers share cells, which copies vanish, and which rows are shared over time."""

from hypothesis import given
from hypothesis import strategies as st

from fa4kernel.emulator.machine.cells import Constant, Fixed, Slot
from fa4kernel.emulator.machine.program import Context
from fa4kernel.emulator.machine.rows import _scan
from fa4kernel.emulator.ptx import parse

HEAD = """
.version 8.8
.target sm_100a
.address_size 64
.extern .shared .align 1024 .b8 smem[];
.visible .entry k(.param .u32 n)
{
.reg .pred %p<9>; .reg .b16 %h<9>; .reg .b32 %r<20>; .reg .b64 %rd<20>;
"""


def context(body):
    module = parse(HEAD + body + "\n}\n")
    return Context(module, module.entry(), 4096)


def vanished(body):
    found = context(body)
    return [found.function.instructions[i].text for i in sorted(found.cells.vanished)]


def test_copies_packs_and_constants_are_other_names():
    cells = context("""
        ld.param.u32 %r1, [n];
        mov.b32 %r2, %r1;
        mov.b64 %rd1, {%r2, 0x40004040};
        mov.b64 {%r3, %r4}, %rd1;
        mov.b32 %r5, 7;
        mov.u32 %r6, %tid.x;
        add.s32 %r7, %r3, %r6;
        st.shared.b32 [%r7], %r5;
    """).cells
    assert cells.of["%r3"] == cells.of["%r2"] == cells.of["%r1"]
    assert cells.of["%r4"] == (Constant(0x40004040),)
    assert cells.of["%rd1"] == cells.of["%r1"] + cells.of["%r4"]
    assert cells.of["%r5"] == (Constant(7),)
    assert cells.of["%r6"] == (Fixed("%tid.x"),)
    assert isinstance(cells.of["%r7"][0], Slot)


def test_a_register_written_twice_is_no_name():
    text = "mov.b32 %r1, 1; L: mov.b32 %r1, 2; mov.b32 %r2, %r1; st.shared.b32 [%r2], %r1; bra L;"
    assert vanished(text) == []


def test_a_guarded_copy_is_executed():
    body = """
        ld.param.u32 %r1, [n]; setp.eq.s32 %p1, %r1, 0; @%p1 mov.b32 %r2, %r1;
        st.shared.b32 [%r2], %r1;
    """
    assert vanished(body) == []


def test_a_copy_that_does_not_come_before_every_use_is_executed():
    body = """
        ld.param.u32 %r1, [n];
        setp.eq.s32 %p1, %r1, 0;
        @%p1 bra L;
        mov.b32 %r2, %r1;
        L: st.shared.b32 [%r2], %r1;
    """
    assert vanished(body) == []


def test_a_copy_in_a_loop_of_what_the_loop_changes_is_executed():
    body = """
        mov.b32 %r1, 0;
        L: mov.b32 %r2, %r1;
        add.s32 %r1, %r1, 1;
        st.shared.b32 [%r2], %r1;
        setp.lt.s32 %p1, %r1, 5;
        @%p1 bra L;
    """
    assert vanished(body) == []


def test_halves_of_16_bits_are_put_together_by_an_instruction():
    body = "ld.shared.b16 %h1, [smem]; mov.b32 %r1, {%h1, %h1}; st.shared.b32 [smem], %r1;"
    assert vanished(body) == []


def test_generic_addresses_of_shared_memory_have_their_own_window():
    cells = context("""
        ld.param.u32 %r1, [n];
        cvt.u64.u32 %rd1, %r1;
        cvta.shared.u64 %rd2, %rd1;
        cvta.to.shared.u64 %rd3, %rd2;
        st.shared.b32 [%r1], %r1;
    """).cells
    low = cells.of["%r1"]
    assert cells.of["%rd1"] == (*low, Constant(0))
    assert cells.of["%rd2"][:1] == low and cells.of["%rd2"][1] != Constant(0)
    assert cells.of["%rd3"] == cells.of["%rd1"]


RANGES = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 12)), min_size=1, max_size=40).map(
    lambda pairs: {i: (a, a + length) for i, (a, length) in enumerate(pairs)}
)


@given(RANGES)
def test_cells_that_live_together_have_different_rows(ranges):
    row_of, rows = _scan(ranges, {})
    assert set(row_of) == set(ranges) and max(row_of.values()) < rows
    for a, (a0, a1) in ranges.items():
        for b, (b0, b1) in ranges.items():
            if a < b and row_of[a] == row_of[b]:
                assert a1 < b0 or b1 < a0


def test_registers_that_one_load_fills_get_rows_in_a_row():
    found = context("""
        mov.b32 %r9, 0;
        tcgen05.ld.sync.aligned.32x32b.x4.b32 {%r1, %r2, %r3, %r4}, [%r9];
        st.shared.v4.b32 [smem], {%r4, %r3, %r2, %r1};
    """)
    rows = [found.rows.of[found.cells.of[f"%r{i}"][0].number] for i in (1, 2, 3, 4)]
    assert rows == list(range(rows[0], rows[0] + 4))


def test_a_register_read_before_it_is_written_is_told():
    found = context("ld.param.u32 %r1, [n]; add.s32 %r2, %r1, %r3; st.shared.b32 [smem], %r2;")
    assert found.rows.unset == ("%r3",)
