"""The timeline: what every warp and unit did, and what it waited for, side by side over time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import FancyArrowPatch

from fa4sim.trace import NONE, Trace
from fa4sim.views.causes import Cause, Completions
from fa4sim.views.figure import Picture
from fa4sim.views.layout import (
    Bar,
    Entry,
    Page,
    draw_bars,
    label_room,
    lane_labels,
    split_legends,
    time_axis,
    write_in_bars,
)
from fa4sim.views.scope import Scope, is_steady, run_words, scope, span_words, steps
from fa4sim.views.style import (
    OPS,
    WAITS,
    WIDTH,
    look_of_op,
    look_of_wait,
    op_group,
    subscript,
    wait_group,
)

#: Lanes from top to bottom: the way of the data, K and V in, scores, probabilities, O out.
ROLES = (
    *("load", "tma", "cp_async", "mma", "tensor", "softmax0", "softmax1", "correction"),
    *("epilogue", "tma_store", "scheduler"),
)
#: Asynchronous units, of which a trace may tell when work was issued and done: of work that
#: overlaps, each is drawn until the next was issued.
UNITS = ("tma", "tensor", "tma_store", "cp_async")
LANE = 0.36  # inches per lane
SLIM = 0.27
#: Barriers that bytes complete, where they are announced.
LOADED = ("load_KV_full", "load_Q_full", "load_K_full", "load_V_full")
#: Waits shorter than this part of the window get no arrow.
ARROW_SHARE = 0.03


@dataclass(frozen=True)
class Lane:
    """One row: a warp of a role, or the tensor pipe's products of a Q tile or consumer."""

    label: str
    role: str
    warp: int
    stage: int = NONE

    def holds(self, role: str, warp: int, stage: int) -> bool:
        """Whether what that warp does with that stage is drawn here."""
        return (
            role == self.role
            and self.warp in (NONE, warp)
            and (self.stage == NONE or stage in (NONE, self.stage))
        )


def timeline(
    trace: Trace,
    *,
    start: int | None = None,
    end: int | None = None,
    cta: int | None = None,
    warps: Literal["first", "all"] = "first",
    width: float = WIDTH,
    title: str | None = None,
    arrows: bool = True,
) -> Picture:
    """Draw what each role's warps and each asynchronous unit did over time, and why they waited.

    Work is solid and coloured by operation, the number of its K/V block inside where it fits.
    Waits are slim, pale and hatched in the colour of whom they wait for; an arrow runs from the
    arrival that ended a longer wait to the waiting warp.

    Args:
        trace: any trace; compact ones are expanded.
        start, end: the window in units of the trace's clock; by default about two K/V blocks
            from the middle of the run (all of a short run).
        cta: which CTA; by default the first.
        warps: ``"first"`` shows one warp of each role, ``"all"`` every warp.
        width: of the picture, in inches.
        title: instead of the default one.
        arrows: whether to draw them.

    Raises:
        ValueError: unknown CTA, window with nothing in it, empty trace.

    >>> from fa4sim import Problem, simulate
    >>> from fa4sim.views import alt_text, timeline
    >>> run = simulate(Problem(seqlen_q=512, causal=True), scope="cta")
    >>> print(alt_text(timeline(run.trace, start=0, end=4000)))
    Timeline of CTA 0, cycles 0 to 4,000...
    """
    part = scope(trace, start, end, cta)
    lanes = find_lanes(part, warps)
    spans, waits = span_bars(part, lanes), wait_bars(part, lanes)
    legends = split_legends(width, *legend_groups(part))
    lane = LANE if len(lanes) <= 12 else SLIM
    labels = [item.label for item in lanes]
    words = run_words(part.trace)
    blocks = ", on which K/V block" if (part.trace.span["block"] != NONE).any() else ""
    page = Page(
        width, [lane * len(lanes)], label_room(labels),
        title or f"Timeline of {part.where}",
        (f"{words}. " if words else "") + f"Solid: working{blocks}. "
        "Slim and hatched: waiting, in the colour of whom it waits for"
        + ("; arrows: what ended the wait." if arrows else "."),
        legends, above=0.3,
    )  # fmt: skip
    axes = page.axes[0]
    draw_lanes(axes, part, lanes, spans, waits, page.width, arrows)
    page.figure.describe(title or f"Timeline of {part.where}", describe_lanes(part, lanes))
    return page.figure


