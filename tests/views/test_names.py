"""Pictures, pages and Perfetto of traces whose names nobody has thought of."""

import re

import pytest

from fa4sim.trace import Trace
from fa4sim.views import read_perfetto, save, timeline, unit_utilisation, write_perfetto
from fa4sim.views.interactive import interactive_html, write_interactive
from fa4sim.views.layout import WIDEST_NAME, shortened
from fa4sim.views.style import SMALL, text_width

NAMES = ("$$", "$x", r"$\frac{", "%s {0}", "__proto__", "", "name " * 60, "y" * 400)


def named(name: str) -> Trace:
    """A span, a wait and a counter, and all that has a name has this one."""
    trace = Trace("cycles", {"machine": name})
    for i in range(2):
        who = {"sm": 0, "cta": 0, "role": name, "warp": i}
        trace.add("span", **who, unit=name, op=name, start=100 * i, end=100 * i + 60)
        trace.add("wait", **who, on=name, kind="barrier", reason=name, stage=0, phase=1,
                  start=100 * i + 60, end=100 * i + 90)  # fmt: skip
        trace.add("counter", sm=0, cta=0, name=name, time=10 * i, value=i)
    return trace


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("ending", ["png", "svg"])
def test_pictures_show_any_name_as_it_is(name, ending, tmp_path):
    trace = named(name)
    for number, figure in enumerate((timeline(trace), unit_utilisation(trace))):
        assert save(figure, tmp_path / f"{number}.{ending}").stat().st_size > 1000


@pytest.mark.parametrize("name", NAMES)
def test_pages_and_perfetto_take_any_name(name, tmp_path):
    trace = named(name)
    page = write_interactive(trace, tmp_path / "page.html").read_text(encoding="utf-8")
    assert re.search(r'id="fa4-header">.*</script>', page)
    assert interactive_html(trace)
    read = read_perfetto(write_perfetto(trace, tmp_path / "trace.pftrace"))
    assert len(read.slices) == 4 and any(name in "/".join(track) for track in read.tracks)


def test_a_long_name_keeps_its_beginning_and_its_end():
    long = shortened("load_" + "x" * 300 + "_empty[3]")
    assert long.startswith("load_") and long.endswith("empty[3]") and "…" in long
    assert 0.8 * WIDEST_NAME < text_width(long, SMALL) <= WIDEST_NAME


def test_a_counter_says_its_unit_if_its_name_tells_it(tmp_path):
    trace = named("depth")
    trace.add("counter", sm=0, cta=0, name="tmem_columns_in_use", time=0, value=1)
    read = read_perfetto(write_perfetto(trace, tmp_path / "trace.pftrace"))
    assert {track[-1]: unit for track, unit in read.units.items()} == {
        "depth": "", "tmem_columns_in_use": "columns"
    }  # fmt: skip
