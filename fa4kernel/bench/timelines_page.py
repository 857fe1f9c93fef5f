"""The section "Timelines" of docs/validation/h200.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fa4kernel.bench.markdown import table
from fa4kernel.bench.timelines import WORDS, Phase, Timelines

PICTURE = "docs/validation/h200_timeline.png"

#: Phases of a consumer without a wait, and how many cycles are a difference.
WORK, CLEARLY = ("begin", "softmax", "P"), 100


def section(chosen: Sequence[Timelines], about: Mapping[str, Any]) -> str:
    """The page's section."""
    head = ("phase", *(f"{each.name}" for each in chosen))
    names = list(dict.fromkeys((each.role, each.name) for each in chosen[0].phases))
    rows: list[Sequence[str]] = []
    for role, name in names:
        cells = [_cell(next(p for p in each.phases if (p.role, p.name) == (role, name)))
                 for each in chosen]  # fmt: skip
        rows.append((f"{role}: {WORDS[name]}", *cells))
    blocks = [f"{each.block('measured'):,.0f} / {each.block('simulated'):,.0f}" for each in chosen]
    rows.append(("consumer: **all of a block**", *blocks))
    for words, pairs in (
        ("consumer: of that, waits", [each.waits for each in chosen]),
        ("of softmax, beside another consumer's", [each.shared for each in chosen]),
    ):
        rows.append((words, *(f"{one:.0%} / {other:.0%}" for one, other in pairs)))
    rows.append(("without stamps, all told", *(_untraced(each) for each in chosen)))
    slower = [each.block("measured") / each.untraced for each in chosen if each.untraced]
    return f"""
## Timelines

A kernel compiled with `trace` writes the clock at the end of every phase. Measured / simulated
cycles per block of keys, means: of consumers over all blocks but each tile's first, of all CTAs
("{WORDS["begin"]}": of {about["begin_over"]}); of the load warp, and
the shares, over the first tile of one CTA. Simulated is one work tile of the same design in the
source's order (`o_waited_early=False`). {about["device"]}, {about["date"]}, numbers
{about["numbers"]}.

{table(head, rows)}
How to read it, and what not to read from it:

- A traced kernel is not the kernel. A stamp is some twenty instructions, and time for them is in
  every phase: waiting for a turn without ping-pong, which is nothing, takes {_nothing(chosen)}
  cycles, and a block {min(slower):.1f} to {max(slower):.1f} times as long as without stamps. So
  more cycles measured than simulated may be the stamp's, and waits shift.
- Work cannot get shorter by stamps: where the simulator works longer, it is wrong. (Issuing a
  product is not only work: the warp stands until the tensor cores have room for it.)
{_too_long(chosen)}
- Stamps pin the order to that of the source, while ptxas moves the wait for O ahead of most
  exponentials in the untraced kernel. They do not hold arithmetic: all conversions of P stand
  behind P's stamp in the machine code (ptxas 13.0), so they are counted there on both sides.
- The clock is each multiprocessor's own, in cycles. Single slices mean little; compare means.

![Measured timeline of one work tile above the simulated one, MMAs aligned](h200_timeline.png)

One of them, the first; the simulated one is stretched so that each product is issued where the
H200 issued it. Without a GPU: `fa4kernel trace -o timeline.png`.
"""


def _nothing(chosen: Sequence[Timelines]) -> str:
    """Cycles that are measured where nothing is done."""
    idle = [
        each for found in chosen if found.name.endswith("no ping-pong")
        for each in found.phases if each.name == "turn"
    ]  # fmt: skip
    return ", ".join(f"{each.measured:,.0f}" for each in idle)


def _too_long(chosen: Sequence[Timelines]) -> str:
    """Where the simulator works longer than the traced kernel."""
    found = [
        f"{each.words} in {one.name} ({each.simulated:,.0f} cycles for {each.measured:,.0f})"
        for one in chosen
        for each in one.phases
        if each.name in WORK and each.simulated - each.measured > CLEARLY
    ]
    words = "; ".join(found) or "nowhere"
    return f"  By more than {CLEARLY} cycles: {words}."


def _cell(phase: Phase) -> str:
    return f"{phase.measured:,.0f} / {phase.simulated:,.0f}"


def _untraced(found: Timelines) -> str:
    return "–" if found.untraced is None else f"{found.untraced:,.0f}"
