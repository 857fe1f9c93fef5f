"""Mutation score: how many broken kernels the emulator finds out.

A correct kernel is broken in one place at a time: a synchronisation instruction is removed,
altered or moved. Each such *mutant* runs until the emulator reports it or its output is wrong.

| module | what it has |
|---|---|
| `mutants` | all mutants of a kernel; `barriers`, `meetings`, `moves`, `counters` make them |
| `mutant` | one of them: as text, and as a changed program |
| `problem` | what is run: a kernel and how to launch it |
| `trial` | one mutant, tried under a few schedules |
| `campaign` | all of them, by several processes |
| `known` | what an earlier campaign found, which need not be tried again |
| `coverage`, `knowledge` | what the original does: what runs, who waits for what, who knows what |
| `equivalence` | rules by which a survivor counts as no mutant, each about the original |
| `report` | the page and the file |

    python -m fa4kernel.emulator.mutation package.module:problem --page docs/validation/emulator.md
"""
