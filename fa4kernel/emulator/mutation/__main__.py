"""Mutation score of kernels: ``python -m fa4kernel.emulator.mutation PROBLEM ...``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from fa4kernel.emulator.emulate import CHECKS
from fa4kernel.emulator.mutation.campaign import Campaign, Options, Tried, run
from fa4kernel.emulator.mutation.report import save, section, write
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
    add("--json", type=Path, help="write everything there, after each problem")
    add("--resume", action="store_true",
        help="do not try mutants again that the --json file knows, of the same kernel under the "
        "same schedules and checks")  # fmt: skip
    add("--page", type=Path, help="write the section into this Markdown page")
    add("--section", default="", metavar="NAME",
        help="write a section of this name, beside others of the page")  # fmt: skip
    add("--verbose", action="store_true", help="tell every mutant that is not detected")
    return made


def main(arguments: list[str] | None = None) -> int:
    """Run the command; 1 if a mutant crashed the emulator or was refused."""
    made = parser()
    given = made.parse_args(arguments)
    if given.resume and not given.json:
        made.error("--resume needs the file of an earlier run: name it with --json")
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
        campaign = run(where, options, progress, given.json if given.resume else None)
        campaigns.append(campaign)
        if given.json:
            save(given.json, campaigns, given.resume)
        print(
            f"{campaign.name}: {campaign.detected} of {len(campaign.tried)} detected, raw "
            f"{campaign.raw:.1%}, adjusted {campaign.adjusted:.1%}, {len(campaign.survivors)} "
            f"survivors, {campaign.seconds:.0f} s"
        )
    if given.page:
        text = section(campaigns, command(arguments), given.section)
        write(given.page, text, given.section)
    faults = [t for c in campaigns for t in c.tried if t.outcome.result in ("crashed", "refused")]
    return 1 if faults else 0


def command(arguments: list[str] | None) -> str:
    """The command as it was given."""
    return " ".join([COMMAND, *(sys.argv[1:] if arguments is None else arguments)])


if __name__ == "__main__":
    sys.exit(main())
