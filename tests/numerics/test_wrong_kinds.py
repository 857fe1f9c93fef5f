"""Every public function of ``fa4sim.numerics`` says of a wrong kind of argument which and what."""

from __future__ import annotations

import inspect
import pickle
import warnings
from typing import Any

import numpy as np
import pytest

from fa4sim import numerics
from fa4sim.numerics import (
    amax_descale,
    check_inputs,
    measure_quantization,
    measure_rescales,
    measure_saturation,
)
from fa4sim.numerics.kinds import checked, in_numpy
from fa4sim.quoting import quoted

ROWS = np.ones((2, 32), np.float32)
ROW = np.ones(2, np.float32)
SCALE = np.float32(0.5)
HEADS = np.ones((1, 4, 2, 32), np.float32)
KEYS = np.ones((1, 32, 1, 32), np.float32)
TABLE = np.zeros((1, 1), np.int32)
PARTIAL = np.ones((2, 1, 4, 2, 8), np.float32)
LENGTHS = {"seqlen_q": 4, "seqlen_k": 8, "causal": True, "window": (2, 1), "ratio": 1}
TILE = {"m_block": 0, "tile_rows": 4, "tile_n": 4, **LENGTHS, "split": 0, "num_splits": 1}
CALL: dict[str, Any] = {
    "q": HEADS, "k": KEYS, "v": KEYS, "softmax_scale": 0.1, "softcap": 0.0,
    "sink": np.zeros(2, np.float32), "seqlens_q": [4], "seqlens_k": [32],
}  # fmt: skip
#: What a tile of the kernel needs beside.
OPTIONS: dict[str, Any] = {
    "causal": True, "window": (2, 1), "dtype": "bf16", "tile_m": 128, "tile_n": 32, "q_stage": 1,
    "threshold": 8.0, "max_offset": 0, "emulation_freq": 16, "emulation_res": 4,
    "emulation_start": 1, "emulation_degree": 3, "pack_gqa": False, "split_pv": 0.75,
    "rescale_per_warp": True, "allow_saturation": False,
}  # fmt: skip
STEPS = {"q_tile": ROWS, "k_tile": ROWS, "k_step": 16}

