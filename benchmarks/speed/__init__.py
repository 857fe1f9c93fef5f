"""How fast the simulator is on this machine, for `docs/benchmarks.md`.

Every module measures one thing and returns a `Measurement`; `benchmarks.run` runs them all and
writes the page.
"""
