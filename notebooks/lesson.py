"""What the notebooks share: numbers in sentences, tables, charts, controls and the barrier stepper.

Every chart is a :class:`fa4sim.views.Picture`, so it carries a description in words and numbers.
"""

from __future__ import annotations

import ast
import html
import inspect
import re
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from IPython.display import HTML, Markdown, display
from matplotlib.patches import Rectangle
from matplotlib.ticker import FuncFormatter, NullFormatter

from fa4kernel.emulator import DeadlockError
from fa4kernel.emulator.checks.hazard import Hazard
from fa4kernel.emulator.errors import source_line
from fa4sim import Deadlock, Trace
from fa4sim.numerics import DISTRIBUTIONS, round_to
from fa4sim.numerics.formats import Float32Array
from fa4sim.views import Picture
from fa4sim.views.style import (
    BLACK,
    BLUE,
    FAINT,
    GREEN,
    GREY,
    INK,
    LARGE,
    NORMAL,
    ORANGE,
    PURPLE,
    SMALL,
    VERMILLION,
)

WIDTH = 9.0  # inches
LINES = (
    *((BLUE, "o", "-"), (VERMILLION, "s", "--"), (GREEN, "^", "-."), (ORANGE, "D", ":")),
    *((PURPLE, "v", "-"), (BLACK, "x", "--")),
)


def example_inputs(name: str, queries: int = 256, keys: int = 1024) -> list[Float32Array]:
    """q, k, v as bf16 values, seed 0, head dimension 128; q and k have the named distribution.

    The names are those of :data:`fa4sim.numerics.DISTRIBUTIONS`; v is normal.
    """
    rng = np.random.default_rng(0)
    q, k = DISTRIBUTIONS[name](rng, keys, 128)
    v = rng.standard_normal((keys, 128)).astype(np.float32)
    return [round_to(array, "bf16") for array in (q[:queries], k, v)]


# -- words and tables ------------------------------------------------------------------------------


def say(*sentences: str) -> None:
    """Show sentences as running text; numbers come in through f-strings."""
    display(Markdown(" ".join(" ".join(sentences).split())))


