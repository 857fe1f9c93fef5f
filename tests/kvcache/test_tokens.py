"""Trees of requests: the closed form against an allocator, and what must hold for any of them."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fa4sim.kvcache import OutOfPages, PageAllocator, Tokens

LENGTH = st.integers(0, 40)
TREES = st.recursive(
    LENGTH.map(Tokens),
    lambda inner: st.builds(Tokens, LENGTH, st.lists(inner, max_size=4).map(tuple)),
    max_leaves=12,
)
SIZES = st.integers(1, 20)


@given(tree=TREES, size=SIZES)
def test_the_closed_form_counts_what_an_allocator_allocates(tree, size):
    cache = PageAllocator(size)
    sequences = cache.hold(tree)
    assert [cache.length(number) for number in sequences] == list(tree.sequences())
    assert cache.used == tree.pages(size)
    tables = [cache.table(number) for number in sequences]
    assert len({page for table in tables for page in table}) == cache.used
    alone = PageAllocator(size)
    for length in tree.sequences():
        alone.start(length)
    assert alone.used == tree.alone(size)


@given(tree=TREES, size=SIZES)
def test_sharing_never_costs_more_than_not_sharing(tree, size):
    assert tree.pages(size) <= tree.alone(size)


@given(tree=TREES)
def test_pages_of_one_token_waste_nothing(tree):
    assert tree.pages(1) == tree.distinct
    assert tree.empty_slots(1) == tree.copied_tokens(1) == 0


@given(tree=TREES, size=SIZES, factor=st.integers(1, 5))
def test_pages_that_are_so_many_times_as_large_hold_as_much_or_less(tree, size, factor):
    here, larger = tree.pages(size) * size, tree.pages(factor * size) * factor * size
    assert tree.distinct <= here <= larger
    assert tree.pages(factor * size) <= tree.pages(size)


@given(tree=TREES, size=SIZES)
def test_slots_hold_tokens_copies_or_nothing(tree, size):
    empty, copied = tree.empty_slots(size), tree.copied_tokens(size)
    sequences = len(list(tree.sequences()))
    assert empty >= 0 and copied >= 0
    assert tree.distinct + empty + copied == tree.pages(size) * size
    assert empty <= (size - 1) * sequences
    assert copied <= (size - 1) * sequences


@given(tree=TREES, size=SIZES, more=st.integers(0, 30))
def test_more_tokens_never_take_fewer_pages(tree, size, more):
    longer = dataclasses.replace(tree, tokens=tree.tokens + more * size)
    assert longer.pages(size) == tree.pages(size) + more
    with_another = Tokens(0, (tree, Tokens(more)))
    assert with_another.pages(size) == tree.pages(size) + -(-more // size)


@given(tree=TREES, size=SIZES)
def test_a_node_with_one_continuation_is_one_run_of_tokens(tree, size):
    assert Tokens(7, (tree,)).pages(size) == dataclasses.replace(
        tree, tokens=tree.tokens + 7
    ).pages(size)


@given(tree=TREES, size=SIZES, seed=st.integers(0, 5))
def test_the_order_in_which_branches_grow_does_not_matter(tree, size, seed):
    """Token by token, branches in any order, the prompt's own handle kept to the end."""
    rng = np.random.default_rng(seed)
    cache = PageAllocator(size)
    branches = [cache.start(tree.tokens)]
    grow = [part.tokens for part in tree.then]
    kept = branches[0] if tree.then else None
    if tree.then:
        branches = [cache.fork(kept) for _ in tree.then]
    order = [i for i, count in enumerate(grow) for _ in range(count)]
    for i in rng.permutation(np.array(order, dtype=int)):
        cache.append(branches[i], 1)
    if kept is not None:
        cache.free(kept)
    flat = Tokens(tree.tokens, tuple(Tokens(count) for count in grow))
    assert cache.used == flat.pages(size)


# -- the allocator -----------------------------------------------------------------------------


class Model:
    """Random operations on an allocator, with its invariants checked after each."""

    def __init__(self, size, pages):
        self.cache = PageAllocator(size, pages)
        self.lengths = {}

    def check(self):
        tables = {number: self.cache.table(number) for number in self.lengths}
        held = [page for table in tables.values() for page in set(table)]
        counts = np.bincount(held, minlength=len(self.cache.counts)).tolist() if held else []
        assert [c for c in self.cache.counts if c] == [c for c in counts if c]
        assert self.cache.used == len(set(held)) <= self.cache.peak
        for number, length in self.lengths.items():
            assert self.cache.length(number) == length
            assert len(tables[number]) == -(-length // self.cache.page_size)
        # Pages are written by one sequence at a time: an unfinished last page that others have
        # too is theirs up to the same place.
        for number, table in tables.items():
            full = self.lengths[number] // self.cache.page_size
            for other, theirs in tables.items():
                common = [i for i, page in enumerate(table) if page in theirs]
                assert common == list(range(len(common)))
                if len(common) > full:
                    assert self.lengths[other] >= self.lengths[number]


@given(data=st.data(), size=st.integers(1, 6))
def test_any_history_keeps_the_books(data, size):
    model = Model(size, 40)
    for _ in range(data.draw(st.integers(1, 25))):
        known = sorted(model.lengths)
        what = data.draw(
            st.sampled_from(["start", "append", "fork", "free"] if known else ["start"])
        )
        mine = data.draw(st.sampled_from(known)) if known else -1
        tokens = data.draw(st.integers(0, 15))
        used = model.cache.used
        try:
            if what == "start":
                model.lengths[model.cache.start(tokens)] = tokens
            elif what == "append":
                model.cache.append(mine, tokens)
                model.lengths[mine] += tokens
            elif what == "fork":
                model.lengths[model.cache.fork(mine)] = model.lengths[mine]
            else:
                model.cache.free(mine)
                del model.lengths[mine]
        except OutOfPages:
            assert model.cache.used == used
        model.check()
    for number in list(model.lengths):
        model.cache.free(number)
    assert model.cache.used == 0


def test_running_out_says_how_much_is_missing():
    cache = PageAllocator(4, pages=3)
    first = cache.start(9)
    with pytest.raises(OutOfPages, match="1 more pages of 4 tokens are needed and 0 of 3 are free"):
        cache.append(first, 4)
    assert cache.length(first) == 9
    cache.append(first, 3)
    cache.free(first)
    assert cache.used == 0 and cache.peak == 3


def test_what_no_tree_and_no_cache_can_have_is_refused():
    for build, words in (
        (lambda: Tokens(-1), "tokens=-1 must be 0"),
        (lambda: Tokens(1.5), "tokens=1.5 must be a whole number"),
        (lambda: Tokens(1, (3,)), "then=3 must be Tokens"),
        (lambda: Tokens(1).pages(0), "page_size=0 must be 1"),
        (lambda: PageAllocator(0), "page_size=0 must be 1"),
        (lambda: PageAllocator(4, 0), "pages=0 must be 1"),
        (lambda: PageAllocator(4).append(0, 1), "there is no sequence 0"),
        (lambda: PageAllocator(4).start(-1), "tokens=-1 must be 0"),
    ):
        with pytest.raises(ValueError, match=words):
            build()
