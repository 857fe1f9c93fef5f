"""Lower bounds: the work of each unit divided by its rate.

No schedule can finish before its busiest unit has done its work. How far a simulated time lies
above the bound says how much the pipeline loses to waiting.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

from fa4sim.analysis.records import text_table

#: Rows of one MMA: a larger tile is several of them, each with its own reads of K and V.
MMA_ROWS = 128


@dataclass(frozen=True)
class Work:
    """What has to be done: FLOPs of both GEMMs, bytes through each memory, exponentials on MUFU.

    For one SM or for the whole chip, as long as the rates are of the same.
    """

    tensor_flops: float = 0.0
    smem_bytes: float = 0.0
    mufu_exps: float = 0.0
    l2_bytes: float = 0.0
    hbm_bytes: float = 0.0

    def __post_init__(self) -> None:
        _check(self, 0.0)


@dataclass(frozen=True)
class Rates:
    """What each unit does per cycle. The defaults are one B200 SM; L2 and HBM as its fair share.

    Source: FlashAttention-4 paper (arXiv 2603.05451), section 3.1, for the first three.
    """

    tensor_flops_per_cycle: float = 8192.0
    smem_bytes_per_cycle: float = 128.0
    mufu_exps_per_cycle: float = 16.0
    l2_bytes_per_cycle: float = 36.0
    hbm_bytes_per_cycle: float = 29.2

    def __post_init__(self) -> None:
        _check(self, 1e-12)


def block_work(
    m: int,
    n: int,
    d: int,
    dv: int | None = None,
    *,
    element_bytes: int = 2,
    cta_group: int = 1,
    emulated: float = 0.0,
) -> Work:
    """The work of ``m`` query rows of one SM on one block of ``n`` keys.

    Args:
        m: query rows, in MMAs of 128 rows.
        n: keys of the block.
        d, dv: head dimensions of Q and K, and of V (the same if not given).
        element_bytes: of Q, K, V and P.
        cta_group: 2 if the SM shares K and V with its pair's other SM, and reads half of each.
        emulated: fraction of the exponentials that don't use the MUFU.

    Returns:
        FLOPs ``2 m n (d + dv)``; shared-memory reads of Q and K for QK and of V for PV, once per
        128 rows (P comes from TMEM); ``m n`` exponentials. L2 and HBM bytes are left at 0.

    Raises:
        ValueError: a size that isn't positive, or ``emulated`` outside 0 to 1.

    >>> bounds(block_work(128, 128, 128))
    {'tensor': 1024.0, 'smem': 768.0, 'mufu': 1024.0, 'l2': 0.0, 'hbm': 0.0}

    Source: FlashAttention-4 paper, section 3.1: ``4 M N d / 8192`` cycles of MMA,
    ``3 M N d / 8192`` of shared memory and ``M N / 16`` of exponentials, for multiples of 128.
    """
    dv = d if dv is None else dv
    sizes = {"m": m, "n": n, "d": d, "dv": dv, "element_bytes": element_bytes}
    for name, value in sizes.items():
        if value <= 0:
            raise ValueError(f"{name}={value} must be positive")
    if cta_group not in (1, 2):
        raise ValueError(f"cta_group={cta_group} must be 1 or 2")
    if not 0 <= emulated <= 1:
        raise ValueError(f"emulated={emulated} is a fraction, 0 to 1")
    mmas = -(-m // MMA_ROWS)
    rows = mmas * MMA_ROWS
    operands = rows * d + mmas * n * d / cta_group + mmas * n * dv / cta_group
    return Work(
        tensor_flops=2.0 * rows * n * (d + dv),
        smem_bytes=operands * element_bytes,
        mufu_exps=rows * n * (1.0 - emulated),
    )


def bounds(work: Work, rates: Rates | None = None) -> dict[str, float]:
    """Lower bounds in cycles by unit: tensor, smem, mufu, l2, hbm."""
    rates = Rates() if rates is None else rates
    return {
        "tensor": work.tensor_flops / rates.tensor_flops_per_cycle,
        "smem": work.smem_bytes / rates.smem_bytes_per_cycle,
        "mufu": work.mufu_exps / rates.mufu_exps_per_cycle,
        "l2": work.l2_bytes / rates.l2_bytes_per_cycle,
        "hbm": work.hbm_bytes / rates.hbm_bytes_per_cycle,
    }


def binding(limits: Mapping[str, float]) -> tuple[str, float]:
    """The unit with the highest lower bound, and that bound in cycles.

    Of several equally high the first is named. Raises ``ValueError`` for no limits at all.

    >>> binding(bounds(block_work(128, 128, 64)))
    ('mufu', 1024.0)
    """
    if not limits:
        raise ValueError("there are no limits to choose from")
    unit = max(limits, key=lambda name: limits[name])
    return unit, limits[unit]


def format_bounds(limits: Mapping[str, float], cycles: float | None = None) -> str:
    """The bounds as aligned text, highest first; with ``cycles``, also as parts of that time."""
    ordered = sorted(limits.items(), key=lambda item: -item[1])
    if cycles is None:
        return text_table(
            ("unit", "at least"), [(unit, f"{bound:,.0f}") for unit, bound in ordered]
        )
    rows = [(unit, f"{bound:,.0f}", f"{bound / cycles:.1%}") for unit, bound in ordered]
    return text_table(("unit", "at least", f"of {cycles:,.0f}"), rows)


def _check(numbers: Work | Rates, least: float) -> None:
    for spec in fields(numbers):
        value = getattr(numbers, spec.name)
        if not least <= value < float("inf"):
            wanted = "a positive number" if least else "0 or more"
            raise ValueError(f"{spec.name}={value} must be {wanted}")
