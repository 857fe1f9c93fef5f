"""Layouts and tensor-core arithmetic: what TMA, tcgen05 and wgmma do to bytes, as pure functions.

Nothing here knows of warps, barriers or time. The modules, in the order in which data pass them:

- `formats`: the number formats of tensor cores, to and from float32.
- `tensor_map`, `tma`: boxes of global memory, and copying them; behind them `memory` (an array's
  bytes), `boxes` (views of many boxes) and `reductions` (what a reducing copy does).
- `swizzle`: where the 16-byte chunks of a box land in shared memory.
- `descriptors`: reading a matrix in shared memory through a tcgen05 or wgmma descriptor.
- `instruction`: what an MMA instruction descriptor says.
- `tmem`: which lane and column of tensor memory holds what; `tmem_copy`: tcgen05.cp and shift.
- `fragments`: which thread and register of a warpgroup holds what (wgmma); `warp_fragments`: the
  same of a warp (mma.sync).
- `mma`: the fast product; `faithful`: the product rounded as tensor cores round it; `product`:
  either, of operands that come as bits.

Everything is batched over CTAs on the first axis; index arrays are computed once and cached.
"""
