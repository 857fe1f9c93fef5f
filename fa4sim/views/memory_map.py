"""The memory map: what lies in which shared-memory slot and TMEM column, over time."""

from __future__ import annotations

import re

import numpy as np
from matplotlib.axes import Axes

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
from fa4sim.views.scope import Scope, run_words, scope
from fa4sim.views.style import INK, NORMAL, SMALL, WIDTH, Look, look_of_tensor, subscript

LANE = 0.27
TMEM_HEIGHT = 2.6
TENSORS = ("Q", "K", "V", "S", "P", "O")

SMEM_ORDER = ("sQ", "sKV", "sO")


def memory_map(
    trace: Trace,
    start: int | None = None,
    end: int | None = None,
    *,
    cta: int | None = None,
    width: float = WIDTH,
    title: str | None = None,
) -> Picture:
    """Draw which tile lies in which SMEM slot and in which TMEM columns, over time.

    A tile is hatched while it is on its way or being computed, pale while it lies there unread,
    full in colour from its first use to its last, and pale again until its place is free. S
    gives way to P, which takes its upper half of the columns.

    Args:
        trace: any trace with a ``life`` table.
        start, end: the window in units of the trace's clock; by default about two K/V blocks
            from the middle of the run.
        cta: which CTA; by default the first.
        width: in inches.
        title: instead of the default one.

    Raises:
        ValueError: unknown CTA, empty window, or a trace without lives in it.
    """
    part = scope(trace, start, end, cta)
    lives = part.rows("life", "birth", "death")
    smem = lives.where(space="smem")
    tmem = lives.where(space="tmem")
    if not len(smem) and not len(tmem):
        raise ValueError(f"nothing lies in SMEM or TMEM in {part.where}: no lives to draw")
    names = smem_slots(part)
    slots = {name: i for i, name in enumerate(names)}
    in_smem = _in_window(part, _smem_bars(part, smem, slots))
    in_tmem = _in_window(part, _tmem_bars(part, tmem))
    columns = tmem_columns(part.trace)
    labels = [_slot_label(part.trace, name) for name in names]
    heights = [LANE * len(names)] if names else []
    heights += [TMEM_HEIGHT] if columns else []
    words = run_words(part.trace)
    heading = title or f"Memory of {part.where}"
    room = max(label_room(labels) if labels else 0.0, 0.75)
    page = Page(
        width, heights, room, heading,
        (f"{words}. " if words else "") + "K₅: of K/V block 5; Q₀: of Q tile 0; S₀ 5: of both.",
        legends_of(width, ("SMEM", "TMEM"), [*in_smem, *in_tmem]), above=0.55, between=0.45,
    )  # fmt: skip
    axes = list(page.axes)
    if names:
        box = axes.pop(0)
        lane_labels(box, labels)
        time_axis(box, part.trace, part.start, part.end, label=not columns)
        if columns:
            box.tick_params(axis="x", labelbottom=False)
        _draw(page, box, part, in_smem, 0.0)
        box.set_title("shared memory", size=NORMAL, loc="left", color=INK, pad=4)
    if columns:
        box = axes.pop(0)
        box.set_ylim(columns, 0)
        edges = sorted({edge for bar in in_tmem for edge in (bar.low, bar.high)} | {0, columns})
        box.set_yticks(edges, [f"{edge:.0f}" for edge in edges], size=SMALL)
        box.set_ylabel("TMEM column", size=NORMAL, color=INK)
        time_axis(box, part.trace, part.start, part.end, seconds=not names)
        box.grid(axis="y", color="#EEEEEE", linewidth=0.6)
        _draw(page, box, part, in_tmem, TMEM_HEIGHT)
        box.set_title("tensor memory", size=NORMAL, loc="left", color=INK, pad=4)
    page.figure.describe(heading, _alt(part, smem, tmem, names, columns))
    return page.figure


def smem_slots(part: Scope) -> list[str]:
    """Every SMEM slot of this CTA: Q, the K/V ring, O."""
    found = set(part.trace.life.where(cta=part.cta, space="smem").unique("slot"))
    ring = part.trace.meta.get("ring_slots")
    if isinstance(ring, list):
        found |= {f"sKV[{i}]" for i in range(len(ring))}

    def order(name: str) -> tuple[int, str, int]:
        stem, _, number = name.rstrip("]").partition("[")
        place = SMEM_ORDER.index(stem) if stem in SMEM_ORDER else len(SMEM_ORDER)
        return place, stem, int(number) if number.isdigit() else NONE

    return sorted(found, key=order)


