"""How fast the PTX emulator is on this machine, for `docs/benchmarks.md`.

It runs the official FlashAttention-4 forward kernel, which must be installed (`make official`
builds its environment); without it these measurements say so and measure nothing.
"""
