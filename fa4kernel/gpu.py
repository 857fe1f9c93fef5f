"""The kernel on a Blackwell GPU, by PyTorch and the DSL's own compiler and launcher.

Nobody has run this on a Blackwell GPU yet: what runs the same kernel here is the emulator.
"""

from __future__ import annotations

import math
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from fa4kernel.forward.config import Config
from fa4kernel.forward.launch import Plan
from fa4kernel.operands import is_torch

if TYPE_CHECKING:
    from fa4kernel.call import Call

#: Compute capabilities that have tcgen05 as this kernel uses it: B200 and B300.
CAPABILITIES = ((10, 0), (10, 3))


def missing() -> str | None:
    """What is missing to run on a GPU, in words; None if nothing is."""
    for module, extra in (("torch", "torch"), ("cutlass", "fa4sim[kernel]")):
        if find_spec(module) is None:
            return f"{module} is not installed: pip install '{extra}'"
    import torch

    if not torch.cuda.is_available():
        return "PyTorch finds no CUDA GPU"
    capability = torch.cuda.get_device_capability()
    if capability not in CAPABILITIES:
        name = torch.cuda.get_device_name()
        return f"the GPU, {name}, has compute capability {capability[0]}.{capability[1]}, not 10.0"
    return None


def run(cfg: Config, call: Call) -> tuple[Any, Any]:
    """Output and LSE, PyTorch tensors on the GPU, or NumPy arrays if the inputs are.

    The work is put on PyTorch's current stream; with tensors on the GPU this returns at once.
    """
    import cuda.bindings.driver as cuda
    import torch
    from cutlass import Float32, Int32

    from fa4kernel.forward.arguments import Sizes

    device = torch.device("cuda")
    dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}[cfg.dtype]
    tensors = [_on(device, operand, dtype) for operand in (call.q, call.k, call.v)]
    shape = (*tensors[0].shape[:-1], tensors[2].shape[-1])
    out = torch.empty(shape, dtype=dtype, device=device)
    lse = torch.empty(call.lse_shape, dtype=torch.float32, device=device)
    small = [
        None if each is None else torch.from_numpy(each).to(device)
        for each in (call.sink, call.cu_seqlens_q, call.cu_seqlens_k)
    ]
    plan = Plan.of(cfg, *_shapes(call), call.window)
    sms = torch.cuda.get_device_properties(device).multi_processor_count
    compiled = _compiled(cfg, call.problem.head_dim, call.problem.dim_v)
    compiled(
        *(_pointer(each) for each in (*tensors, out, lse, *small)),
        Sizes(*(Int32(number) for number in plan.sizes)),
        Int32(plan.total_q),
        Int32(plan.total_k),
        Float32(call.scale * math.log2(math.e)),
        Int32(plan.ctas(sms)),
        cuda.CUstream(torch.cuda.current_stream().cuda_stream),
    )
    if is_torch(call.q.array):
        return out.to(call.q.array.device).to(call.q.array.dtype), lse.to(call.q.array.device)
    return call.q.result(out.cpu().view(torch.uint16).numpy()), lse.cpu().numpy()


@cache
def _compiled(cfg: Config, head_dim: int, head_dim_v: int) -> Any:
    """The kernel, compiled for the GPU that is here."""
    from fa4kernel.forward.kernel import compile_for

    return compile_for(cfg, head_dim, head_dim_v)


def _on(device: Any, operand: Any, dtype: Any) -> Any:
    """An operand on the GPU, contiguous."""
    import torch

    if is_torch(operand.array):
        return operand.array.to(device, dtype).contiguous()
    return torch.from_numpy(operand.bits()).view(dtype).to(device)


def _shapes(call: Call) -> tuple[Any, Any, Any, Any, Any]:
    return (
        call.q.shape, call.k.shape, call.v.shape, call.cu_seqlens_q, call.cu_seqlens_k,
    )  # fmt: skip


def _pointer(tensor: Any) -> Any:
    """A typed pointer to a tensor's memory; None stays None."""
    if tensor is None:
        return None
    import torch
    from cutlass import AddressSpace, BFloat16, Float16, Float32, Int32
    from cutlass.cute.runtime import make_ptr

    types = {
        torch.bfloat16: BFloat16, torch.float16: Float16, torch.float32: Float32,
        torch.int32: Int32,
    }  # fmt: skip
    kind = types[tensor.dtype]
    return make_ptr(kind, tensor.data_ptr(), AddressSpace.gmem, assumed_align=16)
