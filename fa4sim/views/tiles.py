"""The life of one tile: where it lies from birth to death, and who touches it when.

K, V and Q come from global memory through a slot of shared memory to the tensor pipe. Scores S are
made by QK in TMEM, read by the softmax warps, come back as P over their own upper half, and are
consumed by PV. O grows in TMEM and leaves through shared memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fa4sim.trace import NONE, RECEIVERS, Table, Trace
from fa4sim.views.figure import Picture
from fa4sim.views.layout import (
    Bar,
    Page,
    draw_bars,
    label_room,
    lane_labels,
    legends_of,
    time_axis,
    write_in_bars,
)
from fa4sim.views.scope import pick_cta, run_words, span_words
from fa4sim.views.style import (
    INK,
    SMALL,
    WIDTH,
    Look,
    look_of_op,
    look_of_tensor,
    look_of_wait,
    op_group,
    subscript,
    text_width,
    wait_group,
)

TENSORS = ("Q", "K", "V", "S", "P", "O")
LANE = 0.4

WORKING, WAITING, HOLDING = "Working on", "Waiting for", "Holding"
COMING, RESTING, USE, DONE = "coming", "there, not in use", "in use", "complete"


@dataclass
class Row:
    """A lane of a life: its name, what is drawn on it, and moments marked on it."""

    label: str
    bars: list[Bar]
    marks: list[tuple[int, str]]


def tile_life(
    trace: Trace,
    tensor: str = "K",
    block: int | None = None,
    *,
    tile: int | None = None,
    stage: int = 0,
    cta: int | None = None,
    width: float = WIDTH,
) -> Picture:
    """Draw the life of one tile, from where it comes to where it is consumed.

    Args:
        trace: any trace with a ``life`` table.
        tensor: ``"K"``, ``"V"`` or ``"Q"``: global memory, slot, tensor pipe. ``"S"`` or ``"P"``:
            both, from QK through softmax to PV. ``"O"``: from the first PV to global memory.
        block: which K/V block, by its number; by default 3 (or the nearest there is).
        tile: which work tile; by default the first of the trace.
        stage: which Q stage, for Q, S, P and O.
        cta: which CTA; by default the first.
        width: in inches.

    Raises:
        ValueError: no such tensor, block, tile, stage or CTA; says which there are.
    """
    whole = trace.expand()
    number = pick_cta(whole, cta)
    if tensor not in TENSORS:
        raise ValueError(f"tensor={tensor!r} must be one of {', '.join(TENSORS)}")
    finder = _Finder(whole, number)
    if tensor in ("Q", "K", "V"):
        rows, title, story = finder.loaded(tensor, block, tile, stage)
    elif tensor in ("S", "P"):
        rows, title, story = finder.scores(block, tile, stage)
    else:
        rows, title, story = finder.output(tile, stage)
    return _picture(whole, rows, title, story, width)


Record = dict[str, int | str]


def _only(table: Table, equals: Mapping[str, int]) -> Table:
    """The rows in which every column has its value."""
    for column, value in equals.items():
        table = table.where(table[column] == value)
    return table


class _Finder:
    """Finds the rows of the tables that make up one tile's life, in one CTA."""

    def __init__(self, trace: Trace, cta: int) -> None:
        self.trace = trace
        self.cta = cta
        self.life = trace.life.where(cta=cta)
        self.span = trace.span.where(cta=cta)
        self.wait = trace.wait.where(cta=cta)

    # -- choosing ------------------------------------------------------------------------------

    def one(self, tensor: str, space: str, block: int | None, tile: int | None, stage: int | None,
            ) -> Record:  # fmt: skip
        """The life that is meant; raises ``ValueError`` that says which there are."""
        lives = self.life.where(tensor=tensor, space=space)
        if not len(lives):
            raise ValueError(f"CTA {self.cta} of this trace has no life of {tensor} in {space}")
        lives = self._choose(lives, "tile", tile, tensor)
        if stage is not None:
            lives = self._choose(lives, "stage", stage, tensor)
        if block is None:
            blocks = lives["block"]
            block = int(blocks[np.argmin(np.abs(blocks - 3))])
        lives = self._choose(lives, "block", block, tensor)
        return next(lives.rows())

    def _choose(self, lives: Table, column: str, value: int | None, tensor: str) -> Table:
        there = np.unique(lives[column])
        wanted = int(lives[column][0]) if value is None else value
        if wanted not in there:
            listed = ", ".join(str(n) for n in there[:12]) + (", …" if len(there) > 12 else "")
            raise ValueError(
                f"{column}={wanted} has no {tensor} in CTA {self.cta} of this trace; "
                f"there is {column} {listed}"
            )
        return lives.where(lives[column] == wanted)

    def spans(self, role: str, op: str | tuple[str, ...], **equals: int) -> list[Record]:
        """Matching spans in order of their start."""
        rows = list(_only(self.span.where(role=role, op=op), equals).rows())
        return sorted(rows, key=lambda row: (int(row["start"]), int(row["warp"])))

    def waits(self, role: str, on: str, end: int, **equals: int) -> list[Record]:
        """The wait of a role that ended last before ``end``."""
        rows = _only(self.wait.where(role=role, on=on), equals)
        rows = rows.where(rows["end"] <= end)
        if not len(rows):
            return []
        last = rows["end"].max()
        return [next(rows.where(rows["end"] == last).rows())]

    # -- Q, K and V ----------------------------------------------------------------------------

    def loaded(
        self, tensor: str, block: int | None, tile: int | None, stage: int
    ) -> tuple[list[Row], str, list[str]]:
        """A tile that TMA brings: rows, title, and the story in words."""
        if tensor == "Q":
            life = self.one("Q", "smem", NONE, tile, stage)
        else:
            life = self.one(tensor, "smem", block, tile, None)
        slot, at = str(life["slot"]), int(life["stage"])
        full, empty = ("load_Q_full", "load_Q_empty") if tensor == "Q" else (
            "load_KV_full", "load_KV_empty")  # fmt: skip
        birth, death = int(life["birth"]), int(life["death"])
        name = f"{tensor}{subscript(stage if tensor == 'Q' else int(life['block']))}"
        same = {"tile": int(life["tile"])}
        of_block = same if tensor == "Q" else {**same, "block": int(life["block"])}

        acquire = self.waits("load", empty, birth, stage=at)
        issue = [s for s in self.spans("load", f"issue {tensor}", stage=at, **of_block)
                 if birth <= int(s["start"]) <= death]  # fmt: skip
        load = [s for receiver in RECEIVERS
                for s in self.spans(receiver, f"load {tensor}", stage=at, **of_block)
                if birth <= int(s["start"]) <= death]  # fmt: skip
        landed = max((int(s["end"]) for s in load), default=birth)
        first, last = int(life["first_use"]), int(life["last_use"])
        op = "PV" if tensor == "V" else "QK"
        use = [s for s in self.spans("tensor", op, **of_block)
               if first <= int(s["start"]) < max(last, first + 1)
               and (tensor != "Q" or s["stage"] == stage)]  # fmt: skip
        ready = self.waits("mma", full, first if first != NONE else death, stage=at)

        where = f"SMEM slot {slot}"
        rows = [
            Row("load", [*map(self.bar, issue), *map(self.bar, acquire)], []),
            Row("tma", [self.bar(s, f"global memory → {slot}") for s in load], []),
            Row(where, _phases(tensor, birth, landed, first, last, death, name), []),
            Row("mma", [*map(self.bar, ready), *self._issues(op, use)], []),
            Row("tensor", [self.bar(s, f"{op}{subscript(int(s['stage']))}") for s in use], []),
        ]
        rows[2].marks = [(landed, f"{full}[{at}]"), (death, f"{empty}[{at}]")]
        story = [
            f"{name} is given {slot} at {birth:,}",
            f"its last byte arrives {span_words(self.trace, landed - birth)} later, at {landed:,}",
        ]
        if first != NONE:
            story += [
                f"it waits {span_words(self.trace, first - landed)} for its first use",
                f"the tensor pipe reads it from {first:,} to {last:,} "
                f"({len(use)} {'run' if len(use) == 1 else 'runs'} of {op})",
            ]
        story.append(f"the slot is free again at {death:,}, after "
                     f"{span_words(self.trace, death - birth)}")  # fmt: skip
        return rows, f"The life of {name}: global memory → {slot} → {op}", story

    def _issues(self, op: str, use: list[Record]) -> list[Bar]:
        """The MMA warp's issue of each run in ``use``: the last one before it began."""
        bars: list[Bar] = []
        issued = self.spans("mma", f"issue {op}")
        for span in use:
            before = [s for s in issued if s["stage"] == span["stage"]
                      and int(s["start"]) <= int(span["start"])]  # fmt: skip
            if before:
                bar = self.bar(before[-1])
                if bar not in bars:
                    bars.append(bar)
        return bars

    # -- S and P -------------------------------------------------------------------------------

    def scores(
        self, block: int | None, tile: int | None, stage: int
    ) -> tuple[list[Row], str, list[str]]:
        """S of one step and the P that replaces it: rows, title, story."""
        s = self.one("S", "tmem", block, tile, stage)
        same = {"tile": int(s["tile"]), "block": int(s["block"])}
        p = self.one("P", "tmem", same["block"], same["tile"], stage)
        role = f"softmax{stage}"
        qk = self.spans("tensor", "QK", stage=stage, **same)
        pv = self.spans("tensor", "PV", stage=stage, **same)
        tag = f"{subscript(stage)}, block {s['block']}"
        s_columns, p_columns = str(s["slot"]), str(p["slot"])
        written = int(s["birth"]), int(s["first_use"]), int(s["death"])
        stored, used, gone = int(p["birth"]), int(p["first_use"]), int(p["death"])

        begun = int(qk[0]["start"]) if qk else written[0]
        steps = _only(self.span.where(role=role), same)
        warps = sorted({*steps["warp"].tolist()})
        rows = [
            Row("tensor", [self.bar(x, x["op"]) for x in [*qk, *pv]], []),
            Row(f"TMEM {s_columns}", [
                _hold("S", COMING, begun, written[0], "QK writes"),
                _hold("S", RESTING, written[0], written[1], f"S{subscript(stage)}"),
                _hold("S", USE, written[1], written[2], f"S{subscript(stage)} read", "read"),
            ], [(written[0], f"S_full[{stage}]")]),
            Row(f"TMEM {p_columns}", [
                _hold("P", COMING, stored, used, "stored"),
                _hold("P", USE, used, gone, f"P{subscript(stage)} read by PV", "read by PV"),
            ], [(used, f"P_full_O_rescaled[{stage}]")]),
        ]  # fmt: skip
        for warp in warps:
            mine = [x for x in self.spans(role, tuple(steps.unique("op")), warp=warp, **same)
                    if int(x["end"]) <= gone or x["op"] == "row sum"]  # fmt: skip
            waits = [x for x in _only(self.wait.where(role=role, warp=warp), same).rows()
                     if int(x["start"]) >= written[0] - (gone - written[0])]  # fmt: skip
            rows.append(
                Row(f"{role}, warp {warp}", [*map(self.bar, waits), *map(self.bar, mine)], [])
            )
        correction = _only(self.span.where(role="correction", stage=stage), same)
        lowest = int(correction["warp"].min()) if len(correction) else NONE
        factor = [x for x in correction.where(warp=lowest).rows()
                  if x["op"] in ("read factor", "rescale O")]  # fmt: skip
        if factor:
            rows.append(Row(f"correction, warp {lowest}", [self.bar(x) for x in factor], []))
        story = [
            f"QK writes S{tag} into {s_columns}, complete at {written[0]:,}",
            f"the four warps of {role} read it from {written[1]:,} to {written[2]:,}",
            f"P, over the upper half of S ({p_columns}), is stored from {stored:,} on",
            f"PV reads it from {used:,} to {gone:,}",
            f"from scores to consumed: {span_words(self.trace, gone - written[0])}",
        ]
        return rows, f"S{subscript(stage)} → P{subscript(stage)} → O{subscript(stage)} of block " \
            f"{s['block']}, through TMEM", story  # fmt: skip

    # -- O -------------------------------------------------------------------------------------

    def output(self, tile: int | None, stage: int) -> tuple[list[Row], str, list[str]]:
        """O of one tile and stage: rows, title, story."""
        o = self.one("O", "tmem", NONE, tile, stage)
        same = {"tile": int(o["tile"]), "stage": stage}
        born, gone = int(o["birth"]), int(o["death"])
        pv = self.spans("tensor", "PV", **same)
        name = f"O{subscript(stage)}"
        done = max((int(s["end"]) for s in pv), default=born)
        in_smem = _only(self.life.where(tensor="O", space="smem"), same)
        rescale = self.spans("correction", "rescale O", **same)
        final = [s for s in self.spans("correction", ("write O", "final scale"), **same)]
        leave = self.spans("tma_store", "store O", **same)
        out = self.spans("correction", "store O", **same)
        lowest = min((int(s["warp"]) for s in final), default=NONE)
        first = [s for s in [*rescale, *final, *out] if int(s["warp"]) == lowest]
        hears = self.waits("correction", "O_full", gone, stage=stage, warp=lowest)
        rows = [
            Row("tensor", [self.bar(s, s["op"]) for s in pv], []),
            Row(f"TMEM {o['slot']}", [
                _hold("O", COMING, born, done, f"{name} grows, one PV per K/V block", name),
                _hold("O", DONE, done, gone, f"{name} is final", name),
            ], [(done, f"O_full[{stage}]")]),
            Row(f"correction, warp {lowest}", [*map(self.bar, hears), *map(self.bar, first)], []),
        ]  # fmt: skip
        story = [
            f"the first PV leaves {name} in TMEM at {born:,}; it is final at {done:,}, after "
            f"{len({s['block'] for s in pv})} K/V blocks",
            f"the correction has read it out of TMEM at {gone:,}",
        ]
        for row in in_smem.rows():
            slot = str(row["slot"])
            start, end, use = int(row["birth"]), int(row["death"]), int(row["first_use"])
            rows.append(Row(f"SMEM {slot}", [
                _hold("O", COMING, start, use, f"{name} written", name),
                _hold("O", DONE, use, end, f"{name} leaves", name),
            ], [(end, "stored")]))  # fmt: skip
            story.append(f"it lies in {slot} from {start:,} to {end:,}")
        if leave:
            rows.append(Row("tma_store", [self.bar(s, "→ global memory") for s in leave], []))
        return rows, f"The life of {name}: PV → TMEM → SMEM → global memory", story

    # -- drawing -------------------------------------------------------------------------------

    def bar(self, row: Record, *labels: object) -> Bar:
        """A span or a wait as a bar, to be placed on its row later."""
        start, end = int(row["start"]), int(row["end"])
        if "on" in row:
            name = str(row["on"])
            group = wait_group(name)
            named = f"{name}[{row['stage']}]" if group == name else name
            return Bar(start, end, -0.2, 0.2, look_of_wait(group), (named, name), WAITING, group)
        op = str(row["op"])
        texts = tuple(str(label) for label in labels) or (op,)
        return Bar(start, end, -0.36, 0.36, look_of_op(op), texts, WORKING, op_group(op))


