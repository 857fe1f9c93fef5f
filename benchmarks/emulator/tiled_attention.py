"""Plain tiled attention in Triton, run by Triton's interpreter: what the emulator is held against.

    python tiled_attention.py '{"causal": false, "processes": 2}' ARRAYS.npz OUT.npy

It is run by an interpreter that has triton and torch, with `TRITON_INTERPRET=1`. One program works
on a tile of queries of a head and goes through the keys tile by tile, as FlashAttention does; the
heads are shared out among the processes. It prints the CPU seconds of the busiest process and the
seconds that went by, both without imports.
"""

import json
import os
import sys
import time

import numpy as np
import torch
import triton
import triton.language as tl

TILE = 128
LOG2_E = 1.4426950408889634


@triton.jit
def attention(
    q, k, v, out, scale, seqlen_q, seqlen_k, first_head, heads,
    CAUSAL: tl.constexpr, HEAD_DIM: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """One tile of queries: softmax(q kᵀ · scale) v, with exponentials of base 2."""
    block = tl.program_id(0)
    head = first_head + tl.program_id(1)
    dims = head * HEAD_DIM + tl.arange(0, HEAD_DIM)
    stride = heads * HEAD_DIM
    rows = block * TILE + tl.arange(0, TILE)
    # The interpreter multiplies bf16 as if its bits were integers, so matrices are made float32.
    q_tile = tl.load(q + rows[:, None] * stride + dims[None, :]).to(tl.float32)
    largest = tl.full((TILE,), float("-inf"), tl.float32)
    total = tl.zeros((TILE,), tl.float32)
    o = tl.zeros((TILE, HEAD_DIM), tl.float32)
    end = seqlen_k
    if CAUSAL:
        end = tl.minimum(seqlen_k, (block + 1) * TILE + seqlen_k - seqlen_q)
    for start in range(0, end, TILE):
        keys = start + tl.arange(0, TILE)
        k_tile = tl.load(k + keys[:, None] * stride + dims[None, :]).to(tl.float32)
        s = tl.dot(q_tile, tl.trans(k_tile)) * scale
        if CAUSAL:
            s = tl.where(keys[None, :] <= rows[:, None] + seqlen_k - seqlen_q, s, float("-inf"))
        new = tl.maximum(largest, tl.max(s, 1))
        p = tl.exp2(s - new[:, None])
        shrink = tl.exp2(largest - new)
        total = total * shrink + tl.sum(p, 1)
        v_tile = tl.load(v + keys[:, None] * stride + dims[None, :]).to(tl.float32)
        o = o * shrink[:, None] + tl.dot(p, v_tile)
        largest = new
    o = (o / total[:, None]).to(tl.bfloat16)
    tl.store(out + rows[:, None] * stride + dims[None, :], o)


def run(q, k, v, out, causal, first, count):
    """Attention of some heads; tensors (seqlen, heads, head_dim) in bf16."""
    seqlen, heads, head_dim = q.shape
    scale = head_dim**-0.5 * LOG2_E
    grid = (seqlen // TILE, count)
    attention[grid](
        q, k, v, out, scale, seqlen, k.shape[0], first, heads, causal, head_dim, TILE
    )  # fmt: skip


def shared_out(q, k, v, out, causal, processes):
    """The same by several processes; returns CPU seconds of the busiest, and seconds that passed.

    ``out`` must be in shared memory.
    """
    share = q.shape[1] // processes
    started = time.perf_counter()
    children = []
    for number in range(processes):
        child = os.fork()
        if child == 0:
            run(q, k, v, out, causal, number * share, share)
            os._exit(0)
        children.append(child)
    busiest = 0.0
    for child in children:
        _, status, usage = os.wait4(child, 0)
        if status:
            raise RuntimeError(f"a process failed with status {status}")
        busiest = max(busiest, usage.ru_utime + usage.ru_stime)
    return busiest, time.perf_counter() - started


def main(options, source, target):
    """Read Q, K, V (bf16 bits), run, write the output (bf16 bits)."""
    torch.set_num_threads(1)
    with np.load(source) as given:
        q, k, v = (torch.from_numpy(given[name].view(np.int16)) for name in "qkv")
    q, k, v = (x.view(torch.bfloat16) for x in (q, k, v))
    out = torch.empty_like(q).share_memory_()
    cpu, wall = shared_out(q, k, v, out, options["causal"], options["processes"])
    np.save(target, out.view(torch.int16).numpy().view(np.uint16))
    print(json.dumps({"cpu_s": cpu, "wall_s": wall}))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), *sys.argv[2:])
