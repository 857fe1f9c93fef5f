"""Several that look on at one machine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Watchers:
    """Passes on whatever a machine tells to each of several watchers that wants to know it.

    >>> class Counts:
    ...     seen = 0
    ...
    ...     def ended(self, convoy):
    ...         self.seen += 1
    >>> counts = Counts()
    >>> watchers = Watchers(counts, object())
    >>> watchers.ended(None), watchers.fence(None, None), counts.seen
    (None, None, 1)
    """

    def __init__(self, *watchers: Any) -> None:
        self.watchers = watchers

    def __getattr__(self, name: str) -> Callable[..., None]:
        if name.startswith("__"):
            raise AttributeError(name)
        wanted = [getattr(each, name) for each in self.watchers if hasattr(each, name)]
        if len(wanted) == 1:
            tell: Callable[..., None] = wanted[0]
        else:

            def tell(*given: Any) -> None:
                for one in wanted:
                    one(*given)

        setattr(self, name, tell)  # found at once the next time
        return tell
