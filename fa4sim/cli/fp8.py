"""``fa4sim fp8``: what 8 bits cost, and when weights saturate."""

from __future__ import annotations

from pathlib import Path

import click

from fa4sim.cli import fp8_tables, options
from fa4sim.cli.errors import BadInput, refusals
from fa4sim.cli.output import print_json, progress, say
from fa4sim.files import put_section

PAGE = "docs/inference.md"
TITLE = "# Inference\n"
BEGIN = "<!-- fa4sim fp8: begin -->"
END = "<!-- fa4sim fp8: end -->"

TABLES = ("choices", "boundaries", "spread", "inputs")
LONGEST = 16384


@click.command(
    epilog=options.examples(
        "fa4sim fp8",
        "fa4sim fp8 --table choices --offset 8 --threshold 0 --threshold 0.8 --dtype e4m3",
        "fa4sim fp8 --table inputs --json",
        f"fa4sim fp8 --write                              renew the section of {PAGE}",
    )
)
@click.option(
    "--table",
    "names",
    type=click.Choice(TABLES),
    multiple=True,
    metavar="NAME",
    help=f"{', '.join(TABLES)}. Repeat for more. [default: all]",
)
@click.option(
    "--dtype",
    "dtypes",
    type=click.Choice(("e4m3", "e5m2")),
    multiple=True,
    metavar="NAME",
    help="e4m3 or e5m2, in the table of choices. Repeat for more. [default: both]",
)
@click.option(
    "--offset",
    "offsets",
    type=int,
    multiple=True,
    metavar="N",
    help="P is multiplied by 2^N (choices). Repeat for more. [default: 0, 4 and 8]",
)
@click.option(
    "--threshold",
    "thresholds",
    type=float,
    multiple=True,
    metavar="X",
    help="Rise of the row maximum that is tolerated, in powers of two (choices). Repeat for more. "
    "[default: 0, 0.75, 2, 4 and 8]",
)
@click.option(
    "--keys", type=int, default=2048, show_default=True, metavar="N", help="Length (choices)."
)
@click.option(
    "--score-std",
    type=float,
    default=1.5,
    show_default=True,
    metavar="X",
    help="Standard deviation of the scaled scores (choices).",
)
@options.seed_option()
@click.option("--write", is_flag=True, help=f"Write the tables into {PAGE} too, in this folder.")
@options.json_option()
def fp8(
    as_json: bool, names: tuple[str, ...], dtypes: tuple[str, ...], offsets: tuple[int, ...],
    thresholds: tuple[float, ...], keys: int, score_std: float, seed: int, write: bool,
) -> None:  # fmt: skip
    """Measure the numerics of 8-bit inputs.

    choices: the error by the offset that P is scaled by and the threshold of the row maximum;
    boundaries: a decode step around multiples of 128 keys, with what each version of the kernel
    chose; spread: the same for wide and narrow scores; inputs: what quantising costs on stated
    distributions, with descales and without.
    """
    if not 1 <= keys <= LONGEST:
        raise BadInput(f"--keys {keys} must be 1 to {LONGEST}")
    if not 0 < score_std <= 100:
        raise BadInput(f"--score-std {score_std} must be above 0, at most 100")
    if write and names:
        raise BadInput("--write writes all tables; leave --table out")
    makers = {
        "choices": lambda: fp8_tables.choices(
            offsets or (0, 4, 8), thresholds or (0, 0.75, 2, 4, 8), dtypes or ("e4m3", "e5m2"),
            keys, score_std, seed,
        ),
        "boundaries": lambda: fp8_tables.boundaries(seed),
        "spread": lambda: fp8_tables.spread(seed),
        "inputs": lambda: fp8_tables.inputs(seed),
    }  # fmt: skip
    tables = {}
    with progress(tuple(dict.fromkeys(names)) or TABLES, "measuring") as bar, refusals():
        for name in bar:
            tables[name] = makers[name]()
    if write:
        put_section(Path(PAGE), fp8_tables.section(tables, BEGIN, END), BEGIN, END, TITLE)
    if as_json:
        facts = {name: {"rows": made.facts} for name, made in tables.items()}
        print_json({"seed": seed, **facts, **({"file": PAGE} if write else {})})
        return
    say("\n\n".join(made.text() for made in tables.values()))
    if write:
        say(f"\nwrote {PAGE}")
