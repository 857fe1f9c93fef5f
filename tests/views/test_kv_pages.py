"""Pictures of pages: what they say in words."""

import pytest

from fa4sim.kvcache import CacheModel, Lengths, PageAllocator, Tokens, Workload, compare_page_sizes
from fa4sim.views import alt_text, page_map, page_sizes, save


def test_page_sizes_are_told_in_numbers(tmp_path):
    workload = Workload(Lengths.of("uniform:1:500"), prefix=100, sharers=10)
    rows = compare_page_sizes(CacheModel(), workload, [1, 128], 2**34, requests=100)
    picture = page_sizes(rows)
    text = alt_text(picture)
    for row in rows:
        assert f"pages of {row.page_size:,}" in text and f"{row.users:,} users" in text
    assert save(picture, tmp_path / "sizes.svg").exists()
    with pytest.raises(ValueError, match="no rows to draw"):
        page_sizes([])


def test_a_map_tells_shared_pages_and_empty_slots():
    cache = PageAllocator(16)
    numbers = cache.hold(Tokens(20, (Tokens(3), Tokens(30))))
    text = alt_text(page_map(cache, numbers, ["a", "b"]))
    assert "a has 23 tokens" in text and "b has 50 tokens" in text
    assert "6 pages in use" not in text and "5 pages in use, 1 of them shared" in text
    assert f"{Tokens(20, (Tokens(3), Tokens(30))).empty_slots(16)} slots are empty" in text
    with pytest.raises(ValueError, match="no sequences"):
        page_map(cache, [])
    with pytest.raises(ValueError, match="1 names for 2 sequences"):
        page_map(cache, numbers, ["a"])
    with pytest.raises(ValueError, match="there is no sequence 99"):
        page_map(cache, [99])
