"""Soak: correct kernels under many orders of events, of which none may be reported.

Each kernel runs in lock step, at random from many seeds, and against every adversary: one unit,
warp or CTA after the other delayed and hurried as much as the rules allow. Nothing may be reported,
and the outputs must be the same to the last bit.

| module | what it has |
|---|---|
| `subject` | what is run: kernels, one after the other, and their outputs |
| `orders` | the schedules |
| `runs` | all of them, by several processes |
| `report` | the section of a page |

    python -m fa4kernel.emulator.soak --page docs/validation/emulator.md
"""
