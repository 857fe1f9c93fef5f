"""The mean clock of the multiprocessors over a stretch of work.

A multiprocessor counts its cycles; a timer of the whole GPU counts nanoseconds. A little kernel
reads both on every multiprocessor before and after the work: the difference of the one by that of
the other is the clock.

Whatever lies between the readings counts, and a GPU that waits for its host runs at its highest
clock. So both readings are made ready beforehand, and nobody waits for the first.
"""

from __future__ import annotations

from types import TracebackType

import numpy as np
from numpy.typing import NDArray

from fa4kernel.device.driver import Gpu
from fa4kernel.device.running import Loaded
from fa4kernel.emulator import Launch

#: Writes the multiprocessor's number, its cycles and the time (ns) for every CTA.
READ = """.version 8.0
.target sm_90
.address_size 64
.visible .entry read(.param .u64 out)
{
  .reg .u32 %n<3>;
  .reg .u64 %a<5>;
  mov.u32 %n0, %ctaid.x;
  mov.u32 %n1, %smid;
  cvt.u64.u32 %a0, %n1;
  mov.u64 %a1, %clock64;
  mov.u64 %a2, %globaltimer;
  ld.param.u64 %a3, [out];
  mul.wide.u32 %a4, %n0, 24;
  add.u64 %a3, %a3, %a4;
  st.global.u64 [%a3], %a0;
  st.global.u64 [%a3+8], %a1;
  st.global.u64 [%a3+16], %a2;
  ret;
}
"""

CTAS_PER_SM = 4  # so that surely every multiprocessor gets one


class MeanClock:
    """`with MeanClock(gpu) as clock: ...` waits for the work inside, and has its `hz` afterwards.

    >>> MeanClock.of(np.array([[3, 100, 50]]), np.array([[3, 2100, 1050]]))
    2000000000.0
    """

    hz: float

    def __init__(self, gpu: Gpu) -> None:
        self.gpu = gpu
        self._before, self._after = _Reading(gpu), _Reading(gpu)

    def __enter__(self) -> MeanClock:
        self._before.loaded.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Read again; the work has been started before."""
        if error is None:
            self._after.loaded.start()
            self.gpu.wait(60)
            self.hz = self.of(self._before.rows(), self._after.rows())

    @staticmethod
    def of(before: NDArray[np.int64], after: NDArray[np.int64]) -> float:
        """The clock in Hz from two readings, rows of (multiprocessor, cycles, ns).

        Raises:
            ValueError: no multiprocessor has been read twice.
        """
        first = {int(row[0]): row for row in before}
        pairs = [(first[int(row[0])], row) for row in after if int(row[0]) in first]
        if not pairs:
            raise ValueError("no multiprocessor has been read before and after the work")
        rates = [(b[1] - a[1]) / (b[2] - a[2]) for a, b in pairs if b[2] > a[2]]
        return float(np.median(rates)) * 1e9


class _Reading:
    """The reading kernel, on the GPU with room for its rows."""

    def __init__(self, gpu: Gpu) -> None:
        self._rows = np.zeros((gpu.sms * CTAS_PER_SM, 3), np.int64)
        launch = Launch((len(self._rows), 1, 1), (1, 1, 1), arguments=[self._rows])
        self.loaded = Loaded(gpu, READ, launch)

    def rows(self) -> NDArray[np.int64]:
        """Number, cycles and time of the multiprocessors, once it has run; gives memory back."""
        with self.loaded as loaded:
            loaded.download()
        return self._rows