def compare_timelines(
    a: Trace,
    b: Trace,
    labels: Sequence[str] = ("a", "b"),
    *,
    start: int | None = None,
    end: int | None = None,
    width: float = WIDTH,
    arrows: bool = False,
) -> Picture:
    """Draw the timelines of two runs one above the other on the same time axis.

    With ``start`` and ``end`` (in the traces' clock) both show that window. Without, each shows
    about two K/V blocks from its middle, both set to 0 where QK of such a block begins (of a short
    run, all of it).

    Args:
        a, b: the two traces, of the same clock.
        labels: what to call them.
        start, end: a window for both.
        width: in inches.
        arrows: as in :func:`timeline`.

    Raises:
        ValueError: two clocks, other than two labels, or what :func:`timeline` raises.
    """
    if a.clock != b.clock:
        raise ValueError(
            f"the traces count {a.clock!r} and {b.clock!r}; one time axis needs one clock"
        )
    if len(labels) != 2:
        raise ValueError(f"labels={list(labels)!r}: give two, one for each trace")
    parts = [scope(trace, start, end) for trace in (a, b)]
    aligned = start is None and end is None
    longest = max(part.length for part in parts)
    if aligned:
        parts = [Scope(p.trace, p.cta, p.sm, p.start, p.start + longest) for p in parts]
    else:
        low, high = min(p.start for p in parts), max(p.end for p in parts)
        parts = [Scope(p.trace, p.cta, p.sm, low, high) for p in parts]
    by_block = all(is_steady(part.trace, part.cta) for part in parts)
    zero = "QK of one K/V block began" if by_block else "the first of each"
    lanes = [find_lanes(part, "first") for part in parts]
    work, why = legend_groups(*parts)
    paces = [_pace(part) or span_words(part.trace, part.length) for part in parts]
    words = [f"{label}: {pace}" for label, pace in zip(labels, paces, strict=True)]
    page = Page(
        width, [SLIM * len(rows) for rows in lanes],
        label_room([lane.label for rows in lanes for lane in rows]),
        f"{labels[0]} and {labels[1]}", "; ".join(words) + ".",
        split_legends(width, work, why), above=0.35, between=0.7,
    )  # fmt: skip
    for i, (axes, part, rows) in enumerate(zip(page.axes, parts, lanes, strict=True)):
        text = f"{part.trace.clock} since {zero}" if aligned else ""
        draw_lanes(axes, part, rows, span_bars(part, rows), wait_bars(part, rows), page.width,
                   arrows, zero=part.start if aligned else 0, label=i == 1, text=text)  # fmt: skip
        axes.set_title(labels[i], size=9, weight="bold", loc="left", pad=6)
    page.figure.describe(
        f"{labels[0]} and {labels[1]}",
        f"Two timelines on one time axis of {span_words(a, parts[0].length)}. "
        + " ".join(f"{label}: {describe_lanes(part, rows)}"
                   for label, part, rows in zip(labels, parts, lanes, strict=True)),
    )  # fmt: skip
    return page.figure


# -- lanes ----------------------------------------------------------------------------------------


