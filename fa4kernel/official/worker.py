"""Compiles one variant of the official kernel; run by an interpreter that has the package.

    python worker.py '{"dtype": "bf16", ...}' DIRECTORY

No GPU is needed: the tensors are PyTorch's fake ones, and the compiler is told the architecture.
PTX and the intermediate representation stay in DIRECTORY.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

SMS = 148  # of a B200; only the size of a persistent grid, which the launch may choose smaller
SEQUENCES = 3
PAGE = {"tile": 128, "other": 16}
ROWS = {"one tile": 128, "two tiles": 256, "many": 2048}


class Hardware:
    """Stands in for the DSL's question to the driver."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def get_device_multiprocessor_count(self) -> int:
        """SMs of the GPU."""
        return SMS

    def get_max_active_clusters(self, cluster_size: int, *args: Any, **kwargs: Any) -> int:
        """Clusters that run at the same time."""
        return SMS // cluster_size


def compile_variant(v: dict[str, Any]) -> None:
    """Compile the variant described by the dictionary ``v``."""
    import cutlass.utils
    import cutlass.utils.hardware_info
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode

    cutlass.utils.HardwareInfo = cutlass.utils.hardware_info.HardwareInfo = Hardware
    import flash_attn.cute.interface as interface

    dtypes = {
        "bf16": torch.bfloat16,
        "fp16": torch.float16,
        "e4m3": torch.float8_e4m3fn,
        "e5m2": torch.float8_e5m2,
    }

    def empty(*shape: int, dtype: torch.dtype = dtypes[v["dtype"]]) -> Any:
        return torch.empty(*shape, dtype=dtype, device="cuda")

    heads_kv = 2
    heads = heads_kv * v["ratio"]
    pack = v["ratio"] > 1 if v["pack"] is None else v["pack"]
    seqlen_q = max(1, ROWS[v["rows"]] // (v["ratio"] if pack else 1))
    seqlen_k = 8192 if v["long"] else 2048
    options: dict[str, Any] = {}
    with FakeTensorMode():
        ints: dict[str, Any] = {"dtype": torch.int32}
        shape_q = (SEQUENCES * seqlen_q,) if v["varlen_q"] else (SEQUENCES, seqlen_q)
        shape_k = (SEQUENCES * seqlen_k,) if v["varlen_k"] else (SEQUENCES, seqlen_k)
        if v["pages"]:
            page = PAGE[v["pages"]]
            shape_k = (SEQUENCES * seqlen_k // page, page)
            options["page_table"] = empty(SEQUENCES, seqlen_k // page, **ints)
        q = empty(*shape_q, heads, v["head_dim"])
        k = empty(*shape_k, heads_kv, v["head_dim"])
        value = empty(*shape_k, heads_kv, v["head_dim_v"])
        if v["varlen_q"]:
            options["cu_seqlens_q"] = empty(SEQUENCES + 1, **ints)
            options["max_seqlen_q"] = seqlen_q
        if v["varlen_k"]:
            options["cu_seqlens_k"] = empty(SEQUENCES + 1, **ints)
        if v["varlen_k"] or v["pages"]:
            options["max_seqlen_k"] = seqlen_k
        if v["used_q"]:
            options["seqused_q"] = empty(SEQUENCES, **ints)
        if v["used_k"]:
            options["seqused_k"] = empty(SEQUENCES, **ints)
        if v["window_left"]:
            options["window_size_left"] = 256
        if v["window_right"]:
            options["window_size_right"] = 64
        if v["sink"]:
            options["learnable_sink"] = empty(heads, dtype=torch.bfloat16)
        if v["softcap"]:
            options["softcap"] = v["softcap"]
        if v["split"]:
            options["num_splits"] = 4
            options["disable_scheduler_metadata"] = not v["metadata"]
        if v["descale"]:
            for name in ("q_descale", "k_descale", "v_descale"):
                options[name] = empty(SEQUENCES, heads_kv, dtype=torch.float32)
        interface._flash_attn_fwd(
            q, k, value, causal=v["causal"], return_lse=v["lse"], pack_gqa=pack, **options
        )


def main() -> None:
    """Read the command line, set the compiler's environment, compile."""
    v = json.loads(sys.argv[1])
    os.environ.update(
        CUTE_DSL_ARCH="sm_100a",
        CUTE_DSL_DUMP_DIR=sys.argv[2],
        CUTE_DSL_KEEP="ptx,ir",
        CUTE_DSL_LINEINFO="1",
        FLASH_ATTENTION_ARCH="sm_100a",
        FLASH_ATTENTION_NUM_SMS=str(SMS),
        FLASH_ATTENTION_CUTE_DSL_CACHE_ENABLED="0",
        FA_CLC=str(int(v["clc"])),
        FA_DISABLE_2CTA=str(int(not v["pair"])),
    )
    compile_variant(v)


if __name__ == "__main__":
    main()
