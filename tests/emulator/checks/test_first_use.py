"""Where the registers of a tcgen05.ld are needed."""

from __future__ import annotations

from fa4kernel.emulator.checks.first_use import FirstUse
from fa4kernel.emulator.emulate import decode
from fa4kernel.emulator.launch import Launch
from tests.emulator.machine.kernels import kernel

LOAD = "tcgen05.ld.sync.aligned.32x32b.x2.b32 {%a3, %a4}, [%a2];"


def uses(body: str) -> list[str]:
    """The instructions at which the load of a body is complete."""
    program = decode(kernel(body, 0), Launch((1, 1, 1), (32, 1, 1)))
    found = FirstUse(program)
    code = program.context.function.instructions
    places = []
    for start in found.at:
        item = program.item_at[start]
        assert item is not None
        places.append(" ".join(code[i].text for i in range(item.start, item.end)))
    return places


def test_arithmetic_that_reads_a_register_completes_the_load() -> None:
    (place,) = uses("mov.u32 %a2, 0;" + LOAD + "bar.sync 0; add.u32 %a5, %a4, 1; bar.sync 1;")
    assert place == "add.u32 %a5, %a4, 1;"


def test_so_does_a_store_and_a_copy_under_another_name() -> None:
    (place,) = uses(
        "mov.u32 %a2, 0;" + LOAD + "mov.b64 %d1, {%a3, %a4}; bar.sync 0;"
        "mov.b64 {%a5, %a6}, %d1; st.shared.u32 [base], %a6;"
    )
    assert place == "st.shared.u32 [base], %a6;"


def test_a_load_of_the_same_registers_waits_for_the_one_before() -> None:
    places = uses("mov.u32 %a2, 0;" + LOAD + LOAD)
    assert places == [LOAD, LOAD]


def test_a_load_that_nobody_uses_is_never_complete() -> None:
    assert uses("mov.u32 %a2, 0;" + LOAD) == []
