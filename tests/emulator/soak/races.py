"""Subjects of a soak: two warps that meet at a barrier, and the same without it."""

from __future__ import annotations

import numpy as np

from fa4kernel.emulator.launch import Launch
from fa4kernel.emulator.soak.subject import Prepared, Subject
from tests.emulator.machine.kernels import kernel

NAMES = ("right", "unordered", "unread", "stuck")
BODY = """setp.lt.u32 %p1, t, 32; setp.eq.u32 %p2, t, 0; setp.eq.u32 %p3, t, 32;
    @%p1 st.shared.u32 [base], 7;
    bar.sync 0;
    @%p3 ld.shared.u32 %a2, [base];
    @%p3 st.global.u32 [p0], %a2;"""
BODIES = {
    "right": BODY,
    "unordered": BODY.replace("bar.sync 0;", ""),
    "unread": BODY.replace("st.global.u32 [p0], %a2;", "st.global.u32 [p0], 8;"),
    "stuck": BODY.replace("bar.sync 0;", "@%p1 bar.sync 0, 64;"),
}


def subject(name: str) -> Subject:
    """One of them."""
    return Subject(name, f"two warps, {name}", {"k": kernel(BODIES[name])}, _prepare)


def _prepare() -> Prepared:
    out = np.zeros(1, np.uint32)
    launch = Launch((1, 1, 1), (64, 1, 1), arguments=[out])
    return Prepared(
        [("k", launch)], lambda: [out], lambda: [] if out[0] == 7 else [f"{out[0]}, not 7"]
    )
