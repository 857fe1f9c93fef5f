"""The HTML file as text: complete, closed, and safe from the names in a trace."""

import base64
import hashlib
import json
import re
from html.parser import HTMLParser

import pytest

from fa4sim.views import Picture, interactive_html, interactive_timeline, write_interactive
from fa4sim.views.interactive import show
from tests.views.interactive.conftest import EVIL, evil_trace


class Elements(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.found = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))


@pytest.fixture(scope="module")
def html(causal_trace) -> str:
    return interactive_html(causal_trace)


def test_it_refers_to_nothing_outside(html):
    for tag, attributes in Elements(html).found:
        for name in ("src", "href", "action", "srcset"):
            assert attributes.get(name, "data:").startswith("data:"), (tag, attributes)
    assert not re.search(r"https?://(?!www\.w3\.org)", html)


def test_its_policy_allows_its_own_script_and_style_and_nothing_else(html):
    (policy,) = (a["content"] for t, a in Elements(html).found
                 if a.get("http-equiv") == "Content-Security-Policy")  # fmt: skip
    assert "default-src 'none'" in policy and "unsafe" not in policy
    for element in ('script type="module"', "style"):
        name = element.split(" ")[0]
        (code,) = re.findall(rf"<{element}>(.*?)</{name}>", html, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()
        assert f"{name}-src 'sha256-{digest}'" in policy


def test_the_static_picture_is_there_until_the_script_runs(html):
    images = [attributes for tag, attributes in Elements(html).found if tag == "img"]
    assert len(images) == 1
    assert images[0]["alt"].startswith("Timeline of CTA 0")


def test_names_of_a_trace_are_data_and_never_markup():
    html = interactive_html(evil_trace(), labels=[EVIL[0]], title=EVIL[1])
    plain = interactive_html(evil_trace(), labels=["run"], title="title")
    assert [tag for tag, _ in Elements(html).found] == [tag for tag, _ in Elements(plain).found]
    assert not any(name in html for name in EVIL)
    (header,) = re.findall(r'id="fa4-header">(.*?)</script>', html)
    assert set(EVIL) <= set(json.loads(header)["runs"][0]["strings"])


def test_a_page_is_written_whole_and_under_its_own_ending(causal_trace, tmp_path):
    target = write_interactive(causal_trace, tmp_path / "a.html")
    assert target.read_text(encoding="utf-8").endswith("</html>\n")
    assert [path.name for path in tmp_path.iterdir()] == ["a.html"]
    with pytest.raises(ValueError, match=r"'.*a\.htm' ends in '\.htm'; a page ends in \.html"):
        write_interactive(causal_trace, tmp_path / "a.htm")


def test_the_same_trace_gives_the_same_page(causal_trace, html):
    assert interactive_html(causal_trace) == html


def test_runs_are_called_after_what_made_them(causal_trace, ticks, measured):
    title = re.compile("<title>(.*)</title>")
    assert title.search(interactive_html(causal_trace, ticks))[1] == "simulated and emulated"
    assert title.search(interactive_html(measured, causal_trace))[1] == "measured and simulated"
    assert title.search(interactive_html(causal_trace, causal_trace))[1] == "a and b"


def test_without_the_widget_library_a_notebook_gets_the_picture(causal_trace, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "fa4sim.views.interactive.widget", None)
    assert isinstance(interactive_timeline(causal_trace), Picture)


def test_a_height_that_holds_nothing_is_refused(causal_trace):
    with pytest.raises(ValueError, match="height=20 must be at least 100"):
        show.interactive_timeline(causal_trace, height=20)
