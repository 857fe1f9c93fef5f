"""What barriers and units are for, in a few words, for people who read a report.

Each barrier's words say what is true once its phase has ended, for FlashAttention-4's pipeline and
for the Hopper one. Source: the barrier tables of both pipelines.
"""

from __future__ import annotations

from collections.abc import Mapping

_RING = "a slot of the {} ring is free"
_NEXT = "the next work tile is known"
_HEARD = "everybody has heard of the next work tile"

#: Barriers by name, without the number of a warp or consumer; and what else a warp stands at.
BARRIERS: Mapping[str, str] = {
    "load_Q_full": "Q has come",
    "load_Q_empty": "Q has been read, another may come",
    "load_KV_full": "a K or V tile has come",
    "load_KV_empty": _RING.format("K/V"),
    "load_K_full": "a K tile has come",
    "load_K_empty": _RING.format("K"),
    "load_V_full": "a V tile has come",
    "load_V_empty": _RING.format("V"),
    "S_full": "the scores S are there",
    "SoftmaxStatsW": "the factor for O is known, or the row sum",
    "softmax_stats_empty": "correction has read what softmax told it",
    "P_full_O_rescaled": "the first part of P is there, and O is at its scale",
    "P_full_lastsplit": "the rest of P is there",
    "O_full": "O is complete",
    "O_epi_full": "O lies in shared memory, to be stored",
    "O_epi_empty": "O has left shared memory",
    "load_epi_full": "O has left the place that Q needs",
    "load_epi_empty": "load has heard that O has left",
    "TmemPtr": "tensor memory is allocated; at the end, no longer used",
    "tmem_dealloc": "the other CTA is done with tensor memory",
    "clc_full": _NEXT,
    "clc_empty": _HEARD,
    "work_info_full": _NEXT,
    "work_info_empty": _HEARD,
    "Epilogue": "all four warps have written O to shared memory",
    "Scheduler": "it is this consumer's turn at the tensor cores",
    "Cta": "all warps are done with the tiles in shared memory",
    "tensor": "the tensor cores have finished a product",
    "tma_store": "the TMA has read O, to store it",
}

#: What a unit does in attention.
UNITS: Mapping[str, str] = {
    "tensor": "matrix products",
    "mufu": "exponentials",
    "fma": "scaling, sums, exponentials by polynomial",
    "alu": "maxima, masks, conversions",
    "issue": "starting instructions",
    "smem": "shared memory",
    "tmem": "tensor memory",
    "l2": "cache between the SMs and HBM",
    "hbm": "global memory",
}


def barrier_means(name: str) -> str:
    """What is true once a phase of this barrier has ended; nothing for a name that is unknown.

    A stage in brackets, or a warp's number, may follow the name.

    >>> barrier_means("load_KV_empty[2]")
    'a slot of the K/V ring is free'
    >>> barrier_means("SoftmaxStatsW0 to 3") == barrier_means("SoftmaxStatsW7")
    True
    """
    head = name.partition("[")[0].split(" ")[0]
    return BARRIERS.get(head) or BARRIERS.get(head.rstrip("0123456789"), "")
