"""Part 4: both sides do the same amount of each kind of work."""

from __future__ import annotations

from fa4kernel.crosscheck.record import Record
from fa4kernel.crosscheck.verdict import Part

#: Work that both sides count, and what one of it is.
AMOUNTS = {
    "exponentials on MUFU": "of scores and of the factors of later steps, by softmax warps",
    "exponentials on FMA": "by polynomial",
    "TMEM bytes loaded": "tcgen05.ld: S, O to rescale, O to finish",
    "TMEM bytes stored": "tcgen05.st: P, rescaled O",
    "QK FLOPs": "two for each multiplication, masked or not",
    "PV FLOPs": "two for each multiplication, masked or not",
    "bytes loaded": "TMA loads of Q, K and V, whole boxes",
    "bytes stored": "O: whole boxes by TMA, or the rows that exist",
    "rescales": "of O, by a warp of the correction",
    "rescale votes": "steps in which a warp of the correction looks whether one is needed",
}

OWN_RESCALES = "rescales with the simulator's own scores"


def compare_mix(simulator: Record, fed: Record, kernel: Record) -> Part:
    """Compare amounts; those that depend on scores with the simulator fed the kernel's.

    Args:
        simulator: with its own scores.
        fed: with the kernel's.
        kernel: the kernel.
    """
    part = Part("instruction mix")
    for name in AMOUNTS:
        part.equal(name, fed.amounts[name], kernel.amounts[name])
        part.figures[name] = {"simulator": fed.amounts[name], "kernel": kernel.amounts[name]}
    own, theirs = simulator.amounts["rescales"], kernel.amounts["rescales"]
    votes = kernel.amounts["rescale votes"]
    part.figures[OWN_RESCALES] = own
    part.notes.append(
        f"of {votes:,} votes the kernel rescales after {theirs:,}, the simulator with its own "
        f"scores after {own:,}: {own - theirs:+,}"
    )
    return part
