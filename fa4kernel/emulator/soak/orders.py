"""The schedules of a soak."""

from __future__ import annotations

from fa4kernel.emulator.machine.agents import UNITS

#: Seeds of the orders in which an adversary meets a random rest.
ADVERSE_SEED = 1000


def schedules(count: int, warps: int, ctas: int) -> list[str]:
    """Lock step, adversaries, and as many seeds as make it ``count``.

    Adversaries delay and hurry each unit, in lock step and at random, each warp and each CTA (the
    first four at most).

    Args:
        count: schedules.
        warps: of a CTA.
        ctas: of the grid.

    >>> found = schedules(100, 4, 2)
    >>> len(found), len(set(found)), found[:3], found[-1]
    (100, 100, ['lockstep', 'delay tma', 'hurry tma'], '66')
    >>> schedules(2, 4, 2)
    ['lockstep', '0']
    """
    ways = ("delay", "hurry")
    adverse = [f"{way} {unit}" for unit in UNITS for way in ways]
    adverse += [f"{each} seed {ADVERSE_SEED + n}" for n, each in enumerate(adverse)]
    adverse += [f"{way} warp {warp}" for warp in range(warps) for way in ways if warps > 1]
    adverse += [f"{way} cta {cta}" for cta in range(min(ctas, 4)) for way in ways if ctas > 1]
    if len(adverse) >= count:  # a small soak: every so many-th of them, and seeds
        adverse = adverse[:: -(-2 * len(adverse) // count)] if count > 2 else []
    seeds = [str(seed) for seed in range(count - 1 - len(adverse))]
    return ["lockstep", *adverse, *seeds]
