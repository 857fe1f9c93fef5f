"""Four small CuTe DSL kernels that teach how a Blackwell kernel is built.

Read them in this order; each adds one idea to the one before:

| module | what is new |
|---|---|
| `tma_copy` | TMA load and store, one mbarrier, ragged edges |
| `gemm` | a ring of tiles, the tensor core, tensor memory, an epilogue |
| `gemm_pair` | two CTAs work as one: split operands, remote barriers, multicast commits |
| `ring` | a role for each warp, several tiles for each CTA, two accumulators that overlap |

Each module has `compile_ptx(...)`, which needs no GPU and gives the PTX; `launch(...)`, which
describes a launch of it on NumPy arrays; and `reference(...)`, what must come out. A run then takes
three lines:

    from fa4kernel.emulator import emulate
    compiled = gemm.compile_ptx()
    emulate(compiled.ptx, compiled.launch(a, b, c))

The kernels are written in the CuTe DSL, which has a licence of its own and is an extra here.
"""

from importlib.util import find_spec

if find_spec("cutlass") is None:
    raise ModuleNotFoundError(
        "the example kernels need the CuTe DSL: pip install 'fa4sim[kernel]'", name="cutlass"
    )
