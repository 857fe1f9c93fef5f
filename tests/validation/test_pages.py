"""Pages beside what is published of them: every figure on the page is one that was simulated."""

from __future__ import annotations

import pytest

from fa4sim.specs import B200
from fa4sim.validation.pages import NEW, Pages, published_rows, run_pages, variations
from fa4sim.validation.pages_page import BEGIN, END, pages_section, write_pages_section

pytestmark = pytest.mark.slow


@pytest.fixture(name="result", scope="module")
def _result() -> Pages:
    return run_pages()


def times(result: Pages, report: str) -> dict[int, float]:
    return {
        row.problem.page_size or 0: outcome.time_us
        for row, outcome in result.rows
        if row.report == report
    }


def test_the_order_of_page_sizes_is_the_published_one(result: Pages) -> None:
    for report in ("when pages of any size came", "before pointers were transposed"):
        simulated = times(result, report)
        known = {
            row.problem.page_size or 0: row.published_us
            for row in published_rows()
            if row.report == report
        }
        assert sorted(simulated, key=simulated.__getitem__) == sorted(
            known, key=lambda page: known[page] or 0
        )


def test_transposed_pointers_make_page_size_irrelevant(result: Pages) -> None:
    after = times(result, "after")
    rows = [time for page, time in after.items() if page != 128]
    assert max(rows) < 1.02 * min(rows)
    # A page of a block comes by TMA, to which HBM gives more.
    assert after[128] / rows[0] == pytest.approx(B200.cp_async_hbm_share, rel=0.01)
    before = times(result, "before pointers were transposed")
    assert before[1] / after[1] > before[8] / after[8] > before[32] / after[32] > 1


def test_loops_explain_the_rows_of_the_first_kernel_and_only_those(result: Pages) -> None:
    def errors(report: str) -> list[float]:
        return [
            (row.published_us or 0) / outcome.time_us - 1
            for row, outcome in result.rows
            if row.report == report and row.problem.page_size != 128
        ]

    assert all(0 < error < 0.3 for error in errors("when pages of any size came"))
    assert all(error < -0.5 for error in errors("before, with loops"))


def test_nothing_is_faster_than_hbm(result: Pages) -> None:
    for row, outcome in result.rows:
        assert row.kv_bytes / outcome.time_us * 1e6 < B200.hbm_bytes_per_second


def test_prefill_bears_transposed_pointers_and_not_naive_ones(result: Pages) -> None:
    for causal in (False, True):
        whole, small, naive = (
            result.prefill[layout, causal]
            for layout in ("in one piece, single CTAs", "pages of 1", "pages of 1, naive pointers")
        )
        assert 0.9 * whole < small < whole and naive < 0.6 * small


def test_naive_pointers_differ_by_page_numbers_alone(result: Pages) -> None:
    load = {
        row.problem.page_size: outcome.load
        for row, outcome in result.rows
        if row.report == "before pointers were transposed" and row.problem.page_size != 128
    }
    assert load[1]["page numbers"] > 2 * load[8]["page numbers"] > 2 * load[32]["page numbers"] / 2
    for what in ("issue K", "issue V"):
        assert load[1][what] <= 1.1 * load[8][what]


def test_every_new_constant_is_listed_with_source_and_what_it_changes(result: Pages) -> None:
    text = pages_section(result)
    for name in NEW:
        assert f"`{name}`" in text and B200.origins[name].source in text
    assert set(result.varied) == set(variations())
    for row, outcome in result.rows:
        if row.published_us is not None:
            assert f"| {row.published_us:,.0f} | {outcome.time_us:,.0f} |" in text


def test_the_section_is_renewed_alone(result: Pages, tmp_path) -> None:
    with pytest.raises(ValueError, match="--inference --write` first"):
        write_pages_section(result, tmp_path)
    page = tmp_path / "docs" / "validation" / "inference.md"
    page.parent.mkdir(parents=True)
    page.write_text(f"before\n\n{BEGIN}\nold\n{END}\n\nafter\n", encoding="utf-8")
    for _ in range(2):
        assert write_pages_section(result, tmp_path).name == "inference.md"
    text = page.read_text(encoding="utf-8")
    assert text.startswith("before\n\n") and text.endswith(f"{END}\n\nafter\n")
    assert text.count("## Pages of any size") == 1 and "old" not in text
    assert "fa4sim validate --pages --write" in text
