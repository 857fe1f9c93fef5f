"""Layouts as the DSL prints them: nested tuples of extents, strides and coordinates.

A tree is a leaf or a tuple of trees. Leaves stay text, because they say more than a number:
``?`` is a 32-bit number known at launch, ``?{i64 div=8}`` a 64-bit one, ``64`` a constant, and
``1@0@2`` a step along submode 0 of mode 2 (read from the right).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Tree = Any  # a leaf, or a tuple of trees


def parse(text: str) -> Tree:
    """The tree of one printed tuple.

    >>> parse("((4,?),?{i64 div=8},(1))")
    (('4', '?'), '?{i64 div=8}', ('1',))
    """
    tree, end = _parse(text, 0)
    assert end == len(text), text
    return tree


def parse_layout(text: str) -> tuple[Tree, Tree]:
    """Both halves of a layout, shape and stride.

    >>> parse_layout("(?,64):(1,?{i64})")
    (('?', '64'), ('1', '?{i64}'))
    """
    shape, end = _parse(text, 0)
    assert text[end] == ":", text
    return shape, parse(text[end + 1 :])


def leaves(tree: Tree) -> Iterator[Any]:
    """All leaves, from left to right.

    >>> list(leaves((("4", "?"), "1")))
    ['4', '?', '1']
    """
    if isinstance(tree, tuple):
        for item in tree:
            yield from leaves(item)
    else:
        yield tree


def at(tree: Tree, path: tuple[int, ...]) -> Any:
    """The leaf that a path leads to; one-element tuples on the way end may be left out.

    >>> at((("4", "?"), ("1",)), (0, 1)), at((("4", "?"), ("1",)), (1,))
    ('?', '1')
    """
    for index in path:
        tree = tree[index]
    while isinstance(tree, tuple):
        (tree,) = tree
    return tree


def step_path(step: str) -> tuple[int, ...]:
    """The mode that a printed step ``1@…`` belongs to, outermost first.

    >>> step_path("1@1@0"), step_path("1@2")
    ((0, 1), (2,))
    """
    size, *path = step.split("@")
    assert size == "1", step
    return tuple(int(mode) for mode in reversed(path))


def _parse(text: str, start: int) -> tuple[Tree, int]:
    if text[start] != "(":
        end = start
        while end < len(text) and text[end] not in ",():":
            end = text.index("}", end) + 1 if text[end] == "{" else end + 1
        return text[start:end], end
    items = []
    position = start + 1
    while text[position] != ")":
        item, position = _parse(text, position)
        items.append(item)
        if text[position] == ",":
            position += 1
    return tuple(items), position + 1
