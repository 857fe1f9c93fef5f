"""Alt text, files, and what importing the views does and does not do."""

import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import pytest
from matplotlib.figure import Figure
from PIL import Image

from fa4sim.views import alt_text, save, timeline
from fa4sim.views.files import write_whole


@pytest.fixture
def figure(measured):
    return timeline(measured)


def test_png_carries_the_alt_text(figure, tmp_path):
    path = save(figure, tmp_path / "a name with ünïcode & 'quotes'.png")
    with Image.open(path) as image:
        assert image.info["Description"] == alt_text(figure)
        assert image.info["Title"] == figure.fa4sim_title
        assert image.width == 1500


def test_svg_carries_title_and_description(figure, tmp_path):
    figure.describe("a < b & c", "1 < 2 & 3")
    root = ElementTree.parse(save(figure, tmp_path / "picture.SVG")).getroot()
    space = "{http://www.w3.org/2000/svg}"
    assert root.get("role") == "img"
    assert root.find(f"{space}title").text == "a < b & c"
    assert root.find(f"{space}desc").text == "1 < 2 & 3"


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_the_same_figure_gives_the_same_bytes(measured, tmp_path, ending):
    first, second = (
        save(timeline(measured), tmp_path / f"{i}.{ending}").read_bytes() for i in range(2)
    )
    assert first == second


def test_a_notebook_shows_the_alt_text(figure):
    assert f'alt="{figure.fa4sim_alt}"'.replace("'", "&#x27;") in figure._repr_html_()


def test_other_endings_and_other_figures_are_refused(figure, tmp_path):
    with pytest.raises(ValueError, match=r"ends in '.jpeg'; a picture is written as .png, .svg or"):
        save(figure, tmp_path / "x.jpeg")
    with pytest.raises(ValueError, match=r"no alt text: it was not made by fa4sim\.views"):
        save(Figure(), tmp_path / "x.png")
    with pytest.raises(FileNotFoundError):
        save(figure, tmp_path / "nowhere" / "x.png")
    assert not list(tmp_path.iterdir())


def test_a_file_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    target = tmp_path / ("n" * 255)  # as long as a name may be
    write_whole(target, b"before")
    monkeypatch.setattr("pathlib.Path.replace", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        write_whole(target, b"after")
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"before"]


def test_importing_fa4sim_does_not_import_matplotlib_and_views_not_pyplot():
    code = (
        "import sys, fa4sim; assert 'matplotlib' not in sys.modules;"
        "import fa4sim.views; assert 'matplotlib.pyplot' not in sys.modules;"
        "assert 'perfetto' not in sys.modules and 'google.protobuf' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_without_matplotlib_the_error_says_what_to_install():
    code = "import sys; sys.modules['matplotlib'] = None; import fa4sim.views"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "ImportError: pictures need matplotlib: pip install 'fa4sim[viz]'" in done.stderr
