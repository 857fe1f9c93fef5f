"""One barrier over time: its phases, who arrives, who waits."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes

from fa4sim.trace import Table, Trace
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
from fa4sim.views.scope import Scope, from_to, pick_cta, scope, span_words
from fa4sim.views.style import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    INK,
    ORANGE,
    PURPLE,
    SKY,
    SMALL,
    VERMILLION,
    WIDTH,
    Look,
    look_of_wait,
    wait_group,
)

LANE = 0.42
PHASES_SHOWN = 6

ROLE_COLOURS = {
    "tensor": BLUE,
    "softmax0": ORANGE,
    "softmax1": VERMILLION,
    "correction": GREEN,
    "load": PURPLE,
    "tma": PURPLE,
    "cp_async": PURPLE,
    "mma": SKY,
    "epilogue": GREY,
}
PHASE_BIT = (Look(GREY, pale=True), Look(GREY, "///", pale=True))


def barrier_phases(
    trace: Trace,
    barrier: str = "P_full_O_rescaled",
    stage: int = 0,
    *,
    start: int | None = None,
    end: int | None = None,
    cta: int | None = None,
    width: float = WIDTH,
) -> Picture:
    """Draw the phases of one barrier, the arrivals that complete them, and the waits for them.

    The first lane shows the phase in progress with its bit (phase number mod 2), which flips
    with every completion. Then, per role, arrivals (a dot for each, the count it brought in all
    beside it) and bytes landing; then the waits, each named by the phase it is for.

    Args:
        trace: any trace with arrivals.
        barrier: its name, as in the kernel.
        stage: which of its stages.
        start, end: the window in units of the trace's clock; by default a few phases from the
            middle of the barrier's life.
        cta: whose barrier; by default that of the first CTA that arrives on it.
        width: in inches.

    Raises:
        ValueError: no such barrier or stage in the trace, empty window, unknown CTA.
    """
    whole = trace.expand()
    rows = _arrivals(whole, barrier, stage, cta)
    owner = int(rows["cta"][0])
    done = Completions(whole).of(barrier, stage, owner)
    if start is None and end is None:
        start, end = _middle(done)
    part = scope(whole, start, end, pick_cta(whole, owner))
    inside = (rows["time"] >= part.start) & (rows["time"] < part.end)
    arrivals = rows.where(inside)
    waits = part.rows("wait").where(on=barrier, stage=stage)
    if not len(arrivals) and not len(waits):
        raise ValueError(f"nobody arrives on {barrier}[{stage}] or waits for it in {part.where}")
    phases = _phase_bars(part, done)
    roles = arrivals.where(arrivals["count"] > 0).unique("by")  # bytes that land count none
    landed = [c for c in done.values() if c.role == "tma" and part.start <= c.time < part.end]
    names = ["phase in progress", *(f"{role} arrives" for role in roles)]
    names += ["bytes land (tma)"] if landed else []
    waiting = sorted({(str(r), int(w)) for r, w in zip(waits.text("role"), waits["warp"],
                                                       strict=True)})  # fmt: skip
    first = {role: min(w for r, w in waiting if r == role) for role, _ in waiting}
    waiting = [(role, warp) for role, warp in waiting if first[role] == warp]
    names += [f"{role} waits" for role, _ in waiting]
    heading = f"{barrier}[{stage}] of CTA {owner}"
    story = _story(part, done, arrivals, waits)
    entries = [Entry(f"phase bit {bit}", look) for bit, look in enumerate(PHASE_BIT)]
    entries += [Entry(f"arrivals of {role}", Look(ROLE_COLOURS.get(role, BLACK))) for role in roles]
    entries.append(Entry("waiting", look_of_wait(wait_group(barrier))))
    page = Page(width, [LANE * len(names)], label_room(names), heading, story,
                split_legends(width, ("", entries)), above=0.3)  # fmt: skip
    (axes,) = page.axes
    lane_labels(axes, names)
    time_axis(axes, whole, part.start, part.end)
    for i in range(len(names)):
        axes.axhline(i, color="#EEEEEE", linewidth=0.8, zorder=0.5)
    bars = list(phases)
    for i, role in enumerate(roles, 1):
        _draw_arrivals(axes, arrivals.where(by=role), i, ROLE_COLOURS.get(role, BLACK), part)
    for cause in landed:
        axes.plot([cause.time], [len(roles) + 1], marker="v", color=PURPLE, markersize=7, zorder=5)
    at = len(names) - len(waiting)
    look = look_of_wait(wait_group(barrier))
    for i, (role, warp) in enumerate(waiting, at):
        for row in waits.where(role=role, warp=warp).rows():
            phase = int(row["phase"]) - 1  # a wait says how many phases must be complete
            bars.append(
                Bar(max(int(row["start"]), part.start), min(int(row["end"]), part.end), i - 0.25,
                    i + 0.25, look, (f"for phase {phase}", str(phase)))
            )  # fmt: skip
    draw_bars(axes, bars, outline=0.02 * part.length / page.width)
    write_in_bars(axes, bars, page.width)
    for cause in done.values():
        if part.start <= cause.time < part.end:
            axes.axvline(cause.time, color=INK, linewidth=1, linestyle=(0, (3, 2)), zorder=4)
    page.figure.describe(heading, f"{heading}, {from_to(whole, part.start, part.end)}. {story}")
    return page.figure


def _arrivals(trace: Trace, barrier: str, stage: int, cta: int | None) -> Table:
    """The arrivals on one barrier; errors say which barriers, stages and CTAs there are."""
    arrive = trace.arrive
    known = arrive.unique("barrier")
    if barrier not in known:
        raise ValueError(
            f"nobody arrives on a barrier {barrier!r} in this trace; it has "
            f"{', '.join(sorted(known)) or 'no arrivals at all'}"
        )
    rows = arrive.where(barrier=barrier)
    stages = np.unique(rows["stage"])
    if stage not in stages:
        raise ValueError(f"{barrier} has no stage {stage!r} in this trace; it has stage "
                         f"{', '.join(map(str, stages))}")  # fmt: skip
    rows = rows.where(stage=stage)
    ctas = np.unique(rows["cta"])
    owner = int(ctas[0]) if cta is None else cta
    if owner not in ctas:
        raise ValueError(f"nobody arrives on {barrier}[{stage}] of cta={cta!r}; it is in CTA "
                         f"{', '.join(map(str, ctas))}")  # fmt: skip
    return rows.where(cta=owner)


def _middle(done: dict[int, Cause]) -> tuple[int, int]:
    """A window of a few phases around the middle one."""
    times = [done[phase].time for phase in sorted(done)]
    if len(times) <= PHASES_SHOWN:
        gap = max(100, (times[-1] - times[0]) // 8)
        return times[0] - 4 * gap if times[0] > 4 * gap else 0, times[-1] + gap
    at = (len(times) - PHASES_SHOWN) // 2
    gap = (times[at + PHASES_SHOWN - 1] - times[at]) // (PHASES_SHOWN - 1)
    return max(0, times[at] - gap // 2), times[at + PHASES_SHOWN - 1] + gap // 2


def _phase_bars(part: Scope, done: dict[int, Cause]) -> list[Bar]:
    """The phase in progress between one completion and the next."""
    bars, since = [], part.start
    order = sorted(done)
    after = order[-1] + 1
    for phase in [*order, after]:
        until = min(done[phase].time, part.end) if phase in done else part.end
        if until > since:
            bit = phase % 2
            labels = (f"phase {phase}, bit {bit}", f"{phase}, bit {bit}", f"{phase}")
            bars.append(Bar(since, until, -0.32, 0.32, PHASE_BIT[bit], labels))
        since = max(since, until)
    return bars


def _draw_arrivals(axes: Axes, rows: Table, lane: int, colour: str, part: Scope) -> None:
    axes.plot(rows["time"], np.full(len(rows), lane), linestyle="none", marker="|", color=colour,
              markersize=13, markeredgewidth=2, zorder=5)  # fmt: skip
    for phase in np.unique(rows["phase"]):
        mine = rows.where(phase=int(phase))
        time, count = int(mine["time"].max()), int(mine["count"].sum())
        axes.annotate(f"{count}", (time, lane), xytext=(4, 0), textcoords="offset points",
                      size=SMALL, color=INK, va="center_baseline", zorder=6)  # fmt: skip


def _story(part: Scope, done: dict[int, Cause], arrivals: Table, waits: Table) -> str:
    completed = [c for c in done.values() if part.start <= c.time < part.end]
    text = [f"{len(completed)} phases complete"]
    if len(completed) > 1:
        times = sorted(c.time for c in completed)
        text.append(f"one every {span_words(part.trace, float(np.mean(np.diff(times))))}")
    whole = [p for p in np.unique(arrivals["phase"]) if p in {c.phase for c in completed}]
    if whole:
        phase = int(whole[len(whole) // 2])
        mine = arrivals.where(phase=phase)
        each = ", ".join(f"{int(mine.where(by=role)['count'].sum())} of {role}"
                         for role in mine.where(mine["count"] > 0).unique("by"))  # fmt: skip
        size = int(mine["tx_bytes"].sum())
        landing = f" and {size:,} bytes" if size > 0 else ""
        text.append(f"phase {phase} counts {each}{landing}, the last from {done[phase].role}")
    for role in waits.unique("role"):
        mine = waits.where(role=role)
        longest = int((mine["end"] - mine["start"]).max())
        text.append(f"{role} waits {span_words(part.trace, longest)} at the longest")
    return "; ".join(text) + "."