#: Arguments that are right, by function; every public function is here.
CALLS: dict[str, dict[str, Any]] = {
    "amax_descale": {"x": HEADS, "dtype": "e4m3", "kv_heads": 1},
    "apply_mask": {"s": ROWS, "left": np.zeros(2, int), "right": np.full(2, 8)},
    "attention_blockwise": {**CALL, **OPTIONS, "num_splits": 1},
    "attention_float64": {**CALL, "causal": True, "window": (2, 1)},
    "attention_partials": {**CALL, **OPTIONS, "num_splits": 2},
    "block_range": TILE,
    "block_steps": TILE,
    "check_descales": {
        "q_descale": None, "k_descale": np.ones((1, 1), np.float32), "v_descale": None,
        "sizes": check_inputs(HEADS, KEYS, KEYS), "dtype": "e4m3",
    },
    "check_inputs": CALL,
    "check_page_table": {"pages": KEYS, "page_table": TABLE, "seqused_k": [3]},
    "choose_num_splits": {
        "batch": 1, "kv_heads": 1, "rows": 4, "seqlen_k": 512, "sms": 8, "window": (None, 0),
        "tile_m": 128, "tile_n": 128,
    },
    "combine": {
        "partial_out": PARTIAL, "partial_lse": np.zeros((2, 1, 2, 4), np.float32), "dtype": "bf16"
    },
    "combine_float64": {"partial_out": PARTIAL, "partial_lse": np.zeros((2, 1, 2, 4))},
    "cosine": {"a": ROWS, "b": ROWS},
    "dequantize": {"x": HEADS, "descale": np.ones((1, 1), np.float32)},
    "emulated_columns": {"n": 64, "freq": 16, "res": 4, "start_fragment": 0, "fragment": 32},
    "ex2_mixed": {"x": ROWS, "emulated": np.ones(32, bool), "degree": 3},
    "ex2_mufu": {"x": ROWS},
    "ex2_poly": {"x": ROWS, "degree": 3},
    "exp2_convert": {"x": ROWS, "mask": np.ones(32, bool), "degree": 3, "dtype": "bf16"},
    "finalize": {
        "row_sum": ROW, "row_max": ROW, "scale_log2": SCALE, "sink": ROW, "max_offset": 0.0,
        "v_descale": 1.0,
    },
    "fma32": {"a": ROWS, "b": ROWS, "c": ROWS},
    "format_quantization": {"rows": measure_quantization(["normal"], 32, 32, 4)},
    "format_rescales": {"rows": measure_rescales([128], ["normal, std 1"], [False])},
    "format_saturation": {"rows": measure_saturation([8], [0], ["e4m3"], 128, 1.5, 4)},
    "from_bits8": {"bits": np.ones(3, np.uint8), "dtype": "e4m3"},
    "from_bits16": {"bits": np.ones(3, np.uint16), "dtype": "bf16"},
    "gather_pages": {"pages": KEYS, "page_table": TABLE, "seqused_k": [3]},
    "is_representable": {"x": ROWS, "dtype": "bf16"},
    "k_step_of": {"dtype": "bf16"},
    "keep_or_rescale": {
        "m_old": ROW, "block_max": ROW, "scale_log2": SCALE, "threshold": 8.0, "first": False
    },
    "lg2_mufu": {"x": ROWS},
    "mask_matrix": LENGTHS,
    "measure_boundaries": {
        "lengths": [129], "choices": [(8, 0)], "dtype": "e4m3", "heads": 1, "batch": 1, "seed": 0
    },
    "measure_quantization": {
        "inputs": ["normal"], "seqlen": 32, "head_dim": 32, "queries": 4, "seed": 0
    },
    "measure_rescales": {
        "seqlens": [128], "distributions": ["normal, std 1"], "causal": [False], "head_dim": 32,
        "threshold": 8.0, "seed": 0,
    },
    "measure_saturation": {
        "offsets": [8], "thresholds": [0], "dtypes": ["e4m3"], "keys": 128, "score_std": 1.5,
        "queries": 4, "seed": 0,
    },
    "measure_spread": {
        "stds": [1.0], "choices": [(8, 0)], "dtype": "e4m3", "keys": 128, "queries": 4, "seed": 0
    },
    "mma_pv_steps": {
        "acc": ROWS, "p": ROWS, "v": np.ones((32, 32), np.float32), "steps": range(2),
        "zero_first": False, "k_step": 16,
    },
    "mma_qk": STEPS,
    "mma_qk_steps": {**STEPS, "acc": np.ones((2, 2), np.float32), "steps": range(1)},
    "normalize_output": {"acc": ROWS, "inv": ROW, "dtype": "bf16"},
    "num_splits_heuristic": {"total_m_blocks": 1, "sms": 8, "n_blocks": 9, "max_splits": 128},
    "pack_heads": {"array": HEADS, "kv_heads": 1},
    "pack_lse": {"lse": np.ones((1, 2, 4)), "kv_heads": 1},
    "polynomial_error_table": {"bits": 4, "degrees": (3,)},
    "quantize": {"x": HEADS, "descale": amax_descale(HEADS, "e4m3"), "dtype": "e4m3"},
    "rcp_mufu": {"x": ROWS},
    "relative_error": {"a": ROWS, "b": ROWS},
    "rescale_needed": {"acc_scale": ROW},
    "rescale_output": {"acc": ROWS, "acc_scale": ROW},
    "resolve_window": {"causal": True, "window": (2, 1)},
    "round_to": {"x": ROWS, "dtype": "bf16"},
    "row_limits": {"rows": [0, 1], **LENGTHS},
    "row_max_4chains": {"s": ROWS},
    "row_sum_4chains": {"p_fp32": ROWS, "first": False, "row_sum": ROW, "acc_scale": ROW},
    "scale_subtract": {"s": ROWS, "m_safe": ROW, "scale_log2": SCALE, "offset": 0.0},
    "scatter_pages": {
        "rows": KEYS, "page_table": TABLE, "seqused_k": [3], "page_size": 4, "num_pages": 1,
        "fill": 0,
    },
    "score_mod_softcap": {"s": ROWS, "softmax_scale": 0.5, "softcap": 20.0},
    "split_range": {"n_min": 0, "n_max": 8, "split": 0, "num_splits": 2, "blocks_per_split": 4},
    "tanh_mufu": {"x": ROWS},
    "to_bits8": {"x": ROWS, "dtype": "e4m3"},
    "to_bits16": {"x": ROWS, "dtype": "bf16"},
    "unpack_heads": {"packed": HEADS, "ratio": 2},
    "unpack_lse": {"packed": np.ones((1, 1, 8)), "ratio": 2},
}  # fmt: skip


