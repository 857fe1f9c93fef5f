import subprocess
import sys
import textwrap

import pytest

pytest.importorskip("fa4kernel.examples", reason="needs the CuTe DSL: pip install 'fa4sim[kernel]'")

from fa4kernel import compiling
from fa4kernel.compiling import CompilationError, compile_module
from fa4kernel.examples import tma_copy

# Stands in for a kernel: writes where the compiler would, what the compiler would know.
TOY = """
    import os, pathlib

    def build(**options):
        folder = pathlib.Path(os.environ["CUTE_DSL_DUMP_DIR"])
        arch = os.environ["CUTE_DSL_ARCH"]
        (folder / "toy.ptx").write_text(f"{arch} {sorted(options.items())} FIRST\\0")
"""


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "fa4sim" / "ptx"


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """The file of an importable module `toy_kernel`."""
    folder = tmp_path / "modules"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, "toy_kernel", raising=False)
    file = folder / "toy_kernel.py"
    file.write_text(textwrap.dedent(TOY))
    yield file
    sys.modules.pop("toy_kernel", None)


def test_the_compiler_is_told_the_architecture_and_the_options(toy):
    assert compile_module("toy_kernel", stages=3) == "sm_100a [('stages', 3)] FIRST"


def test_what_was_compiled_before_is_read_from_the_cache(toy, cache, monkeypatch):
    first = compile_module("toy_kernel", stages=3)
    monkeypatch.setattr(subprocess, "run", None)
    assert compile_module("toy_kernel", stages=3) == first
    assert [path.suffix for path in cache.iterdir()] == [".ptx"]


@pytest.mark.parametrize("left", ["", "sm_100a {", "\0\0\0"])
def test_what_a_power_cut_left_is_compiled_anew(toy, cache, left):
    first = compile_module("toy_kernel", stages=3)
    (stored,) = cache.iterdir()
    stored.write_text(left)
    assert compile_module("toy_kernel", stages=3) == first == stored.read_text()


def test_where_nothing_can_be_kept_a_kernel_is_compiled_with_a_warning(toy, tmp_path):
    (tmp_path / "cache").write_text("a file in the place of the folder")
    with pytest.warns(RuntimeWarning, match=r"cannot be kept in .*; set XDG_CACHE_HOME"):
        assert compile_module("toy_kernel", stages=3).endswith("FIRST")


def test_other_options_and_changed_sources_are_compiled_anew(toy):
    first = compile_module("toy_kernel", stages=3)
    assert compile_module("toy_kernel", stages=4) != first
    toy.write_text(toy.read_text().replace("FIRST", "SECOND"))
    assert compile_module("toy_kernel", stages=3).endswith("SECOND")


def test_the_compilers_own_words_are_in_the_error_and_nothing_is_stored(toy, cache):
    toy.write_text("def build():\n    raise TypeError('no such layout')\n")
    with pytest.raises(CompilationError, match=r"toy_kernel.*(?s:.)*no such layout"):
        compile_module("toy_kernel")
    assert not cache.exists()


def test_a_compiler_that_is_not_installed_is_named(toy, monkeypatch):
    monkeypatch.setattr(compiling, "find_spec", lambda name: None)
    with pytest.raises(CompilationError, match=r"pip install 'fa4sim\[kernel\]'"):
        compile_module("toy_kernel")


def test_a_module_without_a_kernel_is_an_error(toy):
    toy.write_text("def build():\n    pass\n")
    with pytest.raises(CompilationError, match="gave 0 PTX files, one is wanted"):
        compile_module("toy_kernel")


def test_ptx_of_a_kernel_names_the_target_and_the_source_lines():
    ptx = tma_copy.compile_ptx().ptx
    assert f".target {compiling.ARCHITECTURE}\n" in ptx
    assert "\0" not in ptx
    assert ".loc" in ptx
    assert "tma_copy.py" in ptx
