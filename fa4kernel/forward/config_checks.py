"""What a configuration may hold. Every refusal quotes the value and says what is allowed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fa4sim.specs import FP8

if TYPE_CHECKING:
    from fa4kernel.forward.config import Config

SCHEDULERS = ("single_tile", "static_persistent", "lpt", "single_tile_varlen")


def check(cfg: Config, tile: int) -> None:
    """Refuse what the kernel has no form for.

    Args:
        cfg: what is to be compiled.
        tile: rows of a Q tile.

    Raises:
        ValueError: a field holds what it may not.
    """
    for name, value, allowed in (
        ("dtype", cfg.dtype, ("bf16", "fp16", *FP8)),
        ("scheduler", cfg.scheduler, SCHEDULERS),
        ("q_load", cfg.q_load, ("tma", "cp_async")),
        ("kv_load", cfg.kv_load, ("tma", "cp_async")),
        ("epilogue", cfg.epilogue, ("tma", "correction")),
        ("q_stages", cfg.q_stages, (1, 2)),
        ("cta_group", cfg.cta_group, (1, 2)),
    ):
        if value not in allowed:
            words = ", ".join(str(each) for each in allowed)
            raise ValueError(f"{name}={value!r}: the forward kernel knows {words}")
    for name in ("head_dim", "head_dim_v"):
        value = getattr(cfg, name)
        if value % cfg.k_step or not cfg.k_step <= value <= 192:
            raise ValueError(
                f"{name}={value}: must be a multiple of {cfg.k_step} from {cfg.k_step} to "
                f"192, as {cfg.dtype} is multiplied {cfg.k_step} columns at a time"
            )
    if cfg.descale and not cfg.is_fp8:
        raise ValueError(
            f"descale=True with dtype={cfg.dtype!r}: only FP8 is descaled ({', '.join(FP8)})"
        )
    if cfg.split and cfg.cta_group == 2:
        raise ValueError("split=True with cta_group=2: a pair shares no keys; use cta_group=1")
    if cfg.split and cfg.scheduler == "static_persistent":
        raise ValueError(
            "split=True with scheduler='static_persistent': a CTA that shares keys has one "
            "tile; use single_tile, lpt or single_tile_varlen"
        )
    if cfg.kv_load == "cp_async" and (cfg.cta_group == 2 or not cfg.paged):
        without = "with cta_group=2" if cfg.paged else "without pages"
        raise ValueError(
            f"kv_load='cp_async' {without}: threads copy K and V of one CTA, from pages; use "
            "kv_load='tma'"
        )
    by_tma = [name for name in ("q_load", "epilogue") if getattr(cfg, name) == "tma"]
    if cfg.pack_gqa and tile % cfg.group and by_tma:
        raise ValueError(
            f"{by_tma[0]}='tma' with pack_gqa=True and group={cfg.group}: a packed tile of "
            f"{tile} rows is a box for TMA only if the group divides {tile}; use "
            "q_load='cp_async' and epilogue='correction', or pack_gqa=False"
        )