def table(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> Markdown:
    """A table; whole numbers get thousands separators and stand on the right."""
    body = [[_cell(value) for value in row] for row in rows]
    right = [
        bool(body) and all(row[i] == "–" or row[i].lstrip("−+-")[:1].isdigit() for row in body)
        for i in range(len(headers))
    ]
    rule = ["---:" if is_number else ":---" for is_number in right]
    lines = [headers, rule, *body]
    return Markdown("\n".join("| " + " | ".join(line) + " |" for line in lines))


def _cell(value: object) -> str:
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        return f"{value:,}"
    if isinstance(value, (float, np.floating)):
        return f"{value:,.4g}"
    return str(value)


# -- controls --------------------------------------------------------------------------------------


def knob(draw: Callable[..., object], **choices: Sequence[object]) -> None:
    """Show ``draw`` with the first choice of each argument, and a slider for each to redraw it.

    ``knob(ring, kv_stages=(2, 3))`` shows ``ring(kv_stages=2)``. Without ipywidgets there is a hint
    how to turn it by hand.
    """
    chosen = {name: values[0] for name, values in choices.items()}
    try:
        import ipywidgets
    except ImportError:
        others = ", ".join(f"{name}={values[-1]!r}" for name, values in choices.items())
        say(f"No sliders here; run `{draw.__name__}({others})` in a new cell to turn the knob.")
        display(draw(**chosen))
        return
    sliders = {
        name: ipywidgets.SelectionSlider(
            options=list(values), description=name, continuous_update=False,
            style={"description_width": "initial"}, layout={"width": "28em"},
        )
        for name, values in choices.items()
    }  # fmt: skip
    display(*sliders.values())
    picture = display(draw(**chosen), display_id=True)

    def redraw(_change: object) -> None:
        picture.update(draw(**{name: slider.value for name, slider in sliders.items()}))

    for slider in sliders.values():
        slider.observe(redraw, names="value")


# -- charts ----------------------------------------------------------------------------------------

Points = tuple[Iterable[float], Iterable[float]]


def chart(
    series: Mapping[str, Points],
    title: str,
    x: str,
    y: str,
    *,
    log_y: bool = False,
    log_x: bool = False,
    from_zero: bool = False,
    marks: Mapping[str, float] | None = None,
    levels: Mapping[str, float] | None = None,
    height: float = 3.4,
) -> Picture:
    """Draw lines; ``marks`` are named vertical lines, ``levels`` named horizontal ones.

    The alt text gives each line's first, last and lowest point.
    """
    figure = Picture(figsize=(WIDTH, height), dpi=100, layout="constrained", facecolor="white")
    axes = figure.add_subplot()
    axes.set_title(title, loc="left", size=LARGE, weight="bold", color=INK)
    story = []
    for (name, (xs, ys)), (colour, marker, line) in zip(series.items(), LINES, strict=False):
        xs, ys = np.asarray(list(xs), dtype=float), np.asarray(list(ys), dtype=float)
        few = len(xs) <= 40
        axes.plot(xs, ys, color=colour, linestyle=line, marker=marker if few else None,
                  markersize=5, linewidth=1.6, label=name)  # fmt: skip
        low = int(np.nanargmin(ys))
        story.append(
            f"{name}: {ys[0]:.4g} at {xs[0]:.4g}, lowest {ys[low]:.4g} at {xs[low]:.4g}, "
            f"{ys[-1]:.4g} at {xs[-1]:.4g}."
        )
    for i, (name, at) in enumerate((marks or {}).items()):
        axes.axvline(at, color=INK, linewidth=1, linestyle=(0, (2, 2)))
        axes.annotate(name, (at, 1), xycoords=("data", "axes fraction"), size=SMALL, color=INK,
                      xytext=(4, -10 - 12 * i), textcoords="offset points", zorder=3,
                      bbox={"facecolor": "white", "edgecolor": "none", "pad": 1})  # fmt: skip
        story.append(f"A line at {at:.4g} marks {name}.")
    for name, at in (levels or {}).items():
        axes.axhline(at, color=INK, linewidth=1, linestyle=(0, (2, 2)))
        below = any(np.asarray(list(ys), dtype=float)[-1] >= at for _, ys in series.values())
        axes.annotate(name, (1, at), xycoords=("axes fraction", "data"), size=SMALL, color=INK,
                      xytext=(-4, -14 if below else 4), textcoords="offset points", ha="right",
                      bbox={"facecolor": "white", "edgecolor": "none", "pad": 1})  # fmt: skip
        story.append(f"A level line at {at:.4g} marks {name}.")
    _dress(axes, x, y, log_x, log_y)
    if from_zero:
        axes.set_ylim(0, 1.06 * axes.get_ylim()[1])
    values = sorted({float(at) for xs, _ in series.values() for at in xs})
    if len(values) <= 12:
        axes.set_xticks(values, [f"{at:,.6g}" for at in values])
        axes.set_xticks([], minor=True)
    if len(series) > 1:
        figure.legend(loc="outside right upper", fontsize=SMALL, frameon=False, handlelength=3)
    figure.describe(title, f"Chart: {title}. Across: {x}. Up: {y}. {' '.join(story)}")
    return figure


def _dress(axes: Any, x: str, y: str, log_x: bool, log_y: bool) -> None:
    if log_x:
        axes.set_xscale("log")
    if log_y:
        axes.set_yscale("log")
    else:
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
        axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel(x, size=NORMAL, color=INK)
    axes.set_ylabel(y, size=NORMAL, color=INK)
    axes.tick_params(labelsize=SMALL, colors=INK)
    axes.grid(color=FAINT, linewidth=0.6)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def columns_picture(emulated: Sequence[bool], fragment: int = 32) -> Picture:
    """One row of 128 columns, a line per fragment: which exponentials run as a polynomial."""
    flags = np.asarray(emulated, dtype=bool)
    rows = len(flags) // fragment
    share = float(flags.mean())
    figure = Picture(figsize=(WIDTH, 0.36 * rows + 0.9), dpi=100, facecolor="white")
    axes = figure.add_axes((0.09, 0.24, 0.9, 0.6))
    for column, flag in enumerate(flags.tolist()):
        row, at = divmod(column, fragment)
        axes.add_patch(
            Rectangle((at + 0.05, row + 0.1), 0.9, 0.8, facecolor=BLUE if flag else ORANGE,
                      hatch="////" if flag else None, edgecolor="white", linewidth=0)
        )  # fmt: skip
    axes.set_xlim(0, fragment)
    axes.set_ylim(rows, 0)
    axes.set_yticks([i + 0.5 for i in range(rows)], [f"fragment {i}" for i in range(rows)])
    axes.set_xticks([i + 0.5 for i in range(0, fragment, 4)], map(str, range(0, fragment, 4)))
    axes.tick_params(labelsize=SMALL, length=0, colors=INK)
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.set_xlabel(
        "column of the fragment   ·   blue, hatched: polynomial on FMA   ·   orange: MUFU",
        size=SMALL, color=INK,
    )  # fmt: skip
    axes.set_title(f"{share:.2%} of a row's exponentials emulated", loc="left", size=NORMAL,
                   weight="bold", color=INK)  # fmt: skip
    parts = [f"{int(flags[i * fragment : (i + 1) * fragment].sum())} of {fragment} in fragment {i}"
             for i in range(rows)]  # fmt: skip
    where = ", ".join(str(i) for i in np.flatnonzero(flags)) or "none"
    figure.describe("Emulated columns", f"Emulated exponentials of one row: {', '.join(parts)}; "
                    f"{share:.2%} of all. Columns: {where}.")  # fmt: skip
    return figure


def running_maximum(block_maxima: Sequence[float], kept: Sequence[float], title: str) -> Picture:
    """Block maxima of one row as dots, the true running maximum, and the reference in use."""
    steps = np.arange(len(block_maxima))
    true = np.maximum.accumulate(block_maxima)
    figure = Picture(figsize=(WIDTH, 3.2), dpi=100, layout="constrained", facecolor="white")
    axes = figure.add_subplot()
    axes.plot(steps, block_maxima, linestyle="none", marker="o", color=GREY, label="block maximum")
    axes.step([*steps, len(steps)], [*true, true[-1]], where="post", color=BLUE, linewidth=1.6,
              label="true running maximum")  # fmt: skip
    axes.step([*steps, len(steps)], [*kept, kept[-1]], where="post", color=VERMILLION,
              linestyle="--", linewidth=1.8, label="reference in use")  # fmt: skip
    axes.set_title(title, loc="left", size=LARGE, weight="bold", color=INK)
    axes.set_xticks(steps, [str(len(steps) - 1 - i) for i in steps])
    _dress(axes, "K/V block, in order of processing", "powers of two", False, False)
    figure.legend(loc="outside right upper", fontsize=SMALL, frameon=False)
    figure.describe(
        title,
        f"{title}. Block maxima in order: {', '.join(f'{value:.1f}' for value in block_maxima)}. "
        f"True running maximum: {', '.join(f'{value:.1f}' for value in true)}. "
        f"Reference in use: {', '.join(f'{value:.1f}' for value in kept)}.",
    )
    return figure


# -- what a deadlock says --------------------------------------------------------------------------


def diagnosis(error: Deadlock, reasons: bool = True) -> None:
    """Print the report of a deadlock, one warp of every role; perhaps without who is to blame."""
    seen: set[str] = set()
    print(f"deadlock at cycle {error.at:,}")
    for who in error.waiting:
        if who.role not in seen:
            seen.add(who.role)
            missing = ", ".join(who.missing_from) or "nobody"
            print(f"  {who.role:10} stands at {who.barrier}[{who.stage}]: {who.arrivals} of "
                  f"{who.expected} arrivals; missing: {missing}")  # fmt: skip
    print("circle:   ", " -> ".join(error.ring) or "none")
    if not reasons:
        return
    print("suspects: ", ", ".join(error.suspects))
    for line in error.why[:3]:
        print("  because", line)


# -- kernels in the emulator -----------------------------------------------------------------------

#: What to do if kernels cannot be compiled here.
KERNEL_EXTRA = (
    "This notebook compiles a kernel with NVIDIA's CuTe DSL, which runs on Linux and has a licence "
    "of its own. In a clone of the repository: pip install '.[kernel]' (in a cell of this "
    "notebook: %pip install '../.[kernel]'), then restart the notebook."
)


def meeting(hazard: Hazard) -> Markdown:
    """Say what a hazard is; return a table of the two who meet and of where they stand."""
    times = f"{hazard.count} times " if hazard.count > 1 else ""
    say(f"**{hazard.kind}**: {hazard.message}. This was found {times}at {hazard.place}.")
    rows = []
    for order, party in (("first", hazard.first), ("second", hazard.second)):
        if party is not None and party.instruction is not None:
            code = party.instruction
            what = ".".join((code.opcode, *code.qualifiers[:2]))
            where = source_line(code.location) if code.location else f"PTX line {code.line}"
            rows.append((order, party.who, f"`{what}`", where, party.tick))
    return table(["", "who", "instruction", "source line", "tick"], rows)


def standing(error: DeadlockError) -> Markdown:
    """Who stands where in a deadlock of an emulated kernel, one of each role; whom they miss."""
    rows = []
    first = {wait.role: wait for wait in reversed(error.waits)}
    for wait in sorted(first.values(), key=error.waits.index):
        missing = "; ".join(wait.missing) or "nobody"
        came = f"{wait.arrived} of {wait.expected}" if wait.expected else "–"
        rows.append((wait.role, wait.on, source_of(wait), came, missing))
    return table(["who", "stands at", "line", "have come", "missing"], rows)


def source_of(wait: Any) -> str:
    """File and line at which a warp waits."""
    return ":".join(wait.source.split(":")[:2])


Functions = Sequence[Callable[..., Any]]


def beside(left: Functions, right: Functions, titles: Sequence[str]) -> HTML:
    """The source of functions, those of two files side by side."""
    cells = "".join(
        f'<td style="vertical-align:top;text-align:left"><b>{html.escape(title)}</b>'
        f'<pre style="font-size:75%">{html.escape(code_of(*each))}</pre></td>'
        for title, each in zip(titles, (left, right), strict=True)
    )
    return HTML(f"<table><tr>{cells}</tr></table>")


def code_of(*functions: Callable[..., Any]) -> str:
    """Functions as they stand in their file, without their docstrings."""
    return "\n".join(map(_code, functions))


def _code(function: Callable[..., Any]) -> str:
    text = textwrap.dedent(inspect.getsource(function))
    docstring = ast.get_docstring(ast.parse(text).body[0], clean=False)
    return text if docstring is None else re.sub(
        r' *"""' + re.escape(docstring) + r'"""\n', "", text
    )  # fmt: skip


# -- the stepper -----------------------------------------------------------------------------------


class Stepper:
    """Walks the events of one slot of the K/V ring: its barrier "full" and its barrier "empty".

    ``make`` builds a barrier from its arrival count. It must have ``passes(parity)``,
    ``count_down(arrivals, announced, landed)`` and the attributes ``pending``, ``bytes`` and
    ``completions``. The events are those of the trace; the states are those of these barriers.
    """

    def __init__(self, make: Callable[[int], Any], trace: Trace, slot: int) -> None:
        self.make = make
        self.slot = slot
        self.names = (f"load_KV_full[{slot}]", f"load_KV_empty[{slot}]")
        self.events = _slot_events(trace, slot)
        self.end = trace.end

    def __len__(self) -> int:
        return len(self.events)

    def state(self, number: int) -> tuple[dict[str, Any], dict[str, str]]:
        """The barriers after event ``number``, and who stands at each of them."""
        barriers = {name: self.make(1) for name in self.names}
        waiting = dict.fromkeys(self.names, "")
        for _, kind, name, who, value, parity in self.events[: number + 1]:
            barrier = barriers[name]
            if kind == "arrive":
                barrier.count_down(arrivals=1, announced=value)
            elif kind == "land":
                barrier.count_down(landed=value)
            elif kind == "stand":
                waiting[name] = f"{who} waits, parity {parity}"
            else:
                assert barrier.passes(parity), (
                    f"{who} goes on at {name} although parity {parity} does not pass: the barrier "
                    "class and the trace disagree"
                )
                waiting[name] = ""
        return barriers, waiting

    def sentence(self, number: int) -> str:
        """Event ``number`` in words."""
        time, kind, name, who, value, parity = self.events[number]
        if kind == "arrive":
            expects = f", to be followed by {value:,} bytes" if value else ""
            text = f"{who} arrives on {name}{expects}"
        elif kind == "land":
            text = f"the last of {value:,} bytes land in the slot; they count on {name}"
        elif kind == "stand":
            text = f"{who} comes to {name} and tests parity {parity}"
        else:
            text = f"{who} goes on: at {name} parity {parity} has passed"
        return f"cycle {time:,}: {text}"

    def log(self, first: int = 0, last: int | None = None) -> None:
        """Print the events ``first`` to ``last`` (not included)."""
        for number, _ in enumerate(self.events[first:last], first):
            print(f"{number:3}  {self.sentence(number)}")

    def show(self, step: int = 0) -> Picture:
        """The two barriers after event ``step``, and where in time it is."""
        if not 0 <= step < len(self):
            raise ValueError(
                f"step {step} is not one of the {len(self)} events: 0 to {len(self) - 1}"
            )
        barriers, waiting = self.state(step)
        words = self.sentence(step)
        figure = Picture(figsize=(WIDTH, 3.0), dpi=100, facecolor="white")
        figure.text(0.01, 0.93, f"Step {step} of {len(self) - 1}, {words.partition(':')[0]}",
                    size=LARGE, weight="bold", color=INK)  # fmt: skip
        figure.text(0.01, 0.86, words.partition(": ")[2], size=NORMAL, color=INK)
        axes = figure.add_axes((0.0, 0.36, 1.0, 0.47))
        axes.set_xlim(0, WIDTH)
        axes.set_ylim(2, 0)
        axes.axis("off")
        touched = self.events[step][2]
        story = [
            _draw_barrier(axes, row, name, barriers[name], waiting[name], name == touched)
            for row, name in enumerate(self.names)
        ]
        self._strip(figure, step)
        figure.describe(f"Step {step}", f"Step {step} of {len(self) - 1}, {words}. "
                        + " ".join(story))  # fmt: skip
        return figure

    def _strip(self, figure: Picture, step: int) -> None:
        axes = figure.add_axes((0.135, 0.13, 0.845, 0.18))
        colours = {"arrive": BLUE, "land": PURPLE, "stand": ORANGE, "pass": GREEN}
        markers = {"arrive": "|", "land": "v", "stand": ">", "pass": "<"}
        for kind, colour in colours.items():
            mine = [e for e in self.events if e[1] == kind]
            axes.plot([e[0] for e in mine], [self.names.index(e[2]) for e in mine],
                      linestyle="none", marker=markers[kind], color=colour, markersize=6,
                      markeredgewidth=2 if kind == "arrive" else 0.5)  # fmt: skip
        axes.axvline(self.events[step][0], color=INK, linewidth=1.4)
        axes.set_xlim(0, self.end)
        axes.set_ylim(1.6, -0.6)
        axes.set_yticks([0, 1], ["full", "empty"])
        axes.tick_params(labelsize=SMALL, colors=INK)
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        axes.set_xlabel(
            "cycles   ·   | arrival   ▼ bytes landed   ▶ somebody comes to wait   ◀ goes on",
            size=SMALL, color=INK,
        )  # fmt: skip


def _draw_barrier(axes: Any, row: int, name: str, barrier: Any, waiting: str, touched: bool) -> str:
    """One barrier as boxes; returns the same in words."""
    y, bit = row + 0.12, barrier.completions % 2
    counts_bytes = name.startswith("load_KV_full")
    phases = f"{barrier.completions} phase" + "s" * (barrier.completions != 1)
    cells = [
        (1.5, name, "bold" if touched else "normal", None),
        (1.35, f"{barrier.pending} arrival missing", "normal", None),
        (1.6, f"{barrier.bytes:,} bytes missing" if counts_bytes else "counts no bytes",
         "normal", PURPLE if barrier.bytes else None),
        (1.55, f"{phases} complete", "normal", None),
        (0.85, f"bit is {bit}", "bold", GREY if bit else None),
        (1.95, waiting or "nobody waits", "normal", ORANGE if waiting else None),
    ]  # fmt: skip
    x = 0.1
    for width, text, weight, colour in cells:
        axes.add_patch(
            Rectangle((x, y), width - 0.06, 0.72, facecolor=colour or "#FAFAFA",
                      alpha=0.35 if colour else 1.0, edgecolor="#777777",
                      linewidth=1.8 if touched else 0.6)
        )  # fmt: skip
        axes.text(x + (width - 0.06) / 2, y + 0.37, text, ha="center", va="center", size=SMALL,
                  weight=weight, color=INK)  # fmt: skip
        x += width
    return f"{name}: {', '.join(text for _, text, _, _ in cells[1:])}."


Event = tuple[int, str, str, str, int, int]


def _slot_events(trace: Trace, slot: int) -> list[Event]:
    """``(time, kind, barrier, who, bytes, parity)`` of everything at one slot's two barriers.

    The simulator numbers completions from 1; a wait for completion n tests parity (n - 1) mod 2.
    """
    whole = trace.expand()
    events: list[Event] = []
    for name in ("load_KV_full", "load_KV_empty"):
        label = f"{name}[{slot}]"
        for row in whole.arrive.where(barrier=name, stage=slot).rows():
            events.append((row["time"], "arrive", label, row["by"], row["tx_bytes"], -1))
        for row in whole.wait.where(on=name, stage=slot).rows():
            parity = (row["phase"] - 1) % 2
            events.append((row["start"], "stand", label, row["role"], 0, parity))
            events.append((row["end"], "pass", label, row["role"], 0, parity))
    sizes = iter(e[4] for e in sorted(e for e in events if e[4]))
    for row in whole.span.where(role="tma", op=("load K", "load V"), stage=slot).rows():
        events.append((row["end"], "land", f"load_KV_full[{slot}]", "tma", next(sizes), -1))
    order = {"stand": 0, "pass": 1, "arrive": 2, "land": 3}
    return sorted(events, key=lambda event: (event[0], order[event[1]]))
