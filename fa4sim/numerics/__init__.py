"""What FlashAttention-4 computes: its arithmetic, bit by bit, without its concurrency.

Read in this order:

==============  =====================================================================
module          idea
==============  =====================================================================
``attention``   the definition, in float64
``masks``       a mask is two limits per row; which key blocks a tile visits
``formats``     bf16 and fp16 values inside float32 arrays
``fma``         a fused multiply-add from float64
``mufu``        the special-function unit, reproducibly
``exp2``        2**x by polynomial, and which columns use it
``mma``         the two matrix products, in k-steps of 16
``steps``       one function per operation of a softmax step
``blockwise``   the loop over key blocks that puts them together
``rescale``     what the rescale threshold saves, measured
==============  =====================================================================

Imports NumPy and nothing else. ``inputs`` states the array layouts.
"""

from fa4sim.numerics.attention import attention_float64
from fa4sim.numerics.blockwise import RescaleStats, attention_blockwise
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
    LARGEST,
    from_bits16,
    is_representable,
    round_to,
    to_bits16,
)
from fa4sim.numerics.inputs import Sizes, check_inputs
from fa4sim.numerics.masks import (
    BlockStep,
    block_range,
    block_steps,
    mask_matrix,
    resolve_window,
    row_limits,
)
from fa4sim.numerics.mma import K_STEP, mma_pv_steps, mma_qk, mma_qk_steps
from fa4sim.numerics.mufu import ex2_mufu, lg2_mufu, rcp_mufu, tanh_mufu
from fa4sim.numerics.rescale import (
    DISTRIBUTIONS,
    RescaleRow,
    format_rescales,
    measure_rescales,
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

__all__ = [
    "COEFFICIENTS",
    "DISTRIBUTIONS",
    "EPSILON",
    "K_STEP",
    "LARGEST",
    "BlockStep",
    "ErrorRow",
    "RescaleRow",
    "RescaleStats",
    "Sizes",
    "apply_mask",
    "attention_blockwise",
    "attention_float64",
    "block_range",
    "block_steps",
    "check_inputs",
    "emulated_columns",
    "ex2_mixed",
    "ex2_mufu",
    "ex2_poly",
    "exp2_convert",
    "finalize",
    "fma32",
    "format_rescales",
    "from_bits16",
    "is_representable",
    "keep_or_rescale",
    "lg2_mufu",
    "mask_matrix",
    "measure_rescales",
    "mma_pv_steps",
    "mma_qk",
    "mma_qk_steps",
    "normalize_output",
    "polynomial_error_table",
    "rcp_mufu",
    "rescale_needed",
    "rescale_output",
    "resolve_window",
    "round_to",
    "row_limits",
    "row_max_4chains",
    "row_sum_4chains",
    "scale_subtract",
    "score_mod_softcap",
    "tanh_mufu",
    "to_bits16",
]
