"""Simulated runs that the tests of the analysis share, by name; each is simulated once."""

from functools import cache

from fa4sim import B200, Design, Machine, Problem, Run, simulate

SLOW_TMA = B200.with_constants(tma_l2_latency_cycles=3000)
SLOW_MUFU = B200.with_constants(mufu_cycles_per_warp=32)

#: Problem, changes to the kernel's design, and the machine if it isn't a B200.
CASES: dict[str, tuple[dict[str, object], dict[str, object], Machine]] = {
    "pair": ({"seqlen_q": 2048}, {}, B200),
    "pair, one block": ({"seqlen_q": 512, "seqlen_k": 128}, {}, B200),
    "one CTA": ({"seqlen_q": 2048}, {"cta_group": 1}, B200),
    "causal": ({"seqlen_q": 2048, "causal": True}, {}, B200),
    "window": ({"seqlen_q": 2048, "window": (500, 0)}, {}, B200),
    "one Q tile": ({"seqlen_q": 128, "seqlen_k": 1024}, {}, B200),
    "d=64": ({"seqlen_q": 1024, "head_dim": 64}, {}, B200),
    "d=16": ({"seqlen_q": 1024, "head_dim": 16}, {}, B200),
    "(192,128)": ({"seqlen_q": 2048, "head_dim": 192, "head_dim_v": 128}, {}, B200),
    "(192,128) causal": (
        {"seqlen_q": 2048, "head_dim": 192, "head_dim_v": 128, "causal": True},
        {},
        B200,
    ),
    "fp8": ({"seqlen_q": 2048, "dtype": "e4m3"}, {}, B200),
    "always rescale": ({"seqlen_q": 1024}, {"rescale_threshold": 0.0}, B200),
    "P stored early": ({"seqlen_q": 1024}, {"p_store_early": True}, B200),
    "P in one part": ({"seqlen_q": 1024}, {"p_first_columns": 128}, B200),
    "softcap": ({"seqlen_q": 1024, "softcap": 30.0}, {}, B200),
    "varlen": ({"heads": 2, "seqlens_q": (100, 700), "seqlens_k": (300, 900)}, {}, B200),
    "cp.async Q": ({"seqlen_q": 32, "seqlen_k": 1024, "heads": 3, "kv_heads": 1}, {}, B200),
    "dynamic": ({"seqlen_q": 1024}, {"scheduler": "dynamic"}, B200),
    "two ring slots, slow TMA": ({"seqlen_q": 2048}, {"kv_stages": 2}, SLOW_TMA),
    "slow MUFU": ({"seqlen_q": 2048}, {"exp2_period": 0}, SLOW_MUFU),
}

#: Whole GPUs whose first CTA or pair works on two tiles.
TWO_TILES: dict[str, tuple[dict[str, object], dict[str, object], Machine]] = {
    "pair, persistent": ({"batch": 4, "heads": 16, "seqlen_q": 1024}, {}, B200),
    "pair, dynamic": (
        {"batch": 4, "heads": 16, "seqlen_q": 1024},
        {"scheduler": "dynamic"},
        B200,
    ),
    "O shares Q's memory": (
        {"batch": 4, "heads": 16, "seqlen_q": 1024, "head_dim": 192, "head_dim_v": 128},
        {},
        B200,
    ),
}


@cache
def run_of(name: str) -> Run:
    """The run called ``name``."""
    fields, changes, machine = (CASES | TWO_TILES)[name]
    problem = Problem(**fields)
    design = Design.for_problem(problem, machine, **changes)
    return simulate(problem, design, machine, scope="cta" if name in CASES else "gpu")
