"""``fa4sim validate``: simulated times beside published ones."""

from __future__ import annotations

import importlib
from typing import Any

import click

from fa4sim.cli import options
from fa4sim.cli.errors import BadInput, CheckFailed, refusals
from fa4sim.cli.output import Steps, print_json, say

PAGE = "docs/validation/b200.md"


@click.command(
    epilog=options.examples(
        "fa4sim validate",
        "fa4sim validate --no-sensitivity --json",
        "fa4sim validate --write                          renew docs/validation/b200.md",
        "fa4sim validate --inference --write              renew docs/validation/inference.md",
    )
)
@click.option(
    "--sensitivity/--no-sensitivity",
    default=True,
    show_default=True,
    help="Also vary each fitted or assumed constant over its range (most of the time).",
)
@click.option(
    "--inference",
    is_flag=True,
    help="FP8, decode steps, split keys and pages instead: published figures beside ours.",
)
@click.option("--pages", is_flag=True, help="Of these only the section on pages of any size.")
@click.option(
    "--write", is_flag=True, help="Write the page in docs/validation too, in this repository."
)
@options.json_option()
def validate(
    as_json: bool, sensitivity: bool, write: bool, inference: bool, pages: bool
) -> None:  # fmt: skip
    """Simulate the published B200 rows and print the errors.

    Published and simulated throughput, which rows were used to fit constants, mean and worst
    error beside those of simple models, what each constant is worth, and what each idea of
    FlashAttention-4 buys. About a minute on two cores.
    """
    if inference or pages:
        flag = "--inference" if inference else "--pages"
        options.refuse_beside(
            flag, "inference", "pages", "write", "as_json", instead="varies nothing"
        )
    validation = _load()
    if write:
        with refusals():
            validation.repository()  # before minutes of work
    if inference or pages:
        _inference(validation, as_json, write, alone=pages and not inference)
        return
    with Steps("simulating the published rows") as steps, refusals():
        result = validation.run_validation(progress=steps, sensitivity=sensitivity)
    facts = dict(result.to_dict())
    if write:
        with refusals():
            written = validation.write_page(result)
        facts["file"] = str(written or PAGE)
    if not as_json:
        say(validation.page(result, written=False))
        if write:
            say(f"wrote {facts['file']}")
    if facts.get("ok") is False:
        raise CheckFailed("the errors are larger than what is wanted", facts)
    if as_json:
        print_json(facts)


def _inference(validation: Any, as_json: bool, write: bool, alone: bool) -> None:
    """The page on inference, or what of it pages of any size are, ``alone``.

    No figure of it decides anything, so there is nothing to fail.
    """
    run, write_page = validation.run_inference, validation.write_inference_page
    if alone:
        run, write_page = validation.run_pages, validation.write_pages_section
    with Steps("simulating calls of inference") as steps, refusals():
        result = run(progress=steps)
        written = write_page(result) if write else None
    if as_json:
        print_json({**result.to_dict(), **({"file": str(written)} if written else {})})
        return
    if alone:
        say(validation.pages_section(result))
    else:
        say(validation.inference_page(result, written=False))
    if written:
        say(f"wrote {written}")


def _load() -> Any:
    try:
        return importlib.import_module("fa4sim.validation")
    except ModuleNotFoundError as error:
        raise BadInput(f"this copy of fa4sim has no validation data ({error})") from None
