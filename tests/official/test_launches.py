"""Launch descriptions: what doesn't need the official package."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fa4kernel.official import facts, layouts
from fa4kernel.official.facts import Argument
from fa4kernel.official.views import Divmod, View
from fa4kernel.official.views import encode as encode_argument
from tests.official import cases
from tests.official.inputs import decode, draw, encode, problem, results
from tests.official.reference import Errors, reference

IR = """
!memref = !cute.memref<f32, gmem, "((4,?),?):((?{i64},1),?{i64 div=8})">
!smem = !cute.memref<i8, smem, align<8>, "272:1">
!more = !cute.memref<i8, smem, align<128>, "512:1">
    cuda.kernel @attention(%arg0: !cute.coord_tensor<"(0,0)", "(?,?):(1@1,1@0)"> loc("-":99:208), \
%arg1: !memref, %arg2: !cute_nvgpu.atom.non_exec_tiled_tma_load<sm_90, bf16, copy_bits = 131072, \
tma_gbasis = <"(64,4,32):(1@1,1@0@0,1@1@0)">, tma_format = BF16_RN> {cute_nvgpu.grid_constant}, \
%arg3: f32, %arg4: !cute.composed_layout<"S<3,4,3> o 0 o (8,64):(64,1)">, \
%arg5: !cute.fast_divmod_divisor<32>) attributes {cutlass_launch_facts = \
{exact_block_dim = array<i64: 512, 1, 1>, exact_cluster_dim = array<i64: 2, 1, 1>}} {
      %smem = cute.memref.alloca() {smem.partition_id = 1 : i32} : !smem loc(#loc53)
      %smem_1 = cute.memref.alloca() {smem.partition_id = 1 : i32} : !more loc(#loc53)
    %atom, %tma_tensor = cute_nvgpu.atom.make_non_exec_tiled_tma_load(%view, %33) : (!a, \
!cute.composed_layout<"S<2,4,3> o 0 o (8,64):(64,1)">)
    %54 = cuda.launch_ex @kernels::@attention<%53> (%tma_tensor, %view, %atom, %50, %lay, %46) {}
"""


def test_facts_are_read_from_the_representation():
    found = facts.read(IR)
    assert (found.entry, found.block, found.cluster) == ("attention", (512, 1, 1), (2, 1, 1))
    assert found.shared_bytes == 384 + 512
    assert [a.kind for a in found.arguments] == ["extents", "tensor", "map", "f32", "divmod"]
    assert found.arguments[2].swizzle == "64B"
    assert found.arguments[2].basis == ("1@1", "1@0@0", "1@1@0")


def test_an_unknown_parameter_type_is_refused():
    with pytest.raises(ValueError, match=r"!cute\.mystery is not known"):
        facts.read(IR.replace("!cute.fast_divmod_divisor<32>", "!cute.mystery"))


@given(st.integers(1, 2**31 - 1), st.integers(0, 2**32 - 1))
def test_multiplying_and_shifting_divides(divisor, n):
    assert Divmod(divisor).divide(n) == n // divisor


def test_a_divisor_takes_twelve_bytes():
    *numbers, padding = Divmod(5).encode().fields
    assert [int(number) for number in numbers] == [5, 2576980378, 1, 2]
    assert sum(number.nbytes for number in numbers) + len(padding) == 12


def test_a_tensor_passes_what_the_compiler_did_not_know():
    lse = np.zeros((2, 8, 100), np.float32)  # (batch, heads, rows)
    view = View.of(lse, (2, 1, 0)).packed(4, head_mode=1)
    shape, stride = layouts.parse_layout("((4,?),?,?):((?{i64},1),?{i64 div=8},?{i64})")
    pointer, *numbers = encode_argument(Argument("tensor", shape, stride), view).fields
    assert pointer is lse
    assert numbers == [100, 2, 2, 100, 400, 800]
    assert [n.itemsize for n in numbers] == [4, 4, 4, 8, 8, 8]


def test_a_constant_that_differs_from_the_compiled_one_is_refused():
    view = View.of(np.zeros((3, 100), np.float32), (1, 0))
    shape, stride = layouts.parse_layout("(?,4):(1,?)")
    with pytest.raises(AssertionError, match="compiled for"):
        encode_argument(Argument("tensor", shape, stride), view)


def test_a_map_follows_the_modes_of_its_tensor():
    q = np.zeros((2, 100, 8, 64), np.uint16)
    view = View.of(q, (1, 3, 2, 0)).packed(4, head_mode=2)
    box, basis = layouts.parse_layout("(64,4,32,1,(1)):(1@1,1@0@0,1@1@0,1@2,(1@3))")
    argument = Argument("map", box=box, basis=basis, swizzle="128B", element="bf16")
    tensor_map = encode_argument(argument, view)
    assert tensor_map.dims == (64, 4, 100, 2, 2)
    assert tensor_map.strides == (128, 1024, 512, 102400)
    assert tensor_map.box == (64, 4, 32, 1, 1)


@pytest.mark.parametrize("case", cases.ALL, ids=lambda case: case.name)
def test_a_case_fits_its_variant(case):
    problem(case, draw(case, 0)).check()


def test_case_names_are_unique():
    assert len({case.name for case in cases.ALL}) == len(cases.ALL)


@pytest.mark.parametrize("name", ["varlen-empty", "used-both", "page-16", "pair"])
def test_what_the_kernel_would_write_is_read_back(name):
    (case,) = (case for case in cases.ALL if case.name == name)
    inputs = draw(case, 0)
    call = problem(case, inputs)
    truth = reference(case, 0).out
    flat = truth.astype(np.float32)
    if case.variant.varlen_q:
        rows = zip(flat, case.seqlens_q, strict=True)
        call.out[:] = encode(np.concatenate([x[:n] for x, n in rows]), "bf16")
    else:
        call.out[:, : flat.shape[1]] = encode(flat, "bf16")
    out, _ = results(case, call)
    assert Errors.of(out, truth).relative < 2**-8


def test_pages_hold_the_keys():
    (case,) = (case for case in cases.ALL if case.name == "page-16")
    inputs = draw(case, 0)
    call = problem(case, inputs)
    assert call.page_table is not None
    for n, length in enumerate(case.seqlens_k):
        keys = call.k[call.page_table[n]].reshape(-1, *call.k.shape[2:])[:length]
        assert np.array_equal(decode(keys, "bf16"), inputs.k[n, :length])


def test_the_limit_is_the_rounding_of_the_output_or_a_little_more():
    (case,) = (case for case in cases.ALL if case.name == "pair")
    assert 2**-10 < reference(case, 0).other.relative < 2**-8


def test_rising_scores_need_rescaling():
    (case,) = (case for case in cases.ALL if case.name == "causal-WR")
    inputs = draw(case, 0)
    scores = inputs.q[0, -1, 0] @ inputs.k[0, :, 0].T * case.variant.head_dim**-0.5
    later, earlier = scores[:128].max(), scores[-128:].max()  # the kernel takes last keys first
    assert (later - earlier) * np.log2(np.e) > 8
