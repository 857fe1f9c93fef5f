"""``fa4sim poster``: roles, barriers and memories of a design on one page to print."""

from __future__ import annotations

from typing import Any

import click

from fa4sim.cli import options
from fa4sim.cli.describe import design_words, problem_words, setup_facts
from fa4sim.cli.errors import BadInput, missing_extra, refusals
from fa4sim.cli.output import check_target, print_json, say, write_whole
from fa4sim.specs import Design

ENDINGS = (".pdf", ".svg", ".png")


@click.command(
    epilog=options.examples(
        "fa4sim poster -o poster.pdf",
        "fa4sim poster --causal --seqlen-q 4096 -o causal.svg",
        "fa4sim poster --head-dim 64 --set cta_group=1 -o small.png",
    )
)
@options.problem_options()
@options.machine_option()
@options.set_option()
@click.option(
    "-o", "--output", required=True, metavar="FILE", help="The page: .pdf, .svg or .png, A3."
)
@options.json_option()
def poster(as_json: bool, output: str, **given: Any) -> None:
    """Draw roles, barriers and memories of one CTA on one page.

    Everything on it follows from the design: who runs in which warp with how many registers and
    what it does for a block, every barrier with its arrivals, and the maps of tensor and shared
    memory. It is an A3 page that also reads on A4.
    """
    target = check_target(output, ENDINGS)
    setup = options.Request.of(given).build()
    if not isinstance(setup.design, Design):
        raise BadInput(
            f"machine {setup.machine.name!r} runs a Hopper design, and the poster is of the "
            "Blackwell kernel; use --machine b200 or b300"
        )
    try:
        from fa4sim.poster import poster as draw
        from fa4sim.views import save
    except ImportError as error:
        raise missing_extra(error, "viz", "drawing") from None
    with refusals():
        page = draw(setup.problem, setup.design, setup.machine)
    write_whole(target, lambda path: save(page, path))
    if as_json:
        print_json({"file": str(target), "shows": page.fa4sim_alt, **setup_facts(setup)})
        return
    say(f"{setup.machine.name}: {problem_words(setup.problem)}")
    say(f"design: {design_words(setup.design)}")
    say(f"wrote {target}, an A3 page")
