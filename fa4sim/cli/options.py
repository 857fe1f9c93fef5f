"""The options that commands share, and how they become a problem, a design and a machine."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from fa4sim.cli.errors import BadInput, refusals
from fa4sim.cli.faults import parse_faults
from fa4sim.cli.fields import settings_of
from fa4sim.cli.literals import assignments, literal
from fa4sim.specs import Problem, as_window, machine_named
from fa4sim.specs.fields import Settings
from fa4sim.specs.setup import Setup as Setup

Command = TypeVar("Command", bound=Callable[..., Any])

#: What a problem option stands at if it is not given: the demo problem of the project.
DEFAULTS: Mapping[str, Any] = {"batch": 4, "heads": 16, "seqlen_q": 8192}

#: With arrays every score is computed, so a check starts from something small.
SMALL: Mapping[str, Any] = {"batch": 1, "heads": 2, "seqlen_q": 1024}

# Fields of the problem that --seqlens FILE determines.
_FROM_FILE = ("seqlen_q", "seqlen_k", "seqlens_q", "seqlens_k")


def problem_options(defaults: Mapping[str, Any] = DEFAULTS) -> Callable[[Command], Command]:
    """Options that say what to compute, with these defaults shown in the help."""

    def number(name: str, field: str, text: str, otherwise: str | None = None) -> Any:
        shown = otherwise if otherwise is not None else str(defaults[field])
        return click.option(name, field, type=int, help=f"{text} [default: {shown}]", metavar="N")

    options = [
        number("--batch", "batch", "Sequences."),
        number("--heads", "heads", "Query heads."),
        number("--kv-heads", "kv_heads", "K/V heads; they divide the query heads.", "as --heads"),
        number("--seqlen-q", "seqlen_q", "Queries per sequence."),
        number("--seqlen-k", "seqlen_k", "Keys per sequence.", "as --seqlen-q"),
        number("--head-dim", "head_dim", "Head dimension of Q and K.", "128"),
        number("--head-dim-v", "head_dim_v", "Head dimension of V and O.", "as --head-dim"),
        click.option(
            "--dtype", help="bf16, fp16, e4m3 or e5m2. [default: bf16]", metavar="NAME"
        ),
        click.option(
            "--causal", is_flag=True, default=None, help="Causal mask, bottom-right aligned."
        ),
        click.option(
            "--window", metavar="L,R",
            help="Sliding window: L keys left and R right of the diagonal; empty is unbounded.",
        ),
        click.option("--sink", is_flag=True, default=None, help="A learnable sink per head."),
        click.option(
            "--softcap", type=float, metavar="X", help="Cap scores at ±X. [default: off]"
        ),
        number(
            "--page-size", "page_size", "Tokens of a page of the KV cache.", "K and V in one piece"
        ),
        click.option(
            "--num-splits", type=int, metavar="N",
            help="Cut the keys of every tile into N parts, which a second kernel combines; 0 "
            "leaves N to the kernel's heuristic. [default: 1]",
        ),
        click.option(
            "--seqlens", metavar="FILE", multiple=True,
            help='Lengths by sequence: JSON {"q": […], "k": […]} or CSV with the header q,k.',
        ),
    ]  # fmt: skip
    return _together(options)


def machine_option() -> Callable[[Command], Command]:
    """``--machine``."""
    return _together([
        click.option(
            "--machine", default="b200", show_default=True, metavar="NAME",
            help="The GPU; `fa4sim machines` lists them.",
        )
    ])  # fmt: skip


def set_option() -> Callable[[Command], Command]:
    """``--set``."""
    return _together([
        click.option(
            "--set", "settings", multiple=True, metavar="NAME=VALUE",
            help="Set a field of the design (kv_stages=3), of the problem (softmax_scale=0.1) or "
            "a constant of the machine (machine.clock_hz=1.7e9). Repeat for more.",
        )
    ])  # fmt: skip


def seed_option() -> Callable[[Command], Command]:
    """``--seed``."""
    return _together([
        click.option(
            "--seed", type=click.IntRange(min=0), default=0, show_default=True, metavar="N",
            help="Of everything that is drawn.",
        )
    ])  # fmt: skip


def break_option() -> Callable[[Command], Command]:
    """``--break``."""
    return _together([
        click.option(
            "--break", "faults", multiple=True, metavar="KIND:BARRIER[:STAGE[:ROLE]]",
            help="Put a fault in on purpose and see what it does: KIND is drop_arrival, drop_wait, "
            "count_plus_one, count_minus_one or swap_slots. Repeat for more.",
        )
    ])  # fmt: skip


def json_option() -> Callable[[Command], Command]:
    """``--json``."""
    return _together([
        click.option(
            "--json", "as_json", is_flag=True,
            help="Print one JSON object and nothing else on standard output.",
        )
    ])  # fmt: skip


def refuse_beside(flag: str, *heeded: str, instead: str) -> None:
    """Raise a usage failure for an option on the command line that ``flag`` would ignore.

    Args:
        flag: an option of the running command, as "--write".
        heeded: parameters that do have a meaning beside it.
        instead: what ``flag`` does, for the message.
    """
    context = click.get_current_context()
    heeded = (*heeded, flag.removeprefix("--"))
    ignored = []
    for parameter in context.command.params:
        name = parameter.name or ""
        given = context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if given and name not in heeded:
            negated = parameter.secondary_opts and not context.params[name]
            ignored.append((parameter.secondary_opts if negated else parameter.opts)[-1])
    if ignored:
        raise BadInput(
            f"{flag} {instead} and ignores {', '.join(ignored)}; leave {flag} or the other out"
        )


def examples(*lines: str) -> str:
    """An epilog that shows ``lines`` as they stand."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


