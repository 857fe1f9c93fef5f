"""The combine kernel: partial results of split keys become one output.

Its CTAs are small: 256 threads, eight rows of O (sixteen up to head dim 64), one warp for each row
or two. A warp reads the log-sum-exps of all splits, turns them into weights, and adds up the
partial outputs split by split, with four copies in flight. Several CTAs share an SM.

Source: ``flash_fwd_combine.py`` and ``_flash_attn_fwd_combine`` of flash-attention at commit
0251105a.
"""

from fa4sim.pipelines.combine.gpu import CombineResult, simulate_combine
from fa4sim.pipelines.combine.shape import CombineCta, CombineShape

__all__ = ["CombineCta", "CombineResult", "CombineShape", "simulate_combine"]
