"""The opcode tables, by family. Add a line to a table and it is tested."""

from tests.emulator.isa.tables import (
    comparisons,
    conversions,
    extremes,
    fields,
    floats,
    halves,
    integers,
    logic,
    packing,
    special,
)

CASES = (
    *integers.CASES,
    *fields.CASES,
    *logic.CASES,
    *comparisons.CASES,
    *floats.CASES,
    *extremes.CASES,
    *halves.CASES,
    *conversions.CASES,
    *packing.CASES,
    *special.CASES,
)