def tmem_columns(trace: Trace) -> int:
    """How many TMEM columns there are to draw: those of the map, or of the lives; 0 if none."""
    places = trace.meta.get("tmem")
    if isinstance(places, dict) and places:
        return max(int(first) + int(count) for first, count in places.values())
    slots = trace.life.where(space="tmem").unique("slot")
    return max((column_range(slot)[1] for slot in slots), default=0)


def column_range(slot: str) -> tuple[int, int]:
    """First and one past the last column of ``columns 64-127``.

    Raises ``ValueError`` for another form.

    >>> column_range("columns 64-127")
    (64, 128)
    """
    match = re.fullmatch(r"columns (\d+)-(\d+)", slot)
    if match is None:
        raise ValueError(f"{slot!r} does not name TMEM columns as 'columns FIRST-LAST'")
    return int(match[1]), int(match[2]) + 1


def _slot_label(trace: Trace, name: str) -> str:
    """A slot with its size, where the trace says it: ``sKV[0], 32 KiB``."""
    ring = trace.meta.get("ring_slots")
    smem = trace.meta.get("smem")
    design = trace.meta.get("design")
    stem, _, number = name.rstrip("]").partition("[")
    size = 0
    if stem == "sKV" and isinstance(ring, list) and int(number) < len(ring):
        size = int(ring[int(number)][1])
    elif stem in ("sK", "sV") and isinstance(smem, dict) and isinstance(design, dict):
        size = int(smem.get(f"{stem[1:]} ring", 0)) // int(design.get("kv_stages", 1))
    elif isinstance(smem, dict) and isinstance(design, dict):
        size = int(smem.get(stem[1:], 0)) // int(design.get("q_stages", 1))
        if stem == "sO" and not size and design.get("overlap_o_q"):
            return f"{name}, in sQ"
    return f"{name}, {size / 1024:g} KiB" if size else name


def _smem_bars(part: Scope, lives: Table, slots: dict[str, int]) -> list[Bar]:
    """What lies in each slot; ``landed`` (whole) is the end of the load that brought it."""
    loads = part.trace.span.where(cta=part.cta, role=RECEIVERS)
    bars = []
    for life in lives.rows():
        tensor, birth, death = str(life["tensor"]), int(life["birth"]), int(life["death"])
        mine = loads.where(op=f"load {tensor}", stage=int(life["stage"]))
        ends = mine["end"][(mine["start"] >= birth) & (mine["start"] < death)]
        whole = int(ends.max()) if len(ends) else birth
        if tensor == "O" and int(life["first_use"]) != NONE:
            whole = int(life["first_use"])
        at = slots[str(life["slot"])]
        number = int(life["stage"] if tensor in ("Q", "O") else life["block"])
        name = tensor + subscript(number)
        bars += _phases("SMEM", tensor, name, life, whole, at - 0.42, at + 0.42)
    return bars


def _tmem_bars(part: Scope, lives: Table) -> list[Bar]:
    """What lies in which columns: S comes while QK runs, P is stored, O grows until the last PV."""
    tensor_pipe = part.trace.span.where(cta=part.cta, role="tensor")
    qk, pv = tensor_pipe.where(op="QK"), tensor_pipe.where(op="PV")
    bars = []
    for life in lives.rows():
        tensor, low, high = str(life["tensor"]), *column_range(str(life["slot"]))
        whole = int(life["birth"])
        text = f"{tensor}{subscript(int(life['stage']))}"
        if tensor == "O":
            mine = pv.where(tile=int(life["tile"]), stage=int(life["stage"]))
            ends = mine["end"][mine["end"] <= int(life["death"])]
            whole = int(ends.max()) if len(ends) else whole
            life = {**life, "first_use": whole, "last_use": life["death"]}
        elif tensor == "P":
            whole = int(life["first_use"])
        if int(life["block"]) != NONE:
            text += f" {life['block']}"
        if tensor == "S":
            made = qk.where(
                tile=int(life["tile"]), block=int(life["block"]), stage=int(life["stage"])
            )
            life = {**life, "birth": int(made["start"].min()) if len(made) else whole}
        bars += _phases("TMEM", tensor, text, life, whole, low, high)
    return bars