def find_lanes(part: Scope, warps: str) -> list[Lane]:
    """The lanes of one CTA, whether or not they have anything in the window."""
    if warps not in ("first", "all"):
        raise ValueError(f"warps={warps!r} must be 'first' or 'all'")
    spans = part.trace.span.where(cta=part.cta)
    waits = part.trace.wait.where(cta=part.cta)
    found = [*ROLES, *(r for r in spans.unique("role") if r not in ROLES and r != "idle")]
    lanes: list[Lane] = []
    for role in found:
        mine = spans.where(role=role)
        numbers = sorted({*mine["warp"].tolist(), *waits.where(role=role)["warp"].tolist()})
        if not numbers:
            continue
        if role == "tensor":
            stages = sorted({*mine["stage"].tolist()} - {NONE})
            if len(stages) > 1:
                whose = "consumer" if "consumer0" in found else "Q tile"
                lanes += [Lane(f"tensor, {whose} {s}", role, NONE, s) for s in stages]
            else:
                lanes.append(Lane("tensor", role, NONE))
        elif len(numbers) == 1:
            lanes.append(Lane(role, role, NONE))
        elif warps == "first":
            lanes.append(Lane(f"{role}, warp {numbers[0]}", role, numbers[0]))
        else:
            lanes += [Lane(f"{role}, warp {n}", role, n) for n in numbers]
    return lanes


def _lane_of(lanes: Sequence[Lane], role: str, warp: int, stage: int) -> int:
    for i, lane in enumerate(lanes):
        if lane.holds(role, warp, stage):
            return i
    return NONE


def span_bars(part: Scope, lanes: Sequence[Lane]) -> list[list[Bar]]:
    """The work bars of each lane, runs of the same operation on the same block joined for text.

    The first list holds the bars as they are; the second invisible ones that carry the labels.
    """
    spans = part.rows("span")
    roles, ops = spans.text("role"), spans.text("op")
    drawn: list[Bar] = []
    written: list[Bar] = []
    for i, lane in enumerate(lanes):
        mask = roles == lane.role
        if lane.warp != NONE:
            mask = mask & (spans["warp"] == lane.warp)
        if lane.stage != NONE:
            mask = mask & (spans["stage"] == lane.stage)
        (rows,) = np.nonzero(mask)
        rows = rows[np.argsort(spans["start"][rows], kind="stable")]
        run: Bar | None = None
        for row in rows:
            op, block, stage = str(ops[row]), int(spans["block"][row]), int(spans["stage"][row])
            bar = Bar(
                max(int(spans["start"][row]), part.start), min(int(spans["end"][row]), part.end),
                i - 0.4, i + 0.4, look_of_op(op), _op_labels(lane, op, block, stage),
            )  # fmt: skip
            if drawn and lane.role in UNITS and drawn[-1].low == bar.low:
                drawn[-1] = _until(drawn[-1], bar.start)
            drawn.append(bar)
            if run is not None and run.end == bar.start and run.labels == bar.labels:
                run = Bar(run.start, bar.end, run.low, run.high, run.look, run.labels)
            else:
                if run is not None:
                    written.append(_until(run, bar.start))
                run = bar
        if run is not None:
            written.append(run)
    return [drawn, written]


def _until(bar: Bar, time: float) -> Bar:
    """A bar that leaves room for what begins then, if it reaches so far."""
    return replace(bar, end=min(bar.end, time))


def _op_labels(lane: Lane, op: str, block: int, stage: int) -> tuple[str, ...]:
    """What to write on a span, longest first; the Q tile where a lane serves both."""
    by_stage = lane.role in ("mma", "correction") or op in ("load Q", "store O")
    name = op + subscript(stage) if by_stage else op
    if op in ("load Q", "store O"):
        return (name, op[-1] + subscript(stage))
    if block == NONE:
        return (name,)
    short = (op[-1] + subscript(block),) if op.startswith("load ") else (name,)
    return (f"{name} · block {block}", f"{name} {block}", *short)


def wait_bars(part: Scope, lanes: Sequence[Lane]) -> list[Bar]:
    """The waits of each lane, slimmer than its work."""
    waits = part.rows("wait")
    roles, on = waits.text("role"), waits.text("on")
    bars = []
    for row in range(len(waits)):
        i = _lane_of(lanes, str(roles[row]), int(waits["warp"][row]), NONE)
        if i == NONE:
            continue
        name, stage = str(on[row]), int(waits["stage"][row])
        named = f"{name}[{stage}]" if stage != NONE and wait_group(name) == name else name
        bars.append(
            Bar(max(int(waits["start"][row]), part.start), min(int(waits["end"][row]), part.end),
                i - 0.24, i + 0.24, look_of_wait(wait_group(name)), (named, name))
        )  # fmt: skip
    return bars


