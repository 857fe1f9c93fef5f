"""The check of the built site finds what it is there to find."""

import importlib.util
import sys
from pathlib import Path

import pytest

SITE = Path(__file__).resolve().parents[2] / "docs" / "site"


@pytest.fixture(scope="module")
def check():
    spec = importlib.util.spec_from_file_location("site_check", SITE / "check.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


GOOD = '<h1 id="top">T</h1><a href="b.html#there">b</a><img src="p.png" alt="a picture">'


@pytest.mark.parametrize(
    "body, fault",
    [
        (GOOD, None),
        ('<a href="c.html">c</a>', "links to c.html, which is not there"),
        ('<a href="b.html#gone">b</a>', "links to b.html#gone, and that page has no such place"),
        ('<a href="#gone">here</a>', "links to #gone, and that page has no such place"),
        ('<img src="p.png">', "p.png has no alternative text"),
        ('<img src="p.png" alt=" ">', "p.png has no alternative text"),
        ('<img src="q.png" alt="q">', "links to q.png, which is not there"),
        ('<iframe src="b.html"></iframe>', "b.html has no alternative text"),
        ('<script src="https://cdn.example/x.js"></script>', "loads https://cdn.example/x.js"),
        ('<link href="//fonts.example/f.css">', "loads //fonts.example/f.css from elsewhere"),
        ('<a href="https://example.org/">elsewhere</a>', None),
    ],
)
def test_faults(check, tmp_path, body, fault):
    (tmp_path / "a.html").write_text(body)
    (tmp_path / "b.html").write_text('<p id="there">b</p>')
    (tmp_path / "p.png").write_bytes(b"")
    found = list(check.faults(tmp_path))
    if fault is None:
        assert found == []
    else:
        assert len(found) == 1
        assert found[0].startswith("a.html: ") and fault in found[0]


def test_an_empty_folder_is_a_fault(check, tmp_path):
    assert len(list(check.faults(tmp_path))) == 1
