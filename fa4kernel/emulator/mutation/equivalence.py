"""Mutants that behave as the original does, by rules that look at what the original did.

A rule is asked only about mutants that survived, and only about the original: what it executes,
who waits for what, who knows what already. None looks at how the mutant fared.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fa4kernel.emulator.launch import MOST_SHARED_BYTES
from fa4kernel.emulator.mutation.coverage import place_of
from fa4kernel.emulator.mutation.evidence import Evidence
from fa4kernel.emulator.mutation.moves import guarded
from fa4kernel.emulator.mutation.mutant import Mutant
from fa4kernel.emulator.mutation.probe import differs


@dataclass(frozen=True)
class Rule:
    """Why some survivors are no mutants.

    Attributes:
        why: in a sentence, for the page.
        holds: whether it holds for a mutant.
        more: a longer explanation, for the page, should the rule exclude many.
    """

    why: str
    holds: Callable[[Mutant, Evidence], bool]
    more: str = ""


def _never_ran(mutant: Mutant, evidence: Evidence) -> bool:
    return mutant.index not in evidence.usage.ran


def _unused_barrier(mutant: Mutant, evidence: Evidence) -> bool:
    made = evidence.usage.inits.get(evidence.place(mutant), set())
    return mutant.kind == "init" and not made & evidence.usage.used


def _nobody_waits(mutant: Mutant, evidence: Evidence) -> bool:
    if mutant.kind == "init" and mutant.change.startswith("count"):
        last = evidence.usage.last_awaited()
        return all(last.get(b, -1) < 0 for b in evidence.usage.inits[evidence.place(mutant)])
    counting = mutant.kind in ("arrive", "expect", "commit", "copy", "moved arrival")
    return counting and evidence.idle(evidence.place(mutant))


def _groups(mutant: Mutant, evidence: Evidence) -> bool:
    groups = mutant.kind in ("group", "group wait")
    return groups and evidence.idle_until_all_waited(mutant.index)


def _needless(mutant: Mutant, evidence: Evidence) -> bool:
    needless = evidence.heard.needless
    if mutant.kind == "moved arrival":
        code, first = evidence.sites.code, min(edit.index for edit in mutant.edits)
        over = [i for i in code[first : mutant.index] if guarded(i) is not None]
        return bool(over) and all(place_of(i) in needless for i in over)
    waits = mutant.kind == "wait" or mutant.change == "sync → arrive"
    return waits and evidence.place(mutant) in needless


def _later(mutant: Mutant, evidence: Evidence) -> bool:
    if mutant.kind != "wait" or mutant.change != "on the next barrier":
        return False
    phases = evidence.usage.polls.get(evidence.place(mutant), set())
    waited = [(barrier, phase) for barrier, phase in phases if phase >= 0]
    return bool(waited) and all(evidence.heard.later(b, p, b + 1) for b, p in waited)


def _others_fence(mutant: Mutant, evidence: Evidence) -> bool:
    """Who reads what was written before the fence waits for another arrival behind it."""
    code, heard, usage = evidence.sites.code, evidence.heard, evidence.usage
    if mutant.kind != "moved arrival":
        return False
    fence = min(edit.index for edit in mutant.edits)
    if code[fence].opcode != "fence" or not code[fence].has("proxy"):
        return False
    behind = evidence.arrivals_behind(fence, but=mutant.index)
    told = {barrier for place in behind for barrier in usage.told[place]}
    written = [heard.memory.written[slot] for slot in usage.arrivers[evidence.place(mutant)]]
    readers = [
        slot
        for slot, pieces in heard.memory.fetched.items()
        if any((pieces & each).any() for each in written)
    ]
    mine = usage.told[evidence.place(mutant)]
    return all(
        any(slot in usage.waiters[b] for b in told - mine)
        and not any(slot in usage.waiters[b] for b in mine)
        for slot in readers
    )


def _fenced_again(mutant: Mutant, evidence: Evidence) -> bool:
    return mutant.kind == "fence" and evidence.fenced_again(mutant.index)


def _stricter(mutant: Mutant, evidence: Evidence) -> bool:
    return mutant.kind == "named barrier" and mutant.change == "arrive → sync"


def _renamed(mutant: Mutant, evidence: Evidence) -> bool:
    if mutant.kind != "named barrier" or mutant.change != "id + 1":
        return False
    meetings = evidence.usage.meetings
    mine = [place for place, lines in meetings.items() if evidence.place(mutant) in lines]
    alone = all(meetings[place] == {evidence.place(mutant)} for place in mine)
    return bool(mine) and alone and not any((cta, n + 1) in meetings for cta, n in mine)


def _only_began(mutant: Mutant, evidence: Evidence) -> bool:
    if mutant.kind != "moved arrival" or evidence.place(mutant) not in evidence.usage.arrivers:
        return False
    return evidence.place(mutant) not in evidence.heard.late


def _ordered_later(mutant: Mutant, evidence: Evidence) -> bool:
    if mutant.kind != "moved arrival" or not mutant.change.endswith(("load", "store")):
        return False
    code, first = evidence.sites.code, min(edit.index for edit in mutant.edits)
    over = [i for i in code[first : mutant.index] if guarded(i) in ("load", "store")]
    return bool(over) and not any(place_of(i) in evidence.heard.memory.tight for i in over)


def _elects(mutant: Mutant, evidence: Evidence) -> bool:
    if mutant.kind == "warp barrier":
        return evidence.elects_next(mutant.index)
    if mutant.kind != "moved arrival":
        return False
    dropped = [edit.index for edit in mutant.edits if edit.text is None]
    code = evidence.sites.code
    warp = [i for i in dropped if code[i].opcode == "bar" and code[i].has("warp")]
    return bool(warp) and evidence.elects_next(warp[0])


def _registers(mutant: Mutant, evidence: Evidence) -> bool:
    return mutant.kind == "registers"


def _permit(mutant: Mutant, evidence: Evidence) -> bool:
    alone = 2 * evidence.original.problem.prepare().launch.shared_bytes > MOST_SHARED_BYTES
    return mutant.kind == "allocation" and mutant.change == "permit kept" and alone


def _same_value(mutant: Mutant, evidence: Evidence) -> bool:
    return mutant.kind in ("phase", "ring") and not differs(evidence.original, mutant)


def _advisory_fence(mutant: Mutant, evidence: Evidence) -> bool:
    return mutant.kind == "tcgen05 fence"


RULES: dict[str, Rule] = {
    "never ran": Rule("the instruction is not executed in this problem", _never_ran),
    "unused barrier": Rule(
        "an mbarrier is initialised that nobody waits on, arrives on or copies to", _unused_barrier
    ),
    "nobody waits": Rule(
        "it counts in phases of an mbarrier that nobody waits for, then or later; or whose only "
        "wait makes no difference (see *known anyway*)",
        _nobody_waits,
    ),
    "groups": Rule(
        "all bulk copies are waited for before this thread tells anything that somebody waits for",
        _groups,
    ),
    "known anyway": Rule(
        "without this wait, all threads would know the same, by the clocks of the checks, whenever "
        "they access memory: what it tells reaches them in other ways (the phase itself aside, "
        "which the checks of phases look after)",
        _needless,
    ),
    "later barrier": Rule(
        "the phase of the next barrier tells all that the right one does: the same threads arrive "
        "there later",
        _later,
    ),
    "other fence": Rule(
        "who reads asynchronously what was written before this proxy fence waits for another "
        "arrival behind it",
        _others_fence,
    ),
    "fenced again": Rule(
        "the same fence comes again before this thread tells anybody anything", _fenced_again
    ),
    "stricter": Rule("a warp that only arrived waits as well: more order, not less", _stricter),
    "renamed": Rule(
        "all who meet at this named barrier do so here, and meet at another that nobody uses",
        _renamed,
    ),
    "elects anyway": Rule(
        "`elect.sync` on all lanes comes next, which holds the lanes of the warp together", _elects
    ),
    "nothing precedes": Rule(
        "the thread that arrives has touched no memory yet that it could tell others about",
        _only_began,
    ),
    "ordered later": Rule(
        "the arrival moves over accesses that later arrivals of the warp order as well, whenever "
        "another access meets them: by the clocks of the checks",
        _ordered_later,
    ),
    "advisory fence": Rule(
        "a fence of tensor memory that the checks miss as advisory at most: hardware keeps the "
        "order that it asks for, and the published kernel has none of them",
        _advisory_fence,
    ),
    "registers": Rule(
        "PTX doesn't say how many registers a warp needs; the pool was large enough", _registers
    ),
    "permit": Rule(
        "the permit to allocate tensor memory matters to other CTAs of the SM: there are none, for "
        "want of shared memory",
        _permit,
    ),
    "same value": Rule(
        "the altered instruction gives the value of the original whenever it runs here",
        _same_value,
    ),
}


def excuse(mutant: Mutant, evidence: Evidence) -> str | None:
    """The name of the first rule by which a surviving mutant counts as equivalent, if one does."""
    for name, rule in RULES.items():
        if rule.holds(mutant, evidence):
            return name
    return None
