"""A value as far as it is known: an origin, a number, and a multiple of another number."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from math import gcd


@dataclass(frozen=True, slots=True)
class Shared:
    """The origin of addresses in shared memory."""


@dataclass(frozen=True, slots=True)
class Param:
    """The origin of addresses in the parameter block."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """The origin of what was loaded from byte ``offset`` of the parameter block."""

    offset: int


@dataclass(frozen=True, slots=True)
class Known:
    """``origin + base + k * step`` for some k; exactly ``origin + base`` if step is 0.

    Of an address in shared memory, ``base`` is the offset in its CTA; ``origin`` is None for a
    plain number.
    """

    base: int
    step: int = 0
    origin: Hashable = None

    @property
    def exact(self) -> bool:
        """Whether nothing is left open."""
        return self.step == 0

    def join(self, other: Known) -> Known:
        """What is known of a value that is one or the other.

        >>> Known(64).join(Known(88))
        Known(base=64, step=24, origin=None)
        """
        if self.origin != other.origin:
            return ANYTHING
        step = gcd(gcd(self.step, other.step), abs(self.base - other.base))
        return Known(min(self.base, other.base), step, self.origin)

    def plus(self, other: Known, sign: int = 1) -> Known:
        """The sum, or with ``sign`` -1 the difference."""
        if self.origin is not None and other.origin is not None:
            return ANYTHING
        origin = self.origin if self.origin is not None else other.origin
        return Known(self.base + sign * other.base, gcd(self.step, other.step), origin)

    def times(self, other: Known) -> Known:
        """The product; an unknown number times a known one is a multiple of it."""
        a, b = (self, other) if other.exact and other.origin is None else (other, self)
        if not b.exact or b.origin is not None:
            return ANYTHING
        if a.origin is not None:
            return Known(0, abs(b.base))
        return Known(a.base * b.base, abs(a.step * b.base))


#: A number of which nothing is known.
ANYTHING = Known(0, 1)
