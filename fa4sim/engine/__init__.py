"""The machinery of a detailed simulation: clock, barriers, units, tensor pipe, memory, warps."""
