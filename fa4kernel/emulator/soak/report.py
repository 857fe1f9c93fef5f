"""A soak as a section of a Markdown page."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from pathlib import Path

from fa4kernel.emulator.mutation.report import machine
from fa4kernel.emulator.pages import put
from fa4kernel.emulator.soak.runs import Soak

#: The section of a page that this module writes stands between these.
BEGIN, END = "<!-- soak: begin -->", "<!-- soak: end -->"
#: Different reports that the page quotes for one kernel.
MOST = 5


def section(soaks: Sequence[Soak], command: str, checks: str) -> str:
    """The section, between its two marks.

    Args:
        soaks: what to tell.
        command: that writes it again.
        checks: that were on.
    """
    lines = [
        BEGIN,
        "## Correct kernels under many schedules",
        "",
        f"Written by `{command}` on {date.today().isoformat()} ({machine()}). Don't edit it; run "
        "the command.",
        "",
        "Each kernel runs in lock step, at random from seeds, and against adversaries that delay "
        "or hurry one unit, warp or CTA as much as the rules allow. *Reports* counts the schedules "
        f"in which anything was reported (checks: {checks}) that isn't listed below as known, or "
        "in which the output was wrong; *outputs* how many outputs there were, bit for bit.",
        "",
        "| kernel | what it does | schedules | reports | outputs | s a run |",
        "| --- | --- | ---: | ---: | ---: | ---: |",
    ]
    for each in soaks:
        reported = sum(bool(run.wrong) for run in each.runs)
        mean = each.seconds / max(1, len(each.runs))
        lines.append(
            f"| {each.name} | {each.what} | {len(each.runs)} | {reported} | {each.outputs} "
            f"| {mean:.1f} |"
        )
    lines += _known(soaks)
    for each in soaks:
        if not each.good:
            lines += ["", f"{each.name}:", "", *_wrong(each)]
    return "\n".join([*lines, END]) + "\n"


def _known(soaks: Sequence[Soak]) -> list[str]:
    lines = []
    for each in soaks:
        for kind, count in each.known.items():
            lines.append(
                f"- {each.name}: `{kind}` in {count} of {len(each.runs)}. {each.reasons[kind]}"
            )
    return ["", "Reports that these kernels really deserve:", "", *lines] if lines else []


def _wrong(soak: Soak) -> list[str]:
    lines = []
    seen: set[str] = set()
    for schedule, text in soak.wrong:
        first = text.splitlines()[0]
        if first not in seen and len(seen) < MOST:
            lines.append(f"- schedule {schedule}: {first}")
        seen.add(first)
    if len(seen) > MOST:
        lines.append(f"- and {len(seen) - MOST} more")
    if soak.outputs > 1:
        lines.append(f"- {soak.outputs} different outputs")
    return lines


def write(page: Path, text: str) -> None:
    """Put the section into a page, in place of the one it has; the rest stays.

    Args:
        page: Markdown; made if it doesn't exist.
        text: what :func:`section` gives.
    """
    put(page, text, BEGIN, END)
