"""`fa4sim kvcache`: its table, its JSON, its picture, its refusals."""

import pytest


def test_the_json_has_a_row_for_every_page_size(fa4sim):
    outcome = fa4sim("kvcache", "--requests", 100, "--page-size", 1, "--page-size", 64, "--json")
    assert outcome.code == 0
    facts = outcome.json
    assert [row["page_size"] for row in facts["rows"]] == [1, 64]
    one, large = facts["rows"]
    assert one["fragmentation"] == 0 < large["fragmentation"] < 0.2
    assert one["table_bytes"] > 50 * large["table_bytes"]
    assert facts["token_bytes"] == 80 * 8 * 256 * 2 and facts["memory_bytes"] == 40 * 2**30


def test_the_text_says_what_sharing_saves(fa4sim):
    outcome = fa4sim(
        "kvcache", "--prefix", 2000, "--sharers", 50, "--lengths", "uniform:10:500",
        "--branches", 2, "--branch-tokens", 20, "--requests", 100,
    )  # fmt: skip
    assert outcome.code == 0
    for words in ("320 KiB per token", "prefix 2,000 shared by 50", "2 branches of 20", "page size",
                  "sharing saves", "users alone", "Without pages"):  # fmt: skip
        assert words in outcome.out


def test_the_picture_is_written(fa4sim, tmp_path):
    pytest.importorskip("matplotlib")
    target = tmp_path / "pages.png"
    outcome = fa4sim("kvcache", "--requests", 50, "-o", target)
    assert outcome.code == 0 and target.stat().st_size > 10_000


@pytest.mark.parametrize(
    "options, words",
    [
        (("--page-size", 0), "page_size=0 must be 1"),
        (("--memory", 0), "--memory 0 must be more than 0"),
        (("--memory", 0.0001), "holds no page"),
        (("--lengths", "gauss:3"), "lognormal:MEDIAN:SIGMA"),
        (("--branches", 3), "branches=3 differ by nothing"),
        (("--dtype", "int8"), "dtype='int8' must be one of"),
        (("--requests", 0), "requests=0 must be 1"),
        (("--lengths", "0"), "none of the 10 requests has a token"),
        (("-o", ""), "must end in"),
        (("-o", "pages.jpg"), "must end in"),
        (("--write",), "--write takes its own workloads and page sizes and ignores --requests;"),
    ],
)
def test_bad_input_is_refused_with_code_2(fa4sim, options, words):
    outcome = fa4sim("kvcache", "--requests", 10, *options)
    assert outcome.code == 2 and words in outcome.err


@pytest.mark.parametrize(
    "option",
    [
        *(("--lengths", "10"), ("--prefix", 5), ("--sharers", 2), ("--branches", 2)),
        *(("--branch-tokens", "3"), ("--page-size", 16), ("--requests", 2000), ("--json",)),
        ("--out", "pages.png"),
    ],
)
def test_what_writing_the_section_would_ignore_is_refused(fa4sim, monkeypatch, option):
    monkeypatch.setattr("fa4sim.cli.kvcache_page.write", None)  # would be called
    outcome = fa4sim("kvcache", "--write", *option)
    assert outcome.code == 2 and f"ignores {option[0]};" in outcome.err


def test_the_section_is_written_for_the_model_that_is_asked_for(fa4sim, monkeypatch):
    pytest.importorskip("matplotlib")
    asked = []
    monkeypatch.setattr(
        "fa4sim.cli.kvcache_page.write",
        lambda model, memory, seed, views: asked.append((model, memory, seed)) or "page.md",
    )
    outcome = fa4sim(
        "kvcache", "--write", "--layers", 2, "--kv-heads", 1, "--head-dim", 64, "--head-dim-v", 32,
        "--dtype", "e4m3", "--memory", 1, "--seed", 5,
    )  # fmt: skip
    assert outcome.code == 0 and "wrote page.md" in outcome.out
    ((model, memory, seed),) = asked
    assert (model.layers, model.head_dim_v, model.dtype, memory, seed) == (2, 32, "e4m3", 2**30, 5)


def test_the_section_of_the_docs_is_written_between_its_markers(tmp_path):
    from fa4sim.cli.kvcache_page import BEGIN, END, WORKLOADS, section
    from fa4sim.files import put_section
    from fa4sim.kvcache import CacheModel, compare_page_sizes

    model = CacheModel(layers=2)
    compared = {
        name: compare_page_sizes(model, workload, [1, 64], 2**30, requests=30)
        for name, workload in WORKLOADS.items()
    }
    text = section(model, 2**30, compared)
    for rows in compared.values():
        for row in rows:
            assert f"| {row.page_size} | {row.total_bytes / row.requests / 2**20:,.1f} |" in text
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    for _ in range(2):
        put_section(page, f"{BEGIN}\n\n{text}\n\n{END}\n", BEGIN, END, "")
    written = page.read_text()
    assert written.startswith("before\n") and written.endswith(f"{END}\nafter\n")
    assert written.count("chats, nothing in common".capitalize()) == 1 and "old" not in written