# -- drawing --------------------------------------------------------------------------------------


def draw_lanes(
    axes: Axes, part: Scope, lanes: Sequence[Lane], spans: list[list[Bar]], waits: list[Bar],
    width: float, arrows: bool, *, zero: int = 0, label: bool = True, text: str = "",
    seconds: bool = True,
) -> None:  # fmt: skip
    """Draw the lanes, their time axis and perhaps arrows; see :func:`timeline`."""
    lane_labels(axes, [lane.label for lane in lanes])
    time_axis(axes, part.trace, part.start, part.end, zero=zero, label=label, text=text,
              seconds=seconds and not zero)  # fmt: skip
    for i in range(len(lanes)):
        axes.axhline(i, color="#EEEEEE", linewidth=0.8, zorder=0.5)
    drawn, written = spans
    draw_bars(axes, waits)
    draw_bars(axes, drawn, outline=0.04 * part.length / width)
    write_in_bars(axes, waits, width)
    write_in_bars(axes, written, width)
    if arrows:
        _draw_arrows(axes, part, lanes)


def _draw_arrows(axes: Axes, part: Scope, lanes: Sequence[Lane]) -> None:
    waits = part.rows("wait").where(kind="barrier")
    completions = Completions(part.trace)
    roles, on = waits.text("role"), waits.text("on")
    for row in range(len(waits)):
        length = int(waits["end"][row] - waits["start"][row])
        end = int(waits["end"][row])
        to = _lane_of(lanes, str(roles[row]), int(waits["warp"][row]), NONE)
        first = next((i for i, lane in enumerate(lanes) if lane.role == roles[row]), NONE)
        if to != first or end > part.end or length < ARROW_SHARE * part.length:
            continue  # of several warps of a role, which wait alike, one arrow will do
        name, stage = str(on[row]), int(waits["stage"][row])
        cause = completions.find(name, stage, int(waits["phase"][row]), part.cta, end)
        if cause is None or cause.time < part.start or cause.cta != part.cta:
            continue
        source = _lane_of_cause(part, lanes, cause)
        if source in (NONE, to):
            continue
        down = 1 if to > source else -1
        axes.add_patch(
            FancyArrowPatch(
                (cause.time, source + 0.4 * down), (end, to - 0.24 * down), arrowstyle="-|>",
                mutation_scale=7, linewidth=1.0, color=look_of_wait(wait_group(name)).colour,
                shrinkA=0, shrinkB=0, zorder=4,
            )
        )  # fmt: skip


def _lane_of_cause(part: Scope, lanes: Sequence[Lane], cause: Cause) -> int:
    """The lane an arrow starts from: that of the warp, or of the MMA a commit came after."""
    if cause.role == "tensor":
        done = part.trace.span.where(cta=part.cta, role="tensor")
        before = done["end"] <= cause.time
        if not before.any():
            return NONE
        last = int(np.argmax(np.where(before, done["end"], NONE)))
        return _lane_of(lanes, "tensor", NONE, int(done["stage"][last]))
    found = _lane_of(lanes, cause.role, cause.warp, NONE)
    if found == NONE:  # another warp of a role that is drawn by its first
        found = next((i for i, lane in enumerate(lanes) if lane.role == cause.role), NONE)
    return found


