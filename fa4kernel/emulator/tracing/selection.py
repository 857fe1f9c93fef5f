"""Which CTAs are traced."""

from __future__ import annotations

import re
from dataclasses import dataclass

_RANGE = re.compile(r"(\d+)(?:-(\d+))?")


@dataclass(frozen=True)
class Selection:
    """CTAs by their numbers in the grid, clusters one after the other; None stands for all.

    >>> Selection.parse("cta 0, 2-3").ctas, Selection.parse(True).ctas
    (frozenset({0, 2, 3}), None)
    >>> sorted(Selection.parse("cluster 1", cluster_size=2).ctas)
    [2, 3]
    """

    ctas: frozenset[int] | None

    def __contains__(self, cta: int) -> bool:
        return self.ctas is None or cta in self.ctas

    @classmethod
    def parse(cls, text: bool | str, cluster_size: int = 1) -> Selection:
        """What ``trace=`` asks for: True for all, or "cta 0", "cta 0,2-5", "cluster 1".

        Raises:
            ValueError: it is nothing of that kind.
        """
        if text is True:
            return cls(None)
        words = str(text).split(maxsplit=1)
        if len(words) == 2 and words[0] in ("cta", "ctas", "cluster", "clusters"):
            numbers: set[int] = set()
            for part in words[1].split(","):
                match = _RANGE.fullmatch(part.strip())
                if match is None:
                    break
                numbers.update(range(int(match[1]), int(match[2] or match[1]) + 1))
            else:
                if words[0].startswith("cta"):
                    return cls(frozenset(numbers))
                size = range(cluster_size)
                return cls(frozenset(n * cluster_size + rank for n in numbers for rank in size))
        raise ValueError(
            f'trace={text!r}: give True for all CTAs, or some of them, as in "cta 0", '
            '"cta 0,2-5" or "cluster 1"'
        )
