"""The what-if lab: knobs, a simulation behind them, and what has changed since the first one."""

from __future__ import annotations

import gc
import html
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from IPython.display import HTML, display
from lesson import say

from fa4sim import B200, B300, Design, Machine, Problem, Report, Run, simulate

#: Machines to try: two that exist and three that do not.
MACHINES: dict[str, Machine] = {
    "B200": B200,
    "B300": B300,
    "B200, tensor pipe × 2": B200.with_constants(
        tensor_flops_per_cycle_16bit=2 * B200.tensor_flops_per_cycle_16bit,
        tensor_flops_per_cycle_8bit=2 * B200.tensor_flops_per_cycle_8bit,
    ),
    "B200, MUFU × 2": B200.with_constants(mufu_cycles_per_warp=B200.mufu_cycles_per_warp / 2),
    "B200, shared memory × 2": B200.with_constants(smem_bytes_per_cta=2 * B200.smem_bytes_per_cta),
}

#: The page size of K and V that have no pages.
ONE_PIECE = "one piece"

#: Four of a B200's SMs, with their share of L2 and HBM: small enough to answer at once.
SLICE_SMS = 4
SLICE = B200.with_constants(
    sms=SLICE_SMS,
    l2_bytes=round(B200.l2_bytes * SLICE_SMS / B200.sms),
    l2_bytes_per_cycle=B200.l2_bytes_per_cycle * SLICE_SMS / B200.sms,
    hbm_bytes_per_second=B200.hbm_bytes_per_second * SLICE_SMS / B200.sms,
)


@dataclass(frozen=True)
class Answer:
    """What a setting gives: a report or a refusal, and the seconds that it took to know.

    ``cycles`` are those of 128 queries of a CTA in the kernel's lab, and of the step in the
    serving lab. ``chosen`` is what the kernel took where a knob leaves it the choice.
    """

    settings: Mapping[str, Any]
    report: Report | None
    cycles: float
    refusal: str
    seconds: float
    chosen: Mapping[str, Any] = field(default_factory=dict)


def kernel(machine: str, dtype: str, **changes: Any) -> tuple[Run, float]:
    """The running example, one CTA; the design is the kernel's with these changes."""
    problem = Problem(seqlen_q=256, seqlen_k=1024, dtype=dtype)
    given = {name: value for name, value in changes.items() if value != "own"}
    design = Design.for_problem(problem, MACHINES[machine], **given)
    run = simulate(problem, design, MACHINES[machine], scope="cta")
    return run, run.report.cycles / design.q_stages


def serving(batch: int, keys: int, page_size: int | str, page_pointers: str, num_splits: int,
            dtype: str) -> tuple[Run, float]:  # fmt: skip
    """A decode step on the slice: a new token for each sequence, 8 query heads on a K/V head."""
    problem = Problem(
        batch=batch, heads=8, kv_heads=1, seqlen_q=1, seqlen_k=keys, dtype=dtype,
        page_size=None if page_size == ONE_PIECE else int(page_size), num_splits=num_splits,
    )  # fmt: skip
    design = Design.for_problem(problem, SLICE, page_pointers=page_pointers)
    run = simulate(problem, design, SLICE)
    return run, run.report.time_us * SLICE.clock_hz / 1e6