def _together(options: Sequence[Callable[[Any], Any]]) -> Callable[[Command], Command]:
    def decorate(command: Command) -> Command:
        return functools.reduce(lambda inner, option: option(inner), reversed(options), command)

    return decorate


@dataclass(frozen=True)
class Request:
    """What the options ask for, before it is put together: a machine's name and settings.

    ``fixed`` came from options of their own, so ``--set`` must not set the same fields again.
    """

    machine: str
    fixed: Settings
    settings: Settings
    defaults: Mapping[str, Any]
    faults: tuple[str, ...] = ()

    @classmethod
    def of(cls, given: Mapping[str, Any], defaults: Mapping[str, Any] = DEFAULTS) -> Request:
        """The request in a command's parameters. Raises a usage failure for what cannot be read."""
        written = assignments(given.get("settings") or ())
        values = {name: literal(name, text) for name, text in written.items()}
        return cls(
            given.get("machine", "b200"),
            problem_settings(given),
            settings_of(values),
            defaults,
            tuple(given.get("faults") or ()),
        )

    def with_settings(self, extra: Settings, machine: str | None = None) -> Request:
        """The same request with further settings on top."""
        return Request(
            self.machine if machine is None else machine,
            self.fixed, extra.over(self.settings), self.defaults, self.faults,
        )  # fmt: skip

    @property
    def set_names(self) -> tuple[str, ...]:
        """Fields of the design and of the problem that ``--set`` names."""
        return (*self.settings.design, *self.settings.problem)

    def build(self) -> Setup:
        """Put problem, design and machine together.

        Raises a usage failure with the message of whoever refuses.
        """
        self._check_not_twice()
        settings = self.settings.over(self.fixed)
        with refusals():
            setup = Setup.of(machine_named(self.machine), settings, self.defaults)
            if self.faults:
                faults = parse_faults(self.faults, setup.design)
                design = setup.design.replace(setup.problem, setup.machine, faults=faults)
                setup = dataclasses.replace(setup, design=design)
        return setup

    def _check_not_twice(self) -> None:
        for name, value in self.settings.problem.items():
            if name in self.fixed.problem:
                raise BadInput(
                    f"{name} is given twice: by its own option ({self.fixed.problem[name]!r}) "
                    f"and by --set ({value!r})"
                )
            if name in _FROM_FILE and "seqlens_q" in self.fixed.problem:
                raise BadInput(
                    f"--set {name}={value!r} and --seqlens contradict each other: the file holds "
                    "the lengths"
                )


_PROBLEM_OPTIONS = (
    *("batch", "heads", "kv_heads", "seqlen_q", "seqlen_k", "head_dim", "head_dim_v"),
    *("dtype", "causal", "sink", "softcap", "page_size", "num_splits"),
)


def problem_settings(given: Mapping[str, Any]) -> Settings:
    """The problem fields that were given as options. Raises a usage failure quoting the value."""
    values = {name: given[name] for name in _PROBLEM_OPTIONS if given.get(name) is not None}
    with refusals():
        if given.get("window") is not None:
            values["window"] = as_window(given["window"])
        files: tuple[str, ...] = given.get("seqlens") or ()
        if len(files) > 1:
            raise BadInput(f"--seqlens is given twice: {files[0]!r} and {files[1]!r}; give one")
        if files:
            values.update(_lengths(files[0], values))
    return Settings(problem=values)


def _lengths(path: str, values: Mapping[str, Any]) -> dict[str, Any]:
    for name in ("seqlen_q", "seqlen_k"):
        if name in values:
            raise BadInput(
                f"--{name.replace('_', '-')} {values[name]} and --seqlens {path!r} contradict each "
                "other: the file holds the lengths"
            )
    q, k = Problem.lengths_from_file(path)
    if "batch" in values and values["batch"] != len(q):
        raise BadInput(
            f"--batch {values['batch']} contradicts --seqlens {path!r}, which holds "
            f"{len(q)} sequences; leave --batch out"
        )
    return {"seqlens_q": q, "seqlens_k": k}
