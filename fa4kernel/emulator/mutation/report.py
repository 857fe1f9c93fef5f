"""A campaign as JSON, and as a section of a Markdown page."""

from __future__ import annotations

import json
import os
import platform
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from fa4kernel.emulator.mutation.campaign import Campaign, Tried
from fa4kernel.emulator.mutation.equivalence import RULES
from fa4kernel.emulator.mutation.known import digest
from fa4kernel.emulator.mutation.trial import OUTCOMES
from fa4kernel.emulator.pages import put
from fa4sim.files import write_whole

#: The section of a page that this module writes stands between these, and one with a name too.
BEGIN, END = "<!-- mutation score{}: begin -->", "<!-- mutation score{}: end -->"
#: A rule that excludes more than this part of the mutants is explained beside its count.
LARGE = 0.1


def to_json(campaigns: Sequence[Campaign]) -> dict[str, Any]:
    """Everything that was found, in plain types."""
    return {
        "machine": machine(),
        "date": date.today().isoformat(),
        "campaigns": [
            {
                "name": c.name,
                "title": c.title,
                "digest": digest(c.problem.ptx),
                "raw": c.raw,
                "adjusted": c.adjusted,
                "seconds": c.seconds,
                "steps": c.steps,
                "options": asdict(c.options),
                "uncovered": [f"{i.line}: {i.text}" for i in c.uncovered],
                "mutants": [_tried(t) for t in c.tried],
            }
            for c in campaigns
        ],
    }


def save(file: Path, campaigns: Sequence[Campaign], keep: bool) -> None:
    """Write a file of :func:`to_json`; it appears whole or not at all.

    Args:
        file: where.
        campaigns: what to tell.
        keep: whether to keep what the file has about other problems.
    """
    found = to_json(campaigns)
    if keep and file.exists():
        names = [c.name for c in campaigns]
        old = json.loads(file.read_text())["campaigns"]
        found["campaigns"] += [one for one in old if one["name"] not in names]
    write_whole(file, lambda path: path.write_text(json.dumps(found, indent=1)))


def _tried(tried: Tried) -> dict[str, Any]:
    return {
        "kind": tried.mutant.kind,
        "change": tried.mutant.change,
        "line": tried.mutant.line,
        "original": tried.mutant.original,
        "source": tried.mutant.source,
        "rule": tried.rule,
        "remark": tried.remark,
        "seconds": round(tried.seconds, 3),
        **asdict(tried.outcome),
    }


def machine() -> str:
    """This computer and its software, in a line."""
    return (
        f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}, Python "
        f"{platform.python_version()}, NumPy {np.__version__}"
    )


