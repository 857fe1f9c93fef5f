"""``fa4kernel crosscheck``: do simulator, kernel and reference agree?"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

import fa4kernel
from fa4kernel.compiling import CompilationError
from fa4kernel.crosscheck.cases import SMS, Case, cases_for
from fa4kernel.crosscheck.check import KERNELS, Crosscheck, crosscheck
from fa4kernel.crosscheck.kernel import Unavailable
from fa4kernel.crosscheck.page import COMMAND, PAGE, page
from fa4kernel.emulator.errors import EmulationError
from fa4sim.cli import options
from fa4sim.cli.check import check_pages
from fa4sim.cli.describe import design_words, problem_words, setup_facts
from fa4sim.cli.errors import BadInput, CheckFailed, PipelineBroken, refusals
from fa4sim.cli.output import Steps, print_json, say, write_whole
from fa4sim.specs import Design
from fa4sim.specs.fields import Settings

#: A cross-check computes every score, and emulates every CTA.
SMALL = {"batch": 1, "heads": 2, "seqlen_q": 512}
#: Work tiles times blocks of keys: a few seconds for a hundred.
MOST_STEPS = 2000


@click.command(
    "crosscheck",
    epilog=options.examples(
        "fa4kernel crosscheck --against official",
        "fa4kernel crosscheck --causal --heads 3 --seqlen-k 768 --json",
        "fa4kernel crosscheck --seqlen-q 1024 --set cta_group=1",
        "fa4kernel crosscheck --break drop_wait:O_full    a wrong simulator: see what it says",
        f"{COMMAND}                      all problems of the page, both kernels",
    ),
)
@options.problem_options(SMALL)
@click.option(
    "--against",
    type=click.Choice(list(KERNELS)),
    help="Which kernel. [default: ours; with --write, both]",
)
@click.option(
    "--sms",
    type=click.IntRange(min=1),
    default=SMS,
    show_default=True,
    metavar="N",
    help="SMs of the imagined GPU: with few of them CTAs work on several tiles.",
)
@options.set_option()
@options.seed_option()
@options.break_option()
@click.option(
    "--costs/--no-costs",
    default=True,
    show_default=True,
    help="Also compare the cost model: the kernel runs on longer problems, most of the time.",
)
@click.option(
    "--write", is_flag=True, help=f"Run the page's problems and write {PAGE}, in this repository."
)
@options.json_option()
def command(
    as_json: bool, against: str | None, sms: int, seed: int, costs: bool, write: bool, **given: Any
) -> None:
    """Hold the simulator against a compiled kernel, on one problem.

    Barriers, order of events, lives of tiles, amounts of work, numerics and the cost model: a
    verdict for each, with the first difference. The kernel runs in the PTX emulator; the official
    one must be there (`make official`, or FA4_PYTHON). Exit code 1 if something differs, 3 for a
    deadlock or a hazard.
    """
    if write:
        options.refuse_beside(
            "--write", "as_json", "against", "seed", instead="runs the problems of the page"
        )
        _write(as_json, against, seed)
        return
    setup = _with_sms(options.Request.of(given, SMALL), sms).build()
    design = setup.design
    if not isinstance(design, Design):
        raise BadInput(
            f"{setup.machine.name}: the cross-check is about Blackwell's kernel; use b200"
        )
    with _broken(), refusals():
        _check_size(setup)
        verdict = crosscheck(
            setup.problem,
            design,
            setup.machine,
            against=against or KERNELS[0],
            seed=seed,
            costs=costs,
        )
    if not as_json:
        say(f"{verdict.kernel}: {problem_words(setup.problem)}")
        say(f"design: {design_words(design)}\n")
        say("\n".join(part.words() for part in verdict.parts))
        for text in (note for part in verdict.parts for note in part.notes):
            say(f"  {text}")
        say(f"\n{'agree' if verdict.agrees else 'DIFFER'} in {verdict.wall_s:.1f} s")
    _end(verdict, {**verdict.facts(), "seed": seed, **setup_facts(setup)}, as_json)


def _with_sms(request: options.Request, sms: int) -> options.Request:
    """The request with so many SMs, unless --set machine.sms says otherwise."""
    if "sms" in request.settings.machine:
        return request
    return request.with_settings(Settings(machine={"sms": sms}))


def _end(verdict: Crosscheck, facts: dict[str, Any], as_json: bool) -> None:
    if verdict.hazards:
        raise PipelineBroken("\n".join(told_once(verdict.hazards)), facts)
    if not verdict.agrees:
        parts = [part.name for part in verdict.parts if not part.agrees]
        raise CheckFailed(f"simulator and kernel differ in: {', '.join(parts)}", facts)
    if as_json:
        print_json(facts)


def told_once(hazards: Sequence[str]) -> list[str]:
    """Hazards that differ by their numbers only (cycle, CTA, stage), each by the first of them.

    >>> told_once(["cycle 7: S_full[0] of CTA 0", "cycle 9: S_full[1] of CTA 0", "cycle 9: O_full"])
    ['cycle 7: S_full[0] of CTA 0 (and 1 more like it; --json has all)', 'cycle 9: O_full']
    """
    alike: dict[str, list[str]] = {}
    for hazard in hazards:
        alike.setdefault(re.sub(r"\d+", "#", hazard), []).append(hazard)
    return [
        first + (f" (and {len(others)} more like it; --json has all)" if others else "")
        for first, *others in alike.values()
    ]


@contextmanager
def _broken() -> Iterator[None]:
    """What a kernel that hangs or cannot be compiled means for the exit code."""
    try:
        yield
    except (Unavailable, CompilationError) as error:
        raise BadInput(str(error)) from None
    except EmulationError as error:
        raise PipelineBroken(f"the kernel: {error}") from None


def _check_size(setup: options.Setup) -> None:
    from fa4sim.pipelines.fa4.gpu import make_plan

    check_pages(setup.problem)
    plan = make_plan(setup.problem, setup.design, setup.machine)
    steps = sum(tile.blocks for tile in plan.tiles) * setup.design.cta_group
    if steps > MOST_STEPS:
        raise ValueError(
            f"{len(plan.tiles)} work tiles take {steps:,} blocks of keys; a cross-check takes "
            f"{MOST_STEPS:,} at most. Give fewer heads, sequences, queries or keys"
        )


def _write(as_json: bool, against: str | None, seed: int) -> None:
    target = Path(fa4kernel.__file__).parents[1] / PAGE
    if not target.parent.is_dir():
        raise BadInput(
            f"--write needs a copy of the repository: there is no {str(target.parent)!r}"
        )
    kernels = (against,) if against else tuple(KERNELS)
    verdicts: dict[str, list[tuple[Case, Crosscheck]]] = {}
    runs = [(kernel, case) for kernel in kernels for case in cases_for(kernel)]
    with Steps("running the problems") as steps, _broken(), refusals():
        for number, (kernel, case) in enumerate(runs):
            verdict = crosscheck(case.problem, case.design, case.machine, against=kernel, seed=seed)
            verdicts.setdefault(kernel, []).append((case, verdict))
            steps(number + 1, len(runs))
        write_whole(target, lambda path: path.write_text(page(verdicts), encoding="utf-8"))
    facts = {
        "agree": all(v.agrees for found in verdicts.values() for _, v in found),
        "kernels": {
            kernel: {case.name: verdict.facts() for case, verdict in found}
            for kernel, found in verdicts.items()
        },
        "file": str(target),
    }
    if not as_json:
        say(page(verdicts, written=False))
        say(f"wrote {target}")
    if not facts["agree"]:
        raise CheckFailed("simulator and kernel differ on some problem: see the page", facts)
    if as_json:
        print_json(facts)
