"""The page itself: an A3 sheet, landscape, that also reads when it is printed on A4."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch, Rectangle

from fa4sim.poster.facts import WARPS, BarrierRow, RoleRow, barriers, idle_warps, roles
from fa4sim.specs import Design, Machine, Problem
from fa4sim.views.figure import Picture
from fa4sim.views.style import (
    BLUE,
    FAINT,
    GREEN,
    GREY,
    INK,
    ORANGE,
    PURPLE,
    Look,
    look_of_tensor,
    subscript,
    text_width,
)

#: A3, landscape, in inches.
WIDTH, HEIGHT = 16.54, 11.69
MARGIN, RIGHT = 0.5, 11.4  # where the pictures of the memories begin
TITLE, HEADING, TEXT, NOTE = 26.0, 16.0, 12.0, 11.5
LINE = 0.225
ASIDE = "#555555"  # what stands back, and still reads from a few steps away

COLOURS = {
    "softmax": ORANGE, "correction": GREEN, "mma": BLUE, "load": PURPLE, "epilogue": PURPLE,
    "scheduler": GREY,
}  # fmt: skip


def poster(problem: Problem, design: Design, machine: Machine) -> Picture:
    """Draw roles, barriers, tensor memory and shared memory of ``design`` on one page.

    Raises ``ValueError`` if the design does not fit the problem and the machine.
    """
    design.check(problem, machine)
    figure = Picture(figsize=(WIDTH, HEIGHT))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_xlim(0, WIDTH)
    axes.set_ylim(HEIGHT, 0)
    axes.axis("off")
    title = f"FlashAttention-4, forward, on a {machine.name}"
    rows, table = roles(design), barriers(design)
    _title(axes, title, problem, design)
    bottom = _roles(axes, rows, top=1.55)
    middle = bottom + 0.55
    _barriers(axes, table, top=middle)
    below = _tmem(axes, design, problem, left=RIGHT, top=middle)
    _smem(axes, design, problem, machine, left=RIGHT, top=below + 0.6)
    axes.text(
        MARGIN, HEIGHT - 0.3, "Drawn by `fa4sim poster` from the design itself. Barriers and roles "
        "have the kernel's own names (flash-attn-4 4.0.0b27).",
        size=NOTE, color=ASIDE, va="center",
    )  # fmt: skip
    figure.describe(title, _alt(rows, table, design, problem))
    return figure


def _title(axes: Axes, title: str, problem: Problem, design: Design) -> None:
    one = design.q_stages == 1
    tiles = f"{design.q_stages} Q tile{'s'[one:]} of {design.tile_m} rows share{'s'[:one]}"
    pair = "a pair of CTAs as one" if design.cta_group == 2 else "one CTA on an SM"
    dims = [str(dim) for dim in dict.fromkeys((problem.head_dim, problem.head_dim_v))]
    axes.text(MARGIN, 0.62, title, size=TITLE, weight="bold", color=INK, va="center")
    words = (
        f"head dim{'s'[len(dims) == 1 :]} {' and '.join(dims)}, {problem.dtype} · {tiles} "
        f"K/V blocks of {design.tile_n} keys · ring of {design.kv_stages} slots · {pair}"
    )
    axes.text(MARGIN, 1.02, words, size=TEXT + 1.5, color=INK, va="center")


def _heading(axes: Axes, left: float, top: float, text: str) -> float:
    axes.text(left, top, text, size=HEADING, weight="bold", color=INK, va="center")
    return top + 0.36


def _roles(axes: Axes, rows: list[RoleRow], top: float) -> float:
    """A box for each role, side by side; the lower edge of the boxes."""
    idle = idle_warps(rows)
    rest = f" (warp{'s'[len(idle) == 1 :]} {', '.join(map(str, idle))}: none)" if idle else ""
    title = f"Roles of a CTA's {WARPS} warps: what each does, block by block{rest}"
    y = _heading(axes, MARGIN, top, title)
    gap = 0.14
    width = (WIDTH - 2 * MARGIN - gap * (len(rows) - 1)) / len(rows)
    size = NOTE * min(1.0, width / 2.45)  # seven roles have less room than six
    height = 0.95 + LINE * 1.9 * max(len(row.loop) for row in rows)
    for i, row in enumerate(rows):
        left = MARGIN + i * (width + gap)
        look = Look(COLOURS[row.role.rstrip("01")], pale=True)
        _box(axes, left, y, width, height, look)
        axes.text(left + 0.1, y + 0.2, row.role, size=HEADING - 1, weight="bold", va="center")
        warps = f"warp {row.warps}" if row.warps.isdigit() else f"warps {row.warps}"
        note = f"{warps} · {row.registers} registers"
        axes.text(left + 0.1, y + 0.45, note, size=size, color=INK, va="center")
        at = _wrapped(axes, left + 0.1, y + 0.72, row.does, width - 0.2, size, style="italic")
        for line in row.loop:
            at = _wrapped(axes, left + 0.1, at + 0.07, line, width - 0.2, size)
    return y + height


def _wrapped(
    axes: Axes, left: float, top: float, text: str, width: float, size: float, **style: Any
) -> float:
    """Write ``text`` in as many lines as it needs; where the next one begins."""
    line, lines = "", []
    for word in text.split(" "):
        if line and text_width(f"{line} {word}", size) > width:
            lines.append(line)
            line = "  " + word
        else:
            line = f"{line} {word}" if line else word
    for each in [*lines, line]:
        axes.text(left, top, each, size=size, color=INK, va="center", **style)
        top += LINE * 0.88
    return top


def _barriers(axes: Axes, table: list[BarrierRow], top: float) -> None:
    y = _heading(axes, MARGIN, top, "Barriers: who arrives, who waits")
    columns = (MARGIN, 2.7, 3.4, 5.95, 7.0)
    for left, name in zip(
        columns, ("barrier", "stages", "arrivals", "waits", "once complete"), strict=True
    ):
        axes.text(left, y, name, size=NOTE, color=ASIDE, va="center")
    step = min(0.285, (HEIGHT - 0.7 - y) / (len(table) + 1))
    for i, row in enumerate(table):
        y += step
        if i % 2 == 0:
            axes.add_patch(
                Rectangle(
                    (MARGIN - 0.05, y - step / 2), RIGHT - 0.65, step, color=FAINT, alpha=0.35, lw=0
                )
            )
        for j, (left, text) in enumerate(zip(columns, row, strict=True)):
            weight = "bold" if j == 0 else "normal"
            axes.text(left, y, text, size=NOTE - 0.6, color=INK, va="center", weight=weight)


def _tmem(axes: Axes, design: Design, problem: Problem, left: float, top: float) -> float:
    y = _heading(axes, left, top, "Tensor memory: 512 columns")
    width, height = WIDTH - MARGIN - left, 1.5
    scale = width / 512
    axes.add_patch(Rectangle((left, y), width, height, facecolor="white", edgecolor=GREY, lw=0.8))
    edges = {0, 512}
    for name, (first, columns) in design.tmem_map(problem.element_bytes).items():
        inside = name.startswith("P")
        depth = height / 2 if inside else height
        at = y + height / 2 if inside else y
        words = subscript_of(name)
        _tile(axes, left + first * scale, at, columns * scale, depth, name[0], words,
              up=name.startswith("S"))  # fmt: skip
        edges |= {first, first + columns}
    for edge in sorted(edges):
        axes.text(left + edge * scale, y + height + 0.13, str(edge), size=NOTE - 1, ha="center",
                  va="center", color=INK)  # fmt: skip
    notes = "P takes part of its S's place.", "Each of 128 lanes is a row, one thread's own."
    for line, note in enumerate(notes):
        axes.text(left, y + height + 0.38 + LINE * line, note, size=NOTE, color=INK, va="center")
    return y + height + 0.4 + LINE


def _smem(
    axes: Axes, design: Design, problem: Problem, machine: Machine, left: float, top: float
) -> None:
    parts = design.smem_bytes(problem)
    capacity = machine.smem_bytes_per_cta
    total = sum(parts.values())
    text = f"Shared memory: {total / 1024:.0f} of {capacity / 1024:.0f} KiB"
    y = _heading(axes, left, top, text)
    width, height = WIDTH - MARGIN - left, 0.95
    scale = width / capacity
    axes.add_patch(Rectangle((left, y), width, height, facecolor="white", edgecolor=GREY, lw=0.8))
    x = left
    for stage in range(design.q_stages):
        size = parts["Q"] / design.q_stages * scale
        _tile(axes, x, y, size, height, "Q", subscript_of(f"Q{stage}"))
        x += size
    for slot, ((_, size), _) in enumerate(design.ring_slots(problem)):
        words = "K or V" if size * scale > 0.7 else "K/V" if size * scale > 0.36 else ""
        look = Look(PURPLE, "//" if slot % 2 else "", pale=True)
        axes.add_patch(
            Rectangle((x, y), size * scale, height, facecolor=look.face, edgecolor=GREY,
                      hatch=look.hatch, lw=0.8)
        )  # fmt: skip
        axes.text(x + size * scale / 2, y + height / 2, f"{words}\n{slot}".strip(), size=NOTE,
                  ha="center", va="center", color=INK)  # fmt: skip
        x += size * scale
    for stage in range(design.q_stages if parts["O"] else 0):
        size = parts["O"] / design.q_stages * scale
        _tile(axes, x, y, size, height, "O", subscript_of(f"O{stage}"))
        x += size
    small = (parts["statistics"] + parts["barriers"]) / 1024
    ring = f"Ring of {design.kv_stages} slots."
    ring += " O leaves through Q's place." if design.overlap_o_q else ""
    for line, note in enumerate((ring, f"Statistics and barriers take {small:.0f} KiB more.")):
        axes.text(left, y + height + 0.2 + LINE * line, note, size=NOTE, color=INK, va="center")


def subscript_of(name: str) -> str:
    """``"S0"`` as it is written in pictures."""
    return name[0] + subscript(int(name[1:]))


def _tile(
    axes: Axes,
    left: float,
    top: float,
    width: float,
    height: float,
    tensor: str,
    text: str,
    *,
    up: bool = False,
) -> None:
    look = look_of_tensor(tensor)
    box = Rectangle((left, top), width, height, facecolor=look.face, edgecolor="white", lw=1.2)
    axes.add_patch(box)
    axes.text(left + width / 2, top + height / (4 if up else 2), text, size=TEXT + 2,
              ha="center", va="center", color=look.ink)  # fmt: skip


def _box(axes: Axes, left: float, top: float, width: float, height: float, look: Look) -> None:
    axes.add_patch(
        FancyBboxPatch((left, top), width, height, boxstyle="round,pad=0,rounding_size=0.06",
                       facecolor=look.face, edgecolor=look.colour, lw=1.4)
    )  # fmt: skip


def _alt(rows: list[RoleRow], table: list[BarrierRow], design: Design, problem: Problem) -> str:
    """The page in words."""
    who = "; ".join(f"{row.role} (warps {row.warps}): {row.does}" for row in rows)
    means = "; ".join(
        f"{name}: {arrives} arrive, {waits} waits, and once it is complete {so}"
        for name, _, arrives, waits, so in table
    )
    places = ", ".join(
        f"{name} from column {first}, {columns} wide"
        for name, (first, columns) in design.tmem_map(problem.element_bytes).items()
    )
    return f"Roles. {who}. Barriers. {means}. Tensor memory. {places}."
