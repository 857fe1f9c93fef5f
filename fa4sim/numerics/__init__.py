"""What FlashAttention-4 computes: its arithmetic, bit by bit, without its concurrency.

Read in this order:

================  ===================================================================
module            idea
================  ===================================================================
``attention``     the definition, in float64
``masks``         a mask is two limits per row; which key blocks a tile visits
``formats``       bf16, fp16 and 8-bit values inside float32 arrays
``fp8``           the two 8-bit formats
``fma``           a fused multiply-add from float64
``mufu``          the special-function unit, reproducibly
``exp2``          2**x by polynomial, and which columns use it
``mma``           the two matrix products, in k-steps of 16 or 32
``steps``         one function per operation of a softmax step
``tile``          the loop over key blocks that puts them together
``scales``        which scales, descales and sinks make sense
``options``       what is fixed before a call sees values
``blockwise``     all tiles of a call, whole or split
``rescale``       what the rescale threshold saves, measured
``quantize``      from real numbers to 8 bits and a factor
``quantization``  what that costs, measured
``saturation``    when 8-bit weights saturate, and what users saw of it
``splits``        which key blocks each split gets, and how many splits there are
``combining``     from the partial results of splits to that of the whole
``paged``         keys in pages, and the table that finds them
``packing``       the query heads of a group in one tile of rows
``kinds``         what is said of an argument of a wrong kind
================  ===================================================================

Imports NumPy and nothing else. ``inputs`` states the array layouts. The functions that this package
exports check the kinds of their arguments first; those inside its modules trust each other.
"""

from inspect import isfunction as _isfunction

import numpy as np  # noqa: F401 (the functions' examples need it: they are run here too)

from fa4sim.numerics.attention import attention_float64
from fa4sim.numerics.blockwise import attention_blockwise, attention_partials
from fa4sim.numerics.combining import combine, combine_float64
from fa4sim.numerics.errors import cosine, relative_error
from fa4sim.numerics.exp2 import (
    COEFFICIENTS,
    ErrorRow,
    emulated_columns,
    ex2_mixed,
    ex2_poly,
    polynomial_error_table,
)
from fa4sim.numerics.fma import fma32
from fa4sim.numerics.formats import (
    EPSILON,
    FP8_DTYPES,
    LARGEST,
    from_bits8,
    from_bits16,
    is_representable,
    round_to,
    to_bits8,
    to_bits16,
)
from fa4sim.numerics.inputs import Descales, Sizes, check_descales, check_inputs
from fa4sim.numerics.kinds import checked as _checked
from fa4sim.numerics.masks import (
    BlockStep,
    block_range,
    block_steps,
    mask_matrix,
    resolve_window,
    row_limits,
)
from fa4sim.numerics.mma import (
    K_STEP,
    K_STEP_FP8,
    k_step_of,
    mma_pv_steps,
    mma_qk,
    mma_qk_steps,
)
from fa4sim.numerics.mufu import ex2_mufu, lg2_mufu, rcp_mufu, tanh_mufu
from fa4sim.numerics.packing import pack_heads, pack_lse, unpack_heads, unpack_lse
from fa4sim.numerics.paged import check_page_table, gather_pages, scatter_pages
from fa4sim.numerics.quantization import (
    INPUTS,
    QuantizationRow,
    format_quantization,
    measure_quantization,
)
from fa4sim.numerics.quantize import amax_descale, dequantize, quantize
from fa4sim.numerics.rescale import (
    DISTRIBUTIONS,
    RescaleRow,
    format_rescales,
    measure_rescales,
)
from fa4sim.numerics.saturation import (
    HISTORY,
    PUBLISHED_BOUNDARY,
    PUBLISHED_SPREAD,
    SaturationRow,
    format_saturation,
    measure_boundaries,
    measure_saturation,
    measure_spread,
)
from fa4sim.numerics.splits import (
    HEURISTIC_MOST_SPLITS,
    MOST_SPLITS,
    choose_num_splits,
    num_splits_heuristic,
    split_range,
)
from fa4sim.numerics.steps import (
    apply_mask,
    exp2_convert,
    finalize,
    keep_or_rescale,
    normalize_output,
    rescale_needed,
    rescale_output,
    row_max_4chains,
    row_sum_4chains,
    scale_subtract,
    score_mod_softcap,
)
from fa4sim.numerics.tile import RescaleStats

__all__ = [
    "COEFFICIENTS",
    "DISTRIBUTIONS",
    "EPSILON",
    "FP8_DTYPES",
    "HEURISTIC_MOST_SPLITS",
    "HISTORY",
    "INPUTS",
    "K_STEP",
    "K_STEP_FP8",
    "LARGEST",
    "MOST_SPLITS",
    "PUBLISHED_BOUNDARY",
    "PUBLISHED_SPREAD",
    "BlockStep",
    "Descales",
    "ErrorRow",
    "QuantizationRow",
    "RescaleRow",
    "RescaleStats",
    "SaturationRow",
    "Sizes",
    "amax_descale",
    "apply_mask",
    "attention_blockwise",
    "attention_float64",
    "attention_partials",
    "block_range",
    "block_steps",
    "check_descales",
    "check_inputs",
    "check_page_table",
    "choose_num_splits",
    "combine",
    "combine_float64",
    "cosine",
    "dequantize",
    "emulated_columns",
    "ex2_mixed",
    "ex2_mufu",
    "ex2_poly",
    "exp2_convert",
    "finalize",
    "fma32",
    "format_quantization",
    "format_rescales",
    "format_saturation",
    "from_bits8",
    "from_bits16",
    "gather_pages",
    "is_representable",
    "k_step_of",
    "keep_or_rescale",
    "lg2_mufu",
    "mask_matrix",
    "measure_boundaries",
    "measure_quantization",
    "measure_rescales",
    "measure_saturation",
    "measure_spread",
    "mma_pv_steps",
    "mma_qk",
    "mma_qk_steps",
    "normalize_output",
    "num_splits_heuristic",
    "pack_heads",
    "pack_lse",
    "polynomial_error_table",
    "quantize",
    "rcp_mufu",
    "relative_error",
    "rescale_needed",
    "rescale_output",
    "resolve_window",
    "round_to",
    "row_limits",
    "row_max_4chains",
    "row_sum_4chains",
    "scale_subtract",
    "scatter_pages",
    "score_mod_softcap",
    "split_range",
    "tanh_mufu",
    "to_bits8",
    "to_bits16",
    "unpack_heads",
    "unpack_lse",
]

for _name in __all__:
    if _isfunction(globals()[_name]):
        globals()[_name] = _checked(globals()[_name])