class Lab:
    """Knobs over a simulation; the first value of each is what everything is compared with."""

    def __init__(
        self, run: Callable[..., tuple[Run, float]], choices: Mapping[str, Sequence[Any]]
    ) -> None:
        self.run = run
        self.choices = {name: tuple(values) for name, values in choices.items()}
        # Python now and then looks through all there is for what nobody needs. What is there by now
        # stays, and looking through it would make one answer in a hundred wait.
        gc.collect()
        gc.freeze()
        self.first = self.ask()

    def ask(self, **changes: Any) -> Answer:
        """Simulate the first setting with these changes. Raises ``ValueError`` for another knob."""
        settings = {name: values[0] for name, values in self.choices.items()}
        for name, value in changes.items():
            if name not in settings:
                raise ValueError(f"no knob is called {name!r}; there are {', '.join(settings)}")
            if value not in self.choices[name]:
                some = ", ".join(map(repr, self.choices[name]))
                raise ValueError(f"{name}={value!r} is not on its knob: {some}")
        settings.update(changes)
        started = time.process_time()
        try:
            run, cycles = self.run(**settings)
        except ValueError as refusal:
            return Answer(settings, None, float("nan"), str(refusal), time.process_time() - started)
        took = time.process_time() - started
        chosen = {
            name: getattr(run.design, name) for name, value in settings.items()
            if value == "own" or (name, value) == ("num_splits", 0)
        }  # fmt: skip
        return Answer(settings, run.report, cycles, "", took, chosen)

    def show(self) -> None:
        """Sliders for all knobs, and the answer below them; without ipywidgets the answer only."""
        try:
            import ipywidgets
        except ImportError:
            call = ", ".join(f"{name}={values[-1]!r}" for name, values in self.choices.items())
            say(f"No sliders here; run `lab.look({call})` with some of these in a new cell.")
            self.look()
            return
        sliders = {
            name: ipywidgets.SelectionSlider(
                options=[(str(value), value) for value in values], description=name,
                continuous_update=True, style={"description_width": "9em"},
                layout={"width": "32em"},
            )
            for name, values in self.choices.items()
        }  # fmt: skip
        display(ipywidgets.VBox(list(sliders.values())))
        shown = display(self.page(self.first), display_id=True)

        def redraw(_change: object) -> None:
            given = {name: slider.value for name, slider in sliders.items()}
            shown.update(self.page(self.ask(**given)))

        for slider in sliders.values():
            slider.observe(redraw, names="value")

    def look(self, **changes: Any) -> None:
        """Show the answer to these changes."""
        display(self.page(self.ask(**changes)))

    def page(self, answer: Answer) -> HTML:
        """An answer beside the first: time, busy units, verdict."""
        took = f"<p><small>simulated in {1e3 * answer.seconds:.0f} ms</small></p>"
        changed = ", ".join(
            f"{name}={value}" for name, value in answer.settings.items()
            if value != self.first.settings[name]
        )  # fmt: skip
        head = f"<p><b>{html.escape(changed or 'nothing changed')}</b></p>"
        if answer.report is None or self.first.report is None:
            return HTML(f"{head}<p>Refused: {html.escape(answer.refusal)}.</p>{took}")
        own = ", ".join(f"{name}={value}" for name, value in answer.chosen.items())
        own = f"<p>The kernel's own choice: {html.escape(own)}.</p>" if own else ""
        speed = self.first.cycles / answer.cycles
        lines = [_line("cycles", answer.cycles / max(answer.cycles, self.first.cycles),
                       f"{answer.cycles:,.0f}", f"{self.first.cycles:,.0f}")]  # fmt: skip
        for unit in ("tensor", "mufu", "fma", "issue", "smem", "hbm"):
            now, before = answer.report.units[unit], self.first.report.units[unit]
            lines.append(_line(f"{unit} busy", now, f"{now:.0%}", f"{before:.0%}"))
        return HTML(
            f"{head}<p>{speed:.2f} times as fast as at first.</p><table><tr><th></th><th></th>"
            f"<th>now</th><th>at first</th></tr>{''.join(lines)}</table>"
            f"<p>{html.escape(answer.report.bottleneck)}</p>{own}{took}"
        )


def _line(name: str, share: float, now: str, before: str) -> str:
    """A row of the table, with a bar as long as ``share``."""
    width = round(100 * min(1.0, share), 1)
    bar = f'<div style="background:#0072B2;height:0.8em;width:{width}%"></div>'
    return (
        f'<tr><td>{html.escape(name)}</td><td style="width:16em;min-width:5em">{bar}</td>'
        f'<td style="text-align:right">{now}</td><td style="text-align:right">{before}</td></tr>'
    )


def kernel_lab() -> Lab:
    """The running example with the kernel's design, and knobs for most of what it decides."""
    return Lab(kernel, {
        "machine": list(MACHINES),
        "dtype": ("bf16", "e4m3"),
        "q_stages": (2, 1),
        "kv_stages": ("own", 2, 3, 4, 5, 6),
        "exp2_period": ("own", 0, 32, 16, 10, 8, 6, 4),
        "rescale_threshold": ("own", 0.0),
        "p_first_columns": ("own", 32, 64, 128),
    })  # fmt: skip


def serving_lab() -> Lab:
    """A decode step on four SMs, with what an inference engine decides.

    The longest sequence is 20 blocks of keys: enough for four splits, and short enough that no
    setting takes a tenth of a second.
    """
    return Lab(serving, {
        "batch": (1, 2, 4),
        "keys": (2560, 512, 1024, 2048),
        "page_size": (ONE_PIECE, 1, 2, 4, 8, 16, 32, 64, 128, 256),
        "page_pointers": ("transposed", "naive"),
        "num_splits": (1, 2, 3, 4, 0),
        "dtype": ("bf16", "e4m3"),
    })  # fmt: skip