def _hold(tensor: str, how: str, start: int, end: int, *labels: str) -> Bar:
    """A place that holds a tensor, and how: the look and the legend follow from that."""
    look = look_of_tensor(tensor)
    if how == COMING:
        look = Look(look.colour, "///", pale=True)
    elif how == RESTING:
        look = Look(look.colour, pale=True)
    return Bar(start, end, -0.3, 0.3, look, labels, HOLDING, f"{tensor} {how}")


def _phases(
    tensor: str, birth: int, landed: int, first: int, last: int, death: int, name: str
) -> list[Bar]:
    """A slot's contents: on their way, there and waiting, in use, and until the slot is free."""
    coming = _hold(tensor, COMING, birth, landed, f"{name} on its way", "on its way")
    if first == NONE:
        return [coming, _hold(tensor, RESTING, landed, death, f"{name} never read")]
    return [
        coming,
        _hold(tensor, RESTING, landed, first, f"{name} waits to be read", "waits"),
        _hold(tensor, USE, first, last, f"{name} being read", "read"),
        _hold(tensor, RESTING, last, death),
    ]


def _picture(
    trace: Trace, rows: Sequence[Row], title: str, story: Sequence[str], width: float
) -> Picture:
    """Lay the rows out over the time they span."""
    bars, written = [], []
    for i, row in enumerate(rows):
        placed = [replace(b, low=i + b.low, high=i + b.high) for b in row.bars if b.end > b.start]
        bars += placed
        written += _joined(placed)
    # A wait that began long before the tile came is cut: the picture is the tile's.
    own = [bar for bar in bars if bar.kind != WAITING] or bars
    begin, end = min(b.start for b in own), max(b.end for b in own)
    start, stop = int(begin - 0.12 * (end - begin)), int(end + 0.05 * (end - begin))
    start = max(start, 0) if begin >= 0 else start
    shown = [replace(b, start=max(b.start, start)) for b in bars if b.end > start]
    labels = [row.label for row in rows]
    words = run_words(trace)
    page = Page(width, [LANE * len(rows)], label_room(labels), title,
                (f"{words}. " if words else "") + _sentence(story),
                legends_of(width, (HOLDING, WORKING, WAITING), shown), above=0.3)  # fmt: skip
    axes = page.axes[0]
    lane_labels(axes, labels)
    time_axis(axes, trace, start, stop)
    for i in range(len(rows)):
        axes.axhline(i, color="#EEEEEE", linewidth=0.8, zorder=0.5)
    draw_bars(axes, [b for b in shown if b.look.pale])
    draw_bars(axes, [b for b in shown if not b.look.pale],
              outline=0.04 * (stop - start) / page.width)  # fmt: skip
    write_in_bars(axes, written, page.width)
    for i, row in enumerate(rows):
        for time, text in row.marks:
            axes.plot([time, time], [i - 0.42, i + 0.42], color=INK, linewidth=1.2, zorder=6,
                      solid_capstyle="butt")  # fmt: skip
            room = text_width(text) / page.width * (stop - start)
            fits = time + room < stop
            axes.annotate(
                text, (time, i - 0.4), xytext=(3 if fits else -3, 0), textcoords="offset points",
                size=SMALL, color=INK, ha="left" if fits else "right", va="bottom", zorder=7,
            )  # fmt: skip
    page.figure.describe(title, f"{title}. In {trace.clock}: {_sentence(story)}")
    return page.figure


def _joined(bars: Sequence[Bar]) -> list[Bar]:
    """Neighbours that say the same, as one bar to write on."""
    out: list[Bar] = []
    for bar in sorted(bars, key=lambda b: b.start):
        if out and out[-1].end == bar.start and out[-1].labels == bar.labels:
            out[-1] = replace(out[-1], end=bar.end)
        else:
            out.append(bar)
    return out


def _sentence(story: Sequence[str]) -> str:
    text = "; ".join(story)
    return f"{text[:1].upper()}{text[1:]}."
