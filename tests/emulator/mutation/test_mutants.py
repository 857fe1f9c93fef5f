"""What the mutants of a kernel are, and that text and decoded program change alike."""

from __future__ import annotations

import re
from dataclasses import fields

import pytest

from fa4kernel.emulator.machine.program import Program
from fa4kernel.emulator.mutation.mutant import Mutant
from fa4kernel.emulator.mutation.mutants import count_by_kind, mutants_of
from fa4kernel.emulator.mutation.trial import Original, attempt, measure
from fa4kernel.emulator.ptx import parse
from fa4kernel.emulator.ptx.module import Instruction
from tests.emulator.mutation.ring import PTX, ring

FUNCTION = parse(PTX).entry()
MUTANTS = mutants_of(FUNCTION)


def mutants(body: str) -> list[Mutant]:
    """Mutants of a kernel with this body."""
    registers = ".reg .pred %p<9>; .reg .b32 %r<9>; .reg .b64 %rd<9>;"
    return mutants_of(parse(f".entry e() {{ {registers} {body} ret; }}").entry())


def changes(body: str) -> list[tuple[str, str]]:
    """Kind and change of each."""
    return [(m.kind, m.change) for m in mutants(body)]


def texts(body: str) -> dict[str, str | None]:
    """By change, what stands in place of the instruction."""
    return {m.change: m.edits[0].text for m in mutants(body)}


def test_ring_has_mutants_of_every_kind_it_can_have() -> None:
    assert count_by_kind(MUTANTS) == {
        "init": 16,
        "named barrier": 2,
        "phase": 7,
        "wait": 6,
        "arrive": 6,
        "moved arrival": 2,
        "ring": 4,
    }


def test_names_tell_mutants_apart() -> None:
    assert len({m.name for m in MUTANTS}) == len(MUTANTS)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: m.name)
def test_mutated_text_differs_only_where_it_says(mutant: Mutant) -> None:
    old, new = FUNCTION.instructions, parse(mutant.text(PTX, FUNCTION)).entry().instructions
    lines = {old[edit.index].line for edit in mutant.edits}

    def rest(code: tuple[Instruction, ...]) -> list[tuple[int, str]]:
        return [(i.line, i.text) for i in code if i.line not in lines]

    assert rest(old) == rest(new)
    assert [i.text for i in old if i.line in lines] != [i.text for i in new if i.line in lines]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: m.name)
def test_instruction_of_an_edit_is_what_its_text_says(mutant: Mutant) -> None:
    for edit in mutant.edits:
        if edit.instruction is not None:
            new = parse(mutant.text(PTX, FUNCTION)).entry().instructions[edit.index]
            got = edit.instruction
            assert (got.opcode, got.qualifiers) == (new.opcode, new.qualifiers)
            assert (got.operands, got.guard) == (new.operands, new.guard)


class Reread(Mutant):
    """A mutant whose program is decoded from its whole text."""

    def patch(self, program: Program) -> None:
        return None


def fate(original: Original, mutant: Mutant) -> tuple[str, str]:
    """Result and the head of the report, without the tick: it counts what is deleted."""
    outcome = attempt(original, mutant, ("lockstep",))
    return outcome.result, re.sub(r"tick \d+", "tick", outcome.report.split("\n")[0])


def test_patched_program_fares_as_the_decoded_text() -> None:
    original = measure(ring(), ("lockstep",))
    patched = [m for m in MUTANTS if m.patch(original.program) is not None]
    assert len(patched) > 25
    for mutant in patched:
        reread = Reread(*(getattr(mutant, field.name) for field in fields(Mutant)))
        assert fate(original, mutant) == fate(original, reread), mutant.name


def test_wait_is_dropped_by_saying_that_it_has_passed() -> None:
    body = "mbarrier.try_wait.parity.shared.b64 %p1, [%r1+8], %r2;"
    assert texts(body)["dropped"] == "mov.pred %p1, -1;"


def test_unknown_parity_is_flipped_in_a_register_of_its_own() -> None:
    body = "mbarrier.try_wait.parity.shared.b64 %p1, [%r1], %r2;"
    assert texts(body)["for the other parity"] == (
        "{ .reg .b32 changed; xor.b32 changed, %r2, 1; "
        "mbarrier.try_wait.parity.shared.b64 %p1, [%r1], changed; }"
    )


def test_known_count_is_changed_in_place() -> None:
    found = texts("mov.b32 %r3, 128; mbarrier.init.shared.b64 [%r1], %r3;")
    assert found["count + 1"] == "mbarrier.init.shared.b64 [%r1], 129;"
    assert found["count − 1"] == "mbarrier.init.shared.b64 [%r1], 127;"
    assert found["of the next barrier"] == "mbarrier.init.shared.b64 [%r1+8], %r3;"


def test_expectations_lose_their_bytes() -> None:
    body = "mov.b32 %r3, 512; mbarrier.arrive.expect_tx.shared.b64 %rd1, [%r1], %r3;"
    found = texts(body)
    assert found["without bytes"] == "mbarrier.arrive.shared.b64 %rd1, [%r1];"
    assert found["bytes + 16"] == "mbarrier.arrive.expect_tx.shared.b64 %rd1, [%r1], 528;"


def test_copies_report_to_the_next_barrier() -> None:
    copy = (
        (
            "cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes "
            "[%r1], [%rd1, {{%r2, %r3}}], [%r4];"
        )
        .replace("{{", "{")
        .replace("}}", "}")
    )
    assert texts(copy)["on the next barrier"].endswith("[%r4+8];")  # type: ignore[union-attr]


def test_multicast_commits_reach_only_one_cta() -> None:
    commit = (
        "tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster"
        ".multicast::cluster.b64 [%r1], 3;"
    )
    found = texts(commit)
    assert found["only to CTA 0"].endswith("[%r1], 1;")  # type: ignore[union-attr]
    assert found["only to CTA 1"].endswith("[%r1], 2;")  # type: ignore[union-attr]


def test_every_other_instruction_that_orders_is_dropped() -> None:
    body = """
        fence.proxy.async.shared::cta; bar.warp.sync -1; tcgen05.wait::st.sync.aligned;
        tcgen05.fence::before_thread_sync; cp.async.bulk.commit_group;
        cp.async.bulk.wait_group.read 1; barrier.cluster.arrive; barrier.cluster.wait;
        setmaxnreg.inc.sync.aligned.u32 200; griddepcontrol.wait;
        tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;
        tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r1, 512;
    """
    found = [(kind, change) for kind, change in changes(body) if kind != "moved arrival"]
    assert found == [
        ("fence", "dropped"),
        ("warp barrier", "dropped"),
        ("tcgen05 wait", "dropped"),
        ("tcgen05 fence", "dropped"),
        ("group", "not committed"),
        ("group wait", "dropped"),
        ("group wait", "for one group less"),
        ("cluster barrier", "dropped"),
        ("cluster barrier", "dropped"),
        ("registers", "dropped"),
        ("registers", "8 more"),
        ("grid", "dropped"),
        ("allocation", "permit kept"),
        ("allocation", "dealloc dropped"),
        ("allocation", "dealloc of half the columns"),
    ]


def test_arithmetic_has_no_mutants() -> None:
    assert mutants("add.s32 %r1, %r2, 1; selp.b32 %r3, 0, %r1, %p1; xor.b32 %r3, %r3, 1;") == []