class Odd:
    """Something that is neither a number nor an array."""

    def __repr__(self) -> str:
        return "Odd()"


WRONG = {
    "a word": "abc",
    "nothing": None,
    "an object": Odd(),
    "a dict": {"a": 1},
    "a complex number": 1j,
    "complex": np.ones((2, 32), np.complex64),
    "objects": np.array([[Odd(), None]], object),
    "words": np.array(["a", "b"]),
    "rows of different lengths": [[1.0], [1.0, 2.0]],
}
#: Of a right kind, but not of every size: these may be taken.
ODD = {
    "not a number": float("nan"), "infinite": float("inf"), "below 0": -1, "half": 0.5,
    "huge": 10**30, "no entries": np.ones(0, np.float32), "a number": 3, "a truth value": True,
    "scalar": np.float32(1), "flat": np.ones(7, np.float32), "deep": np.ones((1, 1, 1, 1, 1, 2)),
    "empty list": [],
}  # fmt: skip


def told(function: str, name: str, value: object) -> str | None:
    """The message with which a function refuses a value; None if it takes it."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", RuntimeWarning)  # infinite values are computed with
        try:
            getattr(numerics, function)(**{**CALLS[function], name: value})
        except ValueError as error:
            return str(error)
    return None


def test_every_public_function_is_tried_with_every_argument() -> None:
    public = {
        name: inspect.signature(function).parameters
        for name in numerics.__all__
        if inspect.isfunction(function := getattr(numerics, name))
    }
    assert CALLS.keys() == public.keys()
    for name, parameters in public.items():
        assert parameters.keys() - CALLS[name].keys() <= {"options", "return_stats"} | {
            f"{operand}_descale" for operand in "qkv"
        }, name


@pytest.mark.parametrize("function", CALLS)
def test_an_argument_of_a_wrong_kind_is_named_and_quoted(function: str) -> None:
    first = next(iter(CALLS[function]))
    assert told(function, first, CALLS[function][first]) is None
    for name in CALLS[function]:
        for what, value in WRONG.items():
            message = told(function, name, value)
            if value is None and message is None:
                continue  # it is left out
            assert message is not None, f"{name}: {what} is taken"
            assert name.removesuffix("s") in message, f"{name}: {what}: {message}"
            array = isinstance(value, np.ndarray)
            said = (
                str(value.dtype) if array else type(value).__name__, quoted(value),
                "'a'", "needed",  # an entry that is a word; what else is needed
            )  # fmt: skip
            assert any(part in message for part in said), f"{name}: {what}: {message}"


@pytest.mark.parametrize("function", CALLS)
def test_an_argument_that_is_refused_for_its_size_is_named(function: str) -> None:
    for name in CALLS[function]:
        for what, value in ODD.items():
            message = told(function, name, value)
            named = message is None or any(other in message for other in CALLS[function])
            assert named, f"{name}: {what}: {message}"


def test_other_annotations_than_these_would_be_noticed() -> None:
    def of_text(text: bytes) -> None:
        """Nobody has said what to say of bytes."""

    with pytest.raises(KeyError, match="bytes"):
        checked(of_text)


def test_lists_and_numbers_are_taken_where_they_always_were() -> None:
    assert numerics.row_limits([0, 1], 2, 4)[1].tolist() == [4, 4]
    assert float(numerics.fma32(2, 3, 4)) == 10
    assert numerics.resolve_window(False, [np.int64(3), None]) == (3, None)
    rows = numerics.measure_quantization(iter(["normal"]), 32, 32, 4)
    assert {row.inputs for row in rows} == {"normal"}


def test_public_functions_can_be_sent_to_other_processes() -> None:
    for name in CALLS:
        function = getattr(numerics, name)
        assert pickle.loads(pickle.dumps(function)) is function
        assert function.__doc__ and function.__name__ == name


def test_arrays_of_pytorch_become_numpys() -> None:
    torch = pytest.importorskip("torch")
    needs = torch.ones(2, requires_grad=True)
    assert in_numpy("k", needs, "real numbers").tolist() == [1, 1]
    with pytest.raises(
        ValueError, match="k is bfloat16, which NumPy does not have; it must hold real"
    ):
        in_numpy("k", needs.bfloat16(), "real numbers")
