"""`fa4sim validate`: prints what the validation says, and writes its page only when asked."""

import sys
import types

import pytest

from fa4sim.cli import validate as module


class Answer:
    """A validation of one row, as the real one behaves."""

    def __init__(self, ok=True):
        self.ok = ok

    def to_dict(self):
        return {"rows": [{"published": 1500.0, "simulated": float("nan")}], "ok": self.ok}


@pytest.fixture
def validation(monkeypatch):
    """A stand-in for the validation, which takes most of a minute; records how it was called."""
    fake = types.ModuleType("fa4sim.validation")
    fake.calls, fake.answer, fake.written = [], Answer(), []

    def run_validation(progress=None, sensitivity=True):
        fake.calls.append(sensitivity)
        for done in (1, 2):
            progress(done, 2)
        return fake.answer

    def write_page(result):
        fake.written.append(result)
        return "docs/validation/b200.md"

    fake.run_validation, fake.write_page = run_validation, write_page
    fake.page = lambda result, written: "| published | simulated |\n"
    fake.repository = lambda: "here"
    monkeypatch.setitem(sys.modules, "fa4sim.validation", fake)
    return fake


def test_the_tables_are_printed_and_nothing_is_written(fa4sim, validation):
    outcome = fa4sim("validate")
    assert outcome.code == 0 and "published" in outcome.out
    assert validation.calls == [True] and validation.written == []


def test_the_json_is_the_validations_own(fa4sim, validation):
    facts = fa4sim("validate", "--no-sensitivity", "--json").json
    assert facts["schema"] == 1
    assert facts["rows"] == [{"published": 1500.0, "simulated": None}]
    assert validation.calls == [False]


def test_the_page_is_written_when_asked(fa4sim, validation):
    outcome = fa4sim("validate", "--write")
    assert validation.written == [validation.answer]
    assert module.PAGE in outcome.out


@pytest.mark.parametrize("more", [(), ("--inference",), ("--pages",)])
def test_where_no_page_can_be_written_nothing_is_run(fa4sim, validation, more):
    def repository():
        raise ValueError("site-packages is not a copy of the fa4sim repository")

    validation.repository = repository
    outcome = fa4sim("validate", "--write", *more)
    assert outcome.code == 2 and "is not a copy" in outcome.err
    assert validation.calls == [] == validation.written


def test_errors_beyond_what_is_wanted_fail_with_code_1(fa4sim, validation):
    validation.answer = Answer(ok=False)
    outcome = fa4sim("validate", "--json")
    assert outcome.code == 1
    assert outcome.json["ok"] is False and outcome.json["error"]


def test_the_page_on_inference_is_another(fa4sim, validation):
    def run_inference(progress=None):
        progress(1, 1)
        return validation.answer

    def write_inference_page(result):
        validation.written.append(("inference", result))
        return "docs/validation/inference.md"

    validation.run_inference, validation.write_inference_page = run_inference, write_inference_page
    validation.inference_page = lambda result, written: "| headline | simulated |\n"
    outcome = fa4sim("validate", "--inference", "--write")
    assert outcome.code == 0 and "headline" in outcome.out
    assert "docs/validation/inference.md" in outcome.out
    assert validation.written == [("inference", validation.answer)] and validation.calls == []
    facts = fa4sim("validate", "--inference", "--json").json
    assert facts["rows"] and "file" not in facts


@pytest.mark.parametrize("flag", ["--inference", "--pages"])
@pytest.mark.parametrize("option", ["--sensitivity", "--no-sensitivity"])
def test_the_page_on_inference_varies_no_constants(fa4sim, validation, flag, option):
    outcome = fa4sim("validate", flag, option)
    assert outcome.code == 2 and f"{flag} varies nothing and ignores" in outcome.err
    assert "sensitivity" in outcome.err and validation.calls == []
