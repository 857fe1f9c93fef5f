"""What starting a kernel takes: an empty one of the same size, between the same two events."""

from __future__ import annotations

import numpy as np

from fa4kernel.device import Gpu, Loaded
from fa4kernel.emulator import Launch

#: `nothing` does nothing; `spin` keeps the GPU busy for 3 ms, so that nobody waits for the host.
_HEAD = ".version 8.0\n.target sm_90a\n.address_size 64\n"
NOTHING = (
    _HEAD + ".visible .entry nothing(.param .u64 p) .maxntid 384, 1, 1 .minnctapersm 1\n{ ret; }\n"
)
SPIN = (
    _HEAD
    + """.visible .entry spin(.param .u64 p)
{
  .reg .u64 %a<3>;
  .reg .pred %p;
  mov.u64 %a0, %globaltimer;
again:
  mov.u64 %a1, %globaltimer;
  sub.u64 %a2, %a1, %a0;
  setp.lt.u64 %p, %a2, 3000000;
  @%p bra again;
  ret;
}
"""
)
COUNT, SHARED = 60, 214_016


def empty_ms(gpu: Gpu) -> float:
    """Milliseconds between two events around an empty kernel, a CTA of 384 threads on each SM."""
    unused = np.zeros(1, np.int64)
    launch = Launch((gpu.sms, 1, 1), (384, 1, 1), shared_bytes=SHARED, arguments=[unused])
    busy = Launch((1, 1, 1), (32, 1, 1), arguments=[unused])
    marks = [(gpu.event(), gpu.event()) for _ in range(COUNT)]
    with Loaded(gpu, NOTHING, launch) as nothing, Loaded(gpu, SPIN, busy) as spin:
        spin.start()
        for first, last in marks:
            gpu.mark(first)
            nothing.start()
            gpu.mark(last)
        gpu.wait(60)
    return float(np.median([gpu.milliseconds(*pair) for pair in marks[2:]]))
