"""Colours, hatches, fonts and sizes: one look for every picture.

The eight colours are those of Okabe and Ito, which stay apart for colour-blind readers. A colour
says which kind of thing something is (the tensor pipe's GEMMs, softmax arithmetic, TMA, …); inside
a kind, a hatch and a label tell things apart, so no picture relies on colour alone.

What works is drawn solid. What waits is drawn pale and hatched, in the colour of whom it waits for.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from matplotlib.colors import to_rgb, to_rgba
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import TextToPath

BLACK = "#000000"
ORANGE = "#E69F00"
SKY = "#56B4E9"
GREEN = "#009E73"
YELLOW = "#F0E442"
BLUE = "#0072B2"
VERMILLION = "#D55E00"
PURPLE = "#CC79A7"
GREY = "#999999"

INK = "#222222"
FAINT = "#DDDDDD"

#: Points. Nothing in a picture is set smaller than SMALL.
SMALL = 8.0
NORMAL = 9.0
LARGE = 11.0

#: Inches: a notebook's or a page's width.
WIDTH = 10.0


@dataclass(frozen=True)
class Look:
    """How one kind of thing is drawn: face colour, hatch, and the colour of text on it."""

    colour: str
    hatch: str = ""
    pale: bool = False

    @property
    def face(self) -> tuple[float, float, float, float]:
        """The fill: the colour itself, or a tint of it on white."""
        red, green, blue = to_rgb(self.colour)
        if not self.pale:
            return to_rgba(self.colour)
        keep = 0.22
        return (1 - keep * (1 - red), 1 - keep * (1 - green), 1 - keep * (1 - blue), 1.0)

    @property
    def line(self) -> str | tuple[float, float, float, float]:
        """The colour of the hatch: the colour itself on a tint, translucent white on the full."""
        if self.pale:
            return to_rgba(self.colour, 0.55)
        return to_rgba("white", 0.55) if dark(self.colour) else to_rgba("black", 0.35)

    @property
    def ink(self) -> str:
        """Black or white, whichever reads on the fill."""
        return "white" if not self.pale and dark(self.colour) else INK


def dark(colour: str) -> bool:
    """Whether white text reads better on ``colour`` than black (relative luminance < 0.25)."""
    red, green, blue = (
        value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4
        for value in to_rgb(colour)
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue < 0.25


#: Tensors, wherever they are drawn as things that lie somewhere.
TENSORS: dict[str, Look] = {
    "Q": Look(YELLOW),
    "K": Look(PURPLE),
    "V": Look(VERMILLION),
    "S": Look(SKY),
    "P": Look(ORANGE),
    "O": Look(GREEN),
}

#: Operations. GEMMs blue and vermillion, exponentials orange, TMEM traffic sky, other arithmetic
#: yellow, what the correction does to O green, TMA purple, issuing and signalling grey. A Hopper
#: consumer, which does all of that itself, has the same colours; P on its way to PV is sky.
OPS: dict[str, Look] = {
    "QK": Look(BLUE),
    "PV": Look(VERMILLION),
    "load Q": Look(PURPLE, ".."),
    "load K": Look(PURPLE),
    "load V": Look(PURPLE, "//"),
    "page number": Look(PURPLE, "--"),
    "page numbers": Look(PURPLE, "--"),
    "addresses": Look(PURPLE, "oo"),
    "read S": Look(SKY),
    "mask": Look(YELLOW, "xx"),
    "softcap": Look(YELLOW, "oo"),
    "row max": Look(YELLOW),
    "stats": Look(YELLOW, "//"),
    "exp2": Look(ORANGE),
    "store P": Look(SKY, "//"),
    "row sum": Look(YELLOW, ".."),
    "read factor": Look(GREEN, ".."),
    "rescale O": Look(GREEN),
    "final scale": Look(GREEN, "xx"),
    "write O": Look(GREEN, "//"),
    "store O": Look(PURPLE, "xx"),
    # A Hopper consumer's, which has S, P and O in registers.
    "scale S": Look(YELLOW, "--"),
    "statistics": Look(YELLOW, "//"),
    "convert P": Look(SKY, "||"),
    "scale O": Look(GREEN, "xx"),
    "round O": Look(GREEN, "--"),
    "LSE": Look(GREEN, "oo"),
    # Of a traced Hopper kernel, whose stamps tell no more.
    "softmax": Look(ORANGE, ".."),
    "round P, next block": Look(SKY, "xx"),
}
ISSUE = Look(GREY)

#: Barriers (and units) that are waited for, in the colour of who is expected to arrive: the
#: tensor pipe blue, softmax and a Hopper consumer orange, correction green, TMA purple, the rest
#: grey, the whole CTA and the scheduler black.
WAITS: dict[str, Look] = {
    "S_full": Look(BLUE, "///", pale=True),
    "O_full": Look(BLUE, "xxx", pale=True),
    "load_KV_empty": Look(BLUE, "...", pale=True),
    "load_Q_empty": Look(BLUE, "ooo", pale=True),
    "tensor": Look(BLUE, "---", pale=True),
    "P_full_O_rescaled": Look(ORANGE, "///", pale=True),
    "P_full_lastsplit": Look(ORANGE, "xxx", pale=True),
    "SoftmaxStats": Look(ORANGE, "...", pale=True),
    "load_K_empty": Look(ORANGE, "ooo", pale=True),
    "load_V_empty": Look(ORANGE, "---", pale=True),
    "Scheduler": Look(ORANGE, "|||", pale=True),
    "softmax_stats_empty": Look(GREEN, "///", pale=True),
    "O_epi_full": Look(GREEN, "xxx", pale=True),
    "Epilogue": Look(GREEN, "...", pale=True),
    "load_KV_full": Look(PURPLE, "///", pale=True),
    "load_Q_full": Look(PURPLE, "xxx", pale=True),
    "load_K_full": Look(PURPLE, "ooo", pale=True),
    "load_V_full": Look(PURPLE, "---", pale=True),
    "tma_store": Look(PURPLE, "...", pale=True),
    "O_epi_empty": Look(GREY, "///", pale=True),
    "load_epi_full": Look(GREY, "xxx", pale=True),
    "load_epi_empty": Look(GREY, "...", pale=True),
    "TmemPtr": Look(BLACK, "///", pale=True),
    "tmem_dealloc": Look(BLACK, "xxx", pale=True),
    "clc_full": Look(BLACK, "...", pale=True),
    "clc_empty": Look(BLACK, "ooo", pale=True),
    "work_info_full": Look(BLACK, "...", pale=True),  # what clc is, by another scheduler
    "work_info_empty": Look(BLACK, "ooo", pale=True),
    "Cta": Look(BLACK, "---", pale=True),
}
#: Barriers of which each warp or consumer has its own, and which share a name in a legend.
_NUMBERED = re.compile(r"(SoftmaxStats)W\d+|(Scheduler|Epilogue)\d+")
_SPARE_COLOURS = (SKY, ORANGE, GREEN, YELLOW, BLUE, VERMILLION, PURPLE)
_SPARE_HATCHES = ("//", "..", "xx", "oo", "--", "||")


def look_of_op(op: str) -> Look:
    """How an operation is drawn; unknown ones get a look of their own that never changes."""
    if op in OPS:
        return OPS[op]
    if op.startswith(("issue", "arrive", "start", "setmaxnreg", "loop", "fence")):
        return ISSUE
    if op in ("free Q", "free K", "free V", "pass turn", "step"):
        return ISSUE
    if op in ("allocate TMEM", "free TMEM", "write LSE", "read tile", "ask for a tile"):
        return ISSUE
    code = sum(op.encode())
    return Look(_SPARE_COLOURS[code % 7], _SPARE_HATCHES[code // 7 % len(_SPARE_HATCHES)])


def look_of_wait(name: str) -> Look:
    """How a wait for ``name``, as :func:`wait_group` gives it, is drawn."""
    if name in WAITS:
        return WAITS[name]
    return Look(BLACK, 2 * _SPARE_HATCHES[sum(name.encode()) % len(_SPARE_HATCHES)], pale=True)


def look_of_tensor(tensor: str) -> Look:
    """How a tensor is drawn."""
    return TENSORS.get(tensor, Look(GREY))


def op_group(op: str) -> str:
    """What an operation is called in a legend: all that only issues or signals is one entry.

    >>> op_group("arrive P"), op_group("exp2")
    ('issue, arrive, loop', 'exp2')
    """
    return "issue, arrive, loop" if look_of_op(op) == ISSUE else op


def wait_group(barrier: str) -> str:
    """What a barrier is called in a legend: SoftmaxStatsW0 to W7 are one entry.

    >>> wait_group("SoftmaxStatsW5"), wait_group("Scheduler1"), wait_group("S_full")
    ('SoftmaxStats', 'Scheduler', 'S_full')
    """
    found = _NUMBERED.fullmatch(barrier)
    return (found[1] or found[2]) if found else barrier


def subscript(number: int) -> str:
    """``number`` in subscript digits; '' if it is not given (negative).

    >>> "K" + subscript(13)
    'K₁₃'
    """
    return "" if number < 0 else str(number).translate(str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉"))


_TEXT = TextToPath()


@lru_cache(maxsize=4096)
def text_width(text: str, size: float = SMALL, weight: str = "normal") -> float:
    """How wide ``text`` is set in ``size`` points, in inches."""
    font = FontProperties(size=size, weight=weight)
    return float(_TEXT.get_text_width_height_descent(text, font, ismath=False)[0]) / 72
