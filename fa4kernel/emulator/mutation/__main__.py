"""Mutation score of kernels: ``python -m fa4kernel.emulator.mutation PROBLEM ...``."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from fa4kernel.emulator.emulate import CHECKS
from fa4kernel.emulator.mutation.campaign import Campaign, Options, Tried, run
from fa4kernel.emulator.mutation.report import section, to_json, write
from fa4kernel.emulator.mutation.trial import SCHEDULES

#: The official kernels, in a checkout of this repository.
OFFICIAL = tuple(
    f"tests.emulator.mutation.official:{name}" for name in ("single", "pair", "causal")
)
COMMAND = "python -m fa4kernel.emulator.mutation"


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(
        prog=COMMAND,
        description="Break a correct kernel in every way that its synchronisation allows, one at a "
        "time, and count how often the emulator notices.",
    )
    add = made.add_argument
    add("problems", nargs="*", default=OFFICIAL, metavar="PROBLEM",
        help="package.module:function that makes a Problem; default: the official kernels, from a "
        "checkout with flash-attn-4 installed (or FA4_PYTHON set)")  # fmt: skip
    add("--sample", type=int, help="try only so many mutants of each, drawn at random")
    add("--seed", type=int, default=0, help="of the sample")
    add("--schedules", type=int, default=len(SCHEDULES), choices=range(1, len(SCHEDULES) + 1),
        help="lock step, then seeds, until one detects it (default: %(default)s)")  # fmt: skip
    add("--checks", default="default", choices=CHECKS, help="default: %(default)s")
    add("--seconds", type=float, default=60.0, help="for one mutant (default: %(default)s)")
    add("--jobs", type=int, default=2, help="processes (default: %(default)s)")
    add("--json", type=Path, help="write everything there")
    add("--page", type=Path, help="write the section into this Markdown page")
    add("--verbose", action="store_true", help="tell every mutant that is not detected")
    return made


def main(arguments: list[str] | None = None) -> int:
    """Run the command; 1 if a mutant crashed the emulator or was refused."""
    given = parser().parse_args(arguments)
    options = Options(
        SCHEDULES[: given.schedules], given.seconds, given.checks, given.sample, given.seed,
        given.jobs,
    )  # fmt: skip

    def progress(done: int, total: int, tried: Tried) -> None:
        if given.verbose and not tried.outcome.detected:
            rule = f" [{tried.rule}]" if tried.rule else ""
            text = f"{tried.mutant.name}: {tried.outcome.result}{rule} {tried.outcome.report}"
            print(text, flush=True)
        if done % 25 == 0 or done == total:
            print(f"  {done} of {total}", file=sys.stderr)

    campaigns: list[Campaign] = []
    for where in given.problems:
        print(where, file=sys.stderr)
        campaign = run(where, options, progress)
        campaigns.append(campaign)
        print(
            f"{campaign.name}: {campaign.detected} of {len(campaign.tried)} detected, raw "
            f"{campaign.raw:.1%}, adjusted {campaign.adjusted:.1%}, {len(campaign.survivors)} "
            f"survivors, {campaign.seconds:.0f} s"
        )
    if given.json:
        given.json.write_text(json.dumps(to_json(campaigns), indent=1))
    if given.page:
        write(given.page, section(campaigns, command(arguments)))
    faults = [t for c in campaigns for t in c.tried if t.outcome.result in ("crashed", "refused")]
    return 1 if faults else 0


def command(arguments: list[str] | None) -> str:
    """The command as it was given."""
    return " ".join([COMMAND, *(sys.argv[1:] if arguments is None else arguments)])


if __name__ == "__main__":
    sys.exit(main())
