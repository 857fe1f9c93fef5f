"""FlashAttention-4's forward pass for Blackwell, in CuTe DSL, written to be read.

Start with `kernel` (the warps and their roles), then follow a tile through `load`, `mma`,
`softmax`, `correction` and `epilogue`. `barriers` has every barrier in one table, `config` what is
fixed when the kernel is compiled, `memory` where things lie. The simulator's roles
(`fa4sim.pipelines.fa4`) have the same file names and the same barriers.
"""