def _phases(
    kind: str, tensor: str, text: str, life: dict[str, int | str], whole: int, low: float,
    high: float,
) -> list[Bar]:  # fmt: skip
    birth, death = int(life["birth"]), int(life["death"])
    first, last = int(life["first_use"]), int(life["last_use"])
    full = look_of_tensor(tensor)
    coming = Look(full.colour, "///", pale=True)
    resting = Look(full.colour, pale=True)
    if first == NONE:
        first = last = death
    stretches = [
        (birth, min(whole, first), coming, f"{tensor} coming"),
        (min(whole, first), first, resting, f"{tensor} there, not in use"),
        (first, last, full, f"{tensor} in use"),
        (last, death, resting, f"{tensor} there, not in use"),
    ]
    return [Bar(start, end, low, high, look, (text,), kind, name)
            for start, end, look, name in stretches if end > start]  # fmt: skip


def _in_window(part: Scope, bars: list[Bar]) -> list[Bar]:
    """The bars that show, tensors in the order of the legend."""
    shown = [bar for bar in bars if bar.end > part.start and bar.start < part.end]
    order = {tensor: i for i, tensor in enumerate(TENSORS)}
    return sorted(shown, key=lambda bar: (order.get(bar.name[0], len(order)), bar.start))


def _draw(page: Page, axes: Axes, part: Scope, bars: list[Bar], height: float) -> None:
    draw_bars(axes, bars, outline=0.02 * part.length / page.width)
    write_in_bars(axes, bars, page.width, height=height)


def _tensors(lives: Table) -> list[str]:
    """The tensors in a table, those that every kernel has first."""
    found = set(map(str, lives.unique("tensor")))
    return [t for t in TENSORS if t in found] + sorted(found - set(TENSORS))


def _alt(part: Scope, smem: Table, tmem: Table, names: list[str], columns: int) -> str:
    text = [f"Map of the memory of {part.where}."]
    if names:
        counts = [f"{len(smem.where(tensor=t))} of {t}" for t in _tensors(smem)]
        text.append(f"Shared memory: {len(names)} slots ({', '.join(names)}) hold "
                    f"{', '.join(counts) or 'nothing'}.")  # fmt: skip
    if columns:
        parts = []
        for tensor in _tensors(tmem):
            mine = tmem.where(tensor=tensor)
            where = " and ".join(sorted(mine.unique("slot"), key=column_range))
            parts.append(f"{len(mine)} of {tensor} in {where}")
        share = columns_in_use(part)
        text.append(f"Tensor memory, {columns} columns: {'; '.join(parts) or 'empty'}; on average "
                    f"{share:.0f} columns are in use.")  # fmt: skip
    return " ".join(text)


def columns_in_use(part: Scope) -> float:
    """TMEM columns that hold something, averaged over the window."""
    lives = part.rows("life", "birth", "death").where(space="tmem")
    time, used = occupied_columns(lives, tmem_columns(part.trace))
    if not len(time):
        return 0.0
    edges = np.append(np.clip(time, part.start, part.end), part.end)
    return float((np.diff(edges) * used).sum() / part.length)


def occupied_columns(lives: Table, columns: int) -> tuple[np.ndarray, np.ndarray]:
    """``(times, columns in use from then on)``, both int64, from lives in TMEM.

    A column counts once however many lives name it.
    """
    if not len(lives):
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    places = np.array([column_range(str(slot)) for slot in lives.text("slot")], dtype=np.int64)
    times = np.concatenate([lives["birth"], lives["death"]])
    change = np.concatenate([np.ones(len(lives)), -np.ones(len(lives))]).astype(np.int64)
    places = np.concatenate([places, places])
    # At one moment the leaving tile goes before the one that comes.
    order = np.lexsort((change, times))
    held = np.zeros(columns, dtype=np.int64)
    moments: list[int] = []
    used: list[int] = []
    for i in order:
        held[places[i, 0] : places[i, 1]] += change[i]
        count = int((held > 0).sum())
        if moments and moments[-1] == times[i]:
            used[-1] = count
        else:
            moments.append(int(times[i]))
            used.append(count)
    return np.array(moments, dtype=np.int64), np.array(used, dtype=np.int64)