def legend_groups(*parts: Scope) -> list[tuple[str, list[Entry]]]:
    """What the window shows: operations, and barriers with those who arrive on them."""
    work: dict[str, Entry] = {}
    why: dict[str, Entry] = {}
    for part in parts:
        for op in part.rows("span").unique("op"):
            work.setdefault(op_group(op), Entry(op_group(op), look_of_op(op)))
        groups: dict[str, list[str]] = {}
        for on in part.rows("wait").unique("on"):
            groups.setdefault(wait_group(on), []).append(on)
        for group, barriers in groups.items():
            arrive = part.trace.arrive.where(barrier=tuple(barriers))
            who = sorted(arrive.unique("by"), key=_order)
            if group == "SoftmaxStats":
                who = ["softmax0", "softmax1"]
            text = f"{group} ← {', '.join(_short(who))}" if who else group
            if group in LOADED and (arrive["tx_bytes"] > 0).any():
                text += ", then tma"
            why.setdefault(group, Entry(text, look_of_wait(group)))
    ops, known = list(OPS), list(WAITS)
    by_op = sorted(work, key=lambda op: ops.index(op) if op in ops else len(ops))
    by_barrier = sorted(why, key=lambda on: known.index(on) if on in known else len(known))
    return [
        ("Working on", [work[op] for op in by_op]),
        ("Waiting for (← who arrives)", [why[on] for on in by_barrier]),
    ]


def _order(role: str) -> tuple[int, str]:
    """Softmax first, the others as their lanes."""
    if role.startswith("softmax"):
        return -1, role
    return ROLES.index(role) if role in ROLES else len(ROLES), role


def _short(roles: Sequence[str]) -> list[str]:
    """``softmax0`` and ``softmax1`` together are ``softmax``."""
    if {"softmax0", "softmax1"} <= set(roles):
        return ["softmax", *(r for r in roles if not r.startswith("softmax"))]
    return list(roles)


# -- words ----------------------------------------------------------------------------------------


def _pace(part: Scope) -> str:
    """How long a K/V block takes; '' if the trace does not show it."""
    begin = steps(part.trace, part.cta)
    if len(begin) < 2:
        return ""
    return f"{span_words(part.trace, float(np.median(np.diff(begin))))} per K/V block"


def busy_share(part: Scope, role: str, warp: int = NONE, stage: int = NONE) -> float:
    """The part of the window in which a lane worked."""
    spans = part.rows("span").where(role=role)
    mask = np.ones(len(spans), dtype=bool)
    if warp != NONE:
        mask &= spans["warp"] == warp
    if stage != NONE:
        mask &= spans["stage"] == stage
    start, end = part.cut(spans["start"])[mask], part.cut(spans["end"])[mask]
    order = np.argsort(start, kind="stable")
    start, end = start[order], end[order]
    # Nested spans count once: each adds what lies beyond all that began before it.
    reached = np.maximum.accumulate(end) if len(end) else end
    before = np.concatenate([[part.start], reached[:-1]]) if len(end) else end
    return int(np.maximum(0, end - np.maximum(start, before)).sum()) / part.length


def longest_wait(part: Scope, role: str, warp: int = NONE) -> tuple[str, float] | None:
    """What a lane waited for most in the window, and for what part of it."""
    waits = part.rows("wait").where(role=role)
    if warp != NONE:
        waits = waits.where(warp=warp)
    if not len(waits):
        return None
    spent: dict[str, int] = {}
    lengths = part.cut(waits["end"]) - part.cut(waits["start"])
    for name, length in zip(waits.text("on"), lengths, strict=True):
        group = wait_group(str(name))
        spent[group] = spent.get(group, 0) + int(length)
    name = max(spent, key=lambda key: (spent[key], key))
    return name, spent[name] / part.length


def describe_lanes(part: Scope, lanes: Sequence[Lane]) -> str:
    """What the lanes do in the window, in words and numbers."""
    words = []
    for i, lane in enumerate(lanes):
        if lane.stage == NONE and lane.role in (other.role for other in lanes[:i]):
            continue  # the other warps of a role do much the same
        busy = busy_share(part, lane.role, lane.warp, lane.stage)
        text = f"{lane.label} works {busy:.0%}"
        if lane.role != "tensor":
            most = longest_wait(part, lane.role, lane.warp)
            if most is not None:
                text += f" and waits longest for {most[0]} ({most[1]:.0%})"
        words.append(text)
    pace = _pace(part)
    return (
        f"Timeline of {part.where} ({span_words(part.trace, part.length)})"
        + (f", {pace}" if pace else "")
        + f". Of that window, {'; '.join(words)}."
    )