def section(campaigns: Sequence[Campaign], command: str, name: str = "") -> str:
    """The section of the page, between its two marks.

    Args:
        campaigns: what to tell.
        command: that writes it again.
        name: of the section, if the page has others.
    """
    begin, end = _marks(name)
    lines = [
        begin,
        f"## Mutation score{f': {name}' * bool(name)}",
        "",
        f"Written by `{command}` on {date.today().isoformat()} ({machine()}). Don't edit it; run "
        "the command.",
        "",
        "One synchronisation instruction of a correct kernel is removed, altered or moved at a "
        "time. A mutant is *detected* by a report that names the place (a deadlock, a hazard, an "
        "invalid state) or by a wrong output; a time-out is no detection. *Raw* is detected out of "
        "all. *Adjusted* leaves out survivors that a rule below shows to behave as the original.",
        "",
        *_about_advisories(campaigns),
        "| kernel | mutants | detected | raw | excluded | adjusted | survivors |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for c in campaigns:
        sampled = f" (a sample, seed {c.options.seed})" if c.options.sample else ""
        lines.append(
            f"| {c.title}{sampled} | {len(c.tried)} | {c.detected} | {_percent(c.raw)} "
            f"| {c.excluded} | {_percent(c.adjusted)} | {len(c.survivors)} |"
        )
    for c in campaigns:
        lines += ["", *_campaign(c)]
    lines += ["", "### Rules of exclusion", "", *_rules(campaigns), end]
    return "\n".join(lines) + "\n"


def _about_advisories(campaigns: Sequence[Campaign]) -> list[str]:
    """What `strict-isa` adds, if it was asked for."""
    if not any(c.options.checks == "strict-isa" for c in campaigns):
        return []
    return [
        "With `strict-isa` the emulator also advises where a rule of the manual is broken that "
        "hardware is known to be kinder about, as about fences of tensor memory. An *advisory* "
        "that the original does not get counts as detection: the mutant breaks a rule that it "
        "keeps.",
        "",
    ]


def _percent(part: float) -> str:
    return f"{100 * part:.1f} %"


def _campaign(c: Campaign) -> list[str]:
    schedules = ", ".join(map(str, c.options.schedules))
    kinds = list(dict.fromkeys(t.mutant.kind for t in c.tried))
    shown = [o for o in OUTCOMES if any(t.outcome.result == o for t in c.tried)]
    lines = [
        f"### {c.title[0].upper()}{c.title[1:]}",
        "",
        f"Schedules (until one detects): {schedules}; checks: {c.options.checks}; {c.seconds:.0f} s"
        f" with {c.options.jobs} process{'es' * (c.options.jobs > 1)}. The original is right and "
        "unreported under all.",
        "",
        f"| kind | mutants | {' | '.join(shown)} | excluded |",
        f"| --- | ---: |{' ---: |' * (len(shown) + 1)}",
    ]
    for kind in kinds:
        mine = [t for t in c.tried if t.mutant.kind == kind]
        counts = Counter(t.outcome.result for t in mine)
        cells = " | ".join(str(counts[o]) for o in shown)
        excluded = sum(t.rule is not None for t in mine)
        lines.append(f"| {kind} | {len(mine)} | {cells} | {excluded} |")
    by = Counter(t.outcome.schedules for t in c.tried if t.outcome.detected)
    lines += ["", "Detected by the first schedule: " + f"{by[1]} of {c.detected}."]
    if c.uncovered:
        lines += ["", "Synchronisation instructions that never ran:", ""]
        lines += [f"- line {i.line} `{i.text}`" for i in c.uncovered]
    else:
        lines += ["", "Every synchronisation instruction ran."]
    if c.survivors:
        lines += ["", "Survivors that no rule excludes:", ""]
        lines += [f"- {_describe(t)}" for t in c.survivors]
    return lines


def _describe(tried: Tried) -> str:
    mutant = tried.mutant
    source = f" ({mutant.source})" if mutant.source else ""
    result = "" if tried.outcome.result == "survived" else f": {tried.outcome.result}"
    why = f". {tried.remark}" if tried.remark else ""
    return f"{mutant.name}{source}: `{_short(mutant.original)}`{result}{why}"


def _short(text: str, most: int = 90) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _rules(campaigns: Sequence[Campaign]) -> list[str]:
    names = " | ".join(c.name for c in campaigns)
    lines = [
        f"| rule | why | {names} |",
        f"| --- | --- |{' ---: |' * len(campaigns)}",
    ]
    for name, rule in RULES.items():
        counts = [sum(t.rule == name for t in c.tried) for c in campaigns]
        if any(counts):
            lines.append(f"| {name} | {rule.why} | {' | '.join(map(str, counts))} |")
    for name, rule in RULES.items():
        for c in campaigns:
            part = sum(t.rule == name for t in c.tried) / len(c.tried)
            if part > LARGE:
                lines += ["", f"*{name}* excludes {_percent(part)} of {c.name}: {rule.more}"]
    return lines


def _marks(name: str) -> tuple[str, str]:
    more = f", {name}" if name else ""
    return BEGIN.format(more), END.format(more)


def write(page: Path, text: str, name: str = "") -> None:
    """Put a section into a page, in place of the one it has; the rest stays.

    Args:
        page: Markdown; made if it doesn't exist.
        text: what :func:`section` gives.
        name: of the section, as it was given there.
    """
    put(page, text, *_marks(name))
