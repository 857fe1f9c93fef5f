"""Our kernels on a GPU, started by the CUDA driver with the very launch that the emulator runs.

The Hopper kernel has been run and timed on an H200 (docs/validation/h200.md). Nobody has run the
Blackwell kernel on a Blackwell GPU yet.
"""

from __future__ import annotations

from contextlib import ExitStack
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fa4kernel.call import Call
from fa4kernel.device import Gpu, GpuError, Loaded
from fa4kernel.forward.launch import Arrays
from fa4kernel.operands import Operand, is_torch, torch_type

#: By compute capability: for which GPU the kernel is compiled. tcgen05 as the Blackwell kernel uses
#: it is in B200 and B300.
ARCHITECTURES = {(9, 0): "sm_90a", (10, 0): "sm_100a", (10, 3): "sm_100a"}


def missing(compiler: bool = True) -> str | None:
    """What is missing to run on a GPU, with or without a compiler, in words; None if nothing is."""
    try:
        capability = gpu().capability
    except OSError:
        return "there is no CUDA driver"
    except GpuError as error:
        return f"the CUDA driver finds no GPU ({error})"
    if capability not in ARCHITECTURES:
        known = ", ".join(f"{a}.{b}" for a, b in ARCHITECTURES)
        return f"the GPU has compute capability {capability[0]}.{capability[1]}, not {known}"
    if compiler and find_spec("cutlass") is None:
        return "cutlass is not installed: pip install 'fa4sim[kernel]'"
    return None


@cache
def gpu() -> Gpu:
    """The GPU of this machine."""
    return Gpu()


def architecture() -> str:
    """For which GPU kernels are compiled here."""
    return ARCHITECTURES[gpu().capability]


def run(kernel: Any, call: Call) -> tuple[Any, Any]:
    """Output and LSE, of the caller's library, type and device.

    Args:
        kernel: has the `ptx`, and `launch(arrays, sms)`.
        call: tensors on the GPU are used where they are, others are copied there.

    Raises:
        GpuError: the kernel failed.
    """
    if is_torch(call.q.array) and call.q.array.is_cuda:
        return _in_place(kernel, call)
    arrays = call.arrays(kernel.splits)
    with ExitStack() as stack:
        for loaded in _loaded(stack, kernel, arrays, {}):
            loaded.start()
        gpu().wait()
        loaded.download()
    assert arrays.lse is not None
    return call.q.result(arrays.o), call.q.like(arrays.lse)


def _in_place(kernel: Any, call: Call) -> tuple[Any, Any]:
    """With PyTorch's tensors on the GPU: behind what PyTorch has started, and waited for."""
    import torch

    tensors = [_contiguous(operand) for operand in (call.q, call.k, call.v)]
    device, dtype = tensors[0].device, torch_type(call.q.out_dtype)
    out = torch.empty((*call.q.shape[:-1], call.v.shape[-1]), dtype=dtype, device=device)
    lse = torch.empty(call.lse_shape, dtype=torch.float32, device=device)
    q, k, v, o, logs = shadows = [shadow(tensor) for tensor in (*tensors, out, lse)]
    behind = call.partial_results(kernel.splits)
    arrays = Arrays(
        q, k, v, o, logs, call.sink, descales=call.descales, partial_o=behind[0],
        partial_lse=behind[1], **call.starts_and_pages,
    )  # fmt: skip
    addresses = {
        id(shadow): tensor.data_ptr()
        for shadow, tensor in zip(shadows, (*tensors, out, lse), strict=True)
    }
    torch.cuda.current_stream(device).synchronize()
    with ExitStack() as stack:
        for loaded in _loaded(stack, kernel, arrays, addresses):
            loaded.start()
        gpu().wait()
    return call.q.as_callers(out), lse


def _loaded(
    stack: ExitStack, kernel: Any, arrays: Arrays, addresses: dict[int, int]
) -> list[Loaded]:
    """The kernel, and the one that runs behind it on the same arrays, if there is one."""
    first = stack.enter_context(
        Loaded(gpu(), kernel.ptx, kernel.launch(arrays, gpu().sms), addresses)
    )
    if kernel.combine is None:
        return [first]
    behind = kernel.combine
    launch = behind.launch(arrays, gpu().sms)
    there = addresses | first.addresses
    return [first, stack.enter_context(Loaded(gpu(), behind.ptx, launch, there))]


def _contiguous(operand: Operand) -> Any:
    """A tensor in the kernel's type, its elements in order."""
    array = operand.array.detach()
    if str(array.dtype) != "torch.uint8":
        array = array.to(torch_type(operand.dtype))
    return array.contiguous()


def shadow(tensor: Any) -> NDArray[Any]:
    """An array of a tensor's shape and strides, for what asks for these; it has no memory."""
    dtype = np.dtype({4: np.float32, 2: np.uint16, 1: np.uint8}[tensor.element_size()])
    strides = [stride * dtype.itemsize for stride in tensor.stride()]
    return np.lib.stride_tricks.as_strided(
        np.zeros(1, dtype), tuple(tensor.shape), strides, writeable=False
    )
