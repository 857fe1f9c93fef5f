"""Which CTAs are traced."""

import pytest

from fa4kernel.emulator.tracing import Selection


def test_ctas_are_chosen_one_by_one_in_ranges_or_by_cluster():
    assert Selection.parse("cta 3").ctas == {3}
    assert Selection.parse("ctas 0, 4-6").ctas == {0, 4, 5, 6}
    assert Selection.parse("cluster 1,3", 2).ctas == {2, 3, 6, 7}
    assert all(cta in Selection.parse(True) for cta in range(100))


@pytest.mark.parametrize("text", ["", "0", "cta", "cta x", "cta 1-", "grid 0", "cta 1 2"])
def test_anything_else_is_refused_with_what_is_allowed(text):
    with pytest.raises(ValueError, match='"cluster 1"'):
        Selection.parse(text)
