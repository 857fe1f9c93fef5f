"""A forward kernel for Hopper (`sm_90a`), in CuTe DSL, after FlashAttention-3.

A producer warp loads, consumer warpgroups compute: `kernel` has the warps, `load` and `consumer`
the roles, `barriers` every barrier in one table. What is not particular to Hopper comes from
`fa4kernel.forward`.
"""
