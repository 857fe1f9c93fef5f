"""``fa4sim rescales`` and ``fa4sim exp2``: two measurements of the numerics, as tables."""

from __future__ import annotations

import dataclasses

import click

from fa4sim.cli import options
from fa4sim.cli.errors import BadInput, refusals
from fa4sim.cli.output import print_json, progress, say, table
from fa4sim.numerics import (
    DISTRIBUTIONS,
    ErrorRow,
    RescaleRow,
    format_rescales,
    measure_rescales,
    polynomial_error_table,
)

#: Largest relative errors published in Table 2 of arXiv 2603.05451: float32, then bf16.
PUBLISHED = {
    "MUFU": (1.41e-7, 3.89e-3),
    "degree 3": (8.77e-5, 3.90e-3),
    "degree 4": (3.05e-6, 3.89e-3),
    "degree 5": (1.44e-7, 3.89e-3),
}
LONGEST = 16384


@click.command(
    epilog=options.examples(
        "fa4sim rescales",
        "fa4sim rescales --seqlen 8192 --threshold 4",
        "fa4sim rescales --inputs 'normal, std 1' --json",
    )
)
@click.option(
    "--seqlen",
    "seqlens",
    type=int,
    multiple=True,
    metavar="N",
    help="Queries and keys. Repeat for more. [default: 1024 and 4096]",
)
@click.option(
    "--inputs",
    multiple=True,
    metavar="NAME",
    help=f"{'; '.join(DISTRIBUTIONS)}. Repeat for more. [default: all]",
)
@click.option("--head-dim", type=int, default=128, show_default=True, metavar="N")
@click.option(
    "--threshold",
    type=float,
    default=8.0,
    show_default=True,
    metavar="X",
    help="Rise of the row maximum that is tolerated, in powers of two.",
)
@options.seed_option()
@options.json_option()
def rescales(
    as_json: bool, seqlens: tuple[int, ...], inputs: tuple[str, ...], head_dim: int,
    threshold: float, seed: int,
) -> None:  # fmt: skip
    """Measure how many output rescales are saved.

    On stated inputs: a warp of 32 rows rescales its output if any of its rows saw its maximum
    rise by more than the threshold. The table counts that, and what it would be without a
    threshold ("always").
    """
    lengths = seqlens or (1024, 4096)
    names = inputs or tuple(DISTRIBUTIONS)
    for length in lengths:
        if not 1 <= length <= LONGEST:
            raise BadInput(f"--seqlen {length} must be 1 to {LONGEST}")
    if head_dim < 1 or head_dim > 256:
        raise BadInput(f"--head-dim {head_dim} must be 1 to 256")
    if not 0 <= threshold <= 100:
        raise BadInput(f"--threshold {threshold} must be 0 to 100")
    rows: list[RescaleRow] = []
    with progress(names, "measuring") as bar, refusals():
        for name in bar:
            rows += measure_rescales(
                lengths, [name], head_dim=head_dim, threshold=threshold, seed=seed
            )
    if as_json:
        facts = [
            {**dataclasses.asdict(row), "warp_ratio": row.warp_ratio, "row_ratio": row.row_ratio}
            for row in rows
        ]
        print_json({"threshold": threshold, "head_dim": head_dim, "seed": seed, "rows": facts})
        return
    say(format_rescales(rows))
    say(
        f"\nOne head of dim {head_dim}, threshold {threshold:g}, seed {seed}. votes: 32 rows times "
        "blocks after the first.\nalways: votes that would lead to a rescale without a threshold. "
        "ratio: rescales without per rescale with it."
    )


@click.command(epilog=options.examples("fa4sim exp2", "fa4sim exp2 --bits 23 --json"))
@click.option(
    "--bits",
    type=int,
    default=18,
    show_default=True,
    metavar="N",
    help="Measure on all fractions k / 2^N, 1 to 23.",
)
@click.option(
    "--degree",
    "degrees",
    type=int,
    multiple=True,
    metavar="N",
    help="Of the polynomial, 1 to 5. Repeat for more. [default: 3, 4 and 5]",
)
@options.json_option()
def exp2(as_json: bool, bits: int, degrees: tuple[int, ...]) -> None:
    """Measure the error of 2^x by polynomial.

    Largest relative error of the float32 result and after rounding to bf16, and how often the bf16
    result is the special-function unit's own; beside it what the paper publishes.
    """
    with refusals():
        rows = polynomial_error_table(bits, degrees or (3, 4, 5))
    if as_json:
        print_json({"bits": bits, "rows": [_error_facts(row) for row in rows]})
        return
    cells = [
        [row.method, f"{row.fp32_error:.2e}", _published(row, 0), f"{row.bf16_error:.2e}",
         _published(row, 1), f"{row.bf16_equal:.2%}", f"{row.bf16_within_one_ulp:.2%}"]
        for row in rows
    ]  # fmt: skip
    head = ["method", "float32", "published", "bf16", "published ", "bf16 equal", "within 1 ulp"]
    say(table(head, cells, left=["method"]))
    say(f"\nLargest relative error on the multiples of 2^-{bits} in [0, 1); published: "
        "arXiv 2603.05451, Table 2.\nThe MUFU row is this simulator's model of it.")  # fmt: skip


def _published(row: ErrorRow, column: int) -> str:
    known = PUBLISHED.get(row.method)
    return "-" if known is None else f"{known[column]:.2e}"


def _error_facts(row: ErrorRow) -> dict[str, object]:
    fp32, bf16 = PUBLISHED.get(row.method, (None, None))
    return {
        **dataclasses.asdict(row), "published_fp32_error": fp32, "published_bf16_error": bf16,
    }  # fmt: skip
