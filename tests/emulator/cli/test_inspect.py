"""`fa4kernel inspect` and `fa4kernel tables`."""

import runpy


def test_a_kernel_is_told_with_parameters_barriers_and_roles(fa4kernel, kernel):
    outcome = fa4kernel("inspect", kernel)
    assert outcome.code == 0
    for words in ("kernel ring", "64 threads", "ring.full", "produce", "pointer", "never read"):
        assert words in outcome.out
    assert "every instruction is supported" in outcome.out


def test_json_holds_the_same(fa4kernel, kernel):
    facts = fa4kernel("inspect", kernel, "--json").json
    assert facts["schema"] == 1
    (found,) = facts["kernels"]
    assert found["block"] == [64, 1, 1]
    assert [p["seems_to_be"] for p in found["parameters"]] == [
        "pointer", "scalar u32", "never read",
    ]  # fmt: skip
    assert [b["count"] for b in found["mbarriers"]] == [1, 1, 32, 32]
    waits = [s for s in found["mbarriers"][0]["sites"] if s["way"] == "wait"]
    assert [site["roles"] for site in waits] == [["consume"]]
    assert [role["warps"] for role in found["roles"]] == [[0], [1]]
    assert found["unsupported"] == []


def test_all_unsupported_instructions_are_told_and_end_with_1(fa4kernel, kernel):
    text = kernel.read_text().replace("bar.sync 0;", "bar.nowhere 0;\nbar.elsewhere 0;")
    kernel.write_text(text)
    outcome = fa4kernel("inspect", kernel)
    assert outcome.code == 1
    assert "bar.nowhere 0;" in outcome.out
    assert "bar.elsewhere 0;" in outcome.out
    assert "2 instructions are not supported" in outcome.err


def test_a_template_is_written_and_leads_to_a_run(fa4kernel, kernel, tmp_path):
    target = tmp_path / "described.py"
    assert fa4kernel("inspect", kernel, "--template", target).code == 0
    assert len(runpy.run_path(str(target))["launch"]().arguments) == 3
    assert fa4kernel("emulate", kernel, "--launch", target).code == 0


def test_a_file_that_exists_is_not_overwritten(fa4kernel, kernel, tmp_path):
    target = tmp_path / "mine.py"
    target.write_text("precious")
    outcome = fa4kernel("inspect", kernel, "--template", target)
    assert outcome.code == 2
    assert target.read_text() == "precious"


def test_an_entry_is_chosen_by_name(fa4kernel, kernel, tmp_path):
    text = kernel.read_text().rstrip("\0")
    second = text[text.index(".visible") :].replace("entry ring(", "entry second(")
    kernel.write_text(text + second)
    assert len(fa4kernel("inspect", kernel, "--json").json["kernels"]) == 2
    outcome = fa4kernel("inspect", kernel, "--entry", "second", "--json")
    assert [k["name"] for k in outcome.json["kernels"]] == ["second"]
    missing = fa4kernel("inspect", kernel, "--entry", "third")
    assert missing.code == 2
    assert "it has ring, second" in missing.err
    several = fa4kernel("inspect", kernel, "--template", tmp_path / "t.py")
    assert several.code == 2
    assert "--entry" in several.err


def test_the_tables_are_printed(fa4kernel):
    outcome = fa4kernel("tables")
    assert outcome.code == 0
    assert "`mapa`" in outcome.out
