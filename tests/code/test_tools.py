"""ptxas and nvdisasm: what they say, and what happens without them."""

import stat

import pytest

from fa4kernel.code import machine_code, ptxas
from fa4kernel.code.machine_code import MachineLoop, loop_with
from fa4kernel.code.ptxas import Assembly, ToolError, assemble, read, version
from tests.emulator.kernels import RING

SAID = """\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'k' for 'sm_100a'
ptxas info    : Function properties for k
    112 bytes stack frame, 140 bytes spill stores, 184 bytes spill loads
ptxas info    : Used 128 registers, used 16 barriers, 112 bytes cumulative stack size
"""

needs_ptxas = pytest.mark.skipif(ptxas.find() is None, reason="no ptxas here")


@pytest.fixture
def program(tmp_path):
    """Write a program that prints this on standard output and error."""

    def write(out="", err="", code=0):
        path = tmp_path / "program"
        (tmp_path / "out").write_text(out)
        (tmp_path / "err").write_text(err)
        path.write_text(f"#!/bin/sh\ncat {tmp_path}/out; cat {tmp_path}/err >&2; exit {code}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return str(path)

    return write


def test_numbers_are_read_out_of_what_ptxas_says():
    found = read(SAID)
    assert found == Assembly(128, spill_stores=140, spill_loads=184, stack=112, static_shared=0)
    assert found.spills


def test_no_bytes_are_no_spill():
    said = SAID.replace("140 bytes spill", "0 bytes spill").replace("184 bytes", "0 bytes")
    assert not read(said).spills


def test_other_words_are_an_error():
    with pytest.raises(ToolError, match=r"did not say what was expected.*nothing"):
        read("nothing")


@pytest.mark.parametrize("find, name", [(ptxas.find, "PTXAS"), (machine_code.find, "NVDISASM")])
def test_a_program_is_found_by_its_variable_or_not_at_all(monkeypatch, program, find, name):
    path = program()
    monkeypatch.setenv(name, path)
    assert find() == path
    monkeypatch.setenv(name, path + "-that-is-not-there")
    assert find() is None


def test_the_version_is_stated_or_missed(program):
    assert version(program("Cuda compilation tools, release 13.0, V13.0.88\n")) == "13.0.88"
    with pytest.raises(ToolError, match="says no version: 'hello"):
        version(program("hello"))


def test_a_refused_text_is_an_error_with_the_programs_words(program):
    path = program(err="Unsupported .version 9.9", code=255)
    with pytest.raises(ToolError, match=r"Unsupported \.version 9\.9"):
        assemble(RING, path)


def test_a_text_without_a_target_is_not_given_to_it(program):
    with pytest.raises(ToolError, match=r"no \.target"):
        assemble(".version 8.8", program(err=SAID))


@needs_ptxas
def test_a_kernel_is_assembled_for_the_architecture_that_it_names(tmp_path):
    cubin = tmp_path / "ring.cubin"
    found = assemble(RING.format(path="ring.py"), ptxas.find(), cubin)
    assert 0 < found.registers <= 255
    assert not found.spills
    assert found.static_shared >= 32  # its four mbarriers
    assert cubin.stat().st_size > 0


@needs_ptxas
def test_a_version_that_ptxas_does_not_know_is_refused():
    with pytest.raises(ToolError, match=r"99\.9"):
        assemble(RING.format(path="ring.py").replace(".version 8.8", ".version 99.9"), ptxas.find())


SASS = """\
.L_x_3:
        /*0000*/                   MUFU.EX2 R1, R1 ;
.L_x_1:
        /*0010*/                   MUFU.EX2 R2, R2 ;
        /*0020*/              @!P1 STL [R1+0x4], R2 ;
        /*0030*/                   LDL.LU R3, [R1+0x4] ;
        /*0040*/              @!P0 BRA `(.L_x_1) ;
        /*0050*/                   BRA.U UP0, `(.L_x_2) ;
.L_x_2:
        /*0060*/               @P0 BRA `(.L_x_3) ;
        /*0070*/                   EXIT ;
"""


def test_the_shortest_loop_with_so_many_exponentials_is_found():
    assert loop_with(SASS, ["MUFU.EX2"], 1) == MachineLoop(instructions=4, marks=1, spills=2)
    assert loop_with(SASS, ["UTCHMMA", "MUFU"], 2) == MachineLoop(instructions=7, marks=2, spills=2)
    assert loop_with(SASS, ["MUFU.EX2"], 3) is None
    assert loop_with(SASS, ["UTCHMMA"], 1) is None
