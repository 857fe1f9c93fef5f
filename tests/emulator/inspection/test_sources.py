"""Reading the kernel's own source."""

from fa4kernel.emulator.inspection.sources import Sources
from fa4kernel.emulator.ptx.module import Location


def test_a_call_is_found_by_its_place_and_over_several_lines(tmp_path):
    path = tmp_path / "k.py"
    path.write_text("def f():\n    a.b(\n        c.d(1),\n    )\n    return 1\n")
    sources = Sources()
    place = Location(str(path), 2, 4)
    (_, call), *_ = sources.calls(place)
    assert call.func.attr == "b"
    assert sources.function(place) == "f"
    assert sources.line(place) == "a.b("


def test_the_innermost_function_holds_a_line(tmp_path):
    path = tmp_path / "k.py"
    path.write_text("def f():\n    @jit\n    def g():\n        pass\n    pass\n")
    sources = Sources()
    names = [sources.function(Location(str(path), line, 1)) for line in range(1, 6)]
    assert names == ["f", "g", "g", "g", "f"]


def test_what_is_no_source_is_not_read(tmp_path):
    secret = tmp_path / "secret.txt"
    secret.write_text("do not show\n")
    broken = tmp_path / "broken.py"
    broken.write_text("def f(:\n")
    sources = Sources()
    assert sources.line(Location(str(secret), 1, 1)) == ""
    assert sources.line(Location(str(tmp_path / "absent.py"), 1, 1)) == ""
    assert sources.line(Location(str(broken), 1, 1)) == "def f(:"
    assert list(sources.calls(Location(str(broken), 1, 1))) == []
