"""How fast our kernels are on the GPU that is here, beside others, and what was measured so far.

`points` says what is measured, `kernels` compiles it (here or elsewhere), `measure` runs it, and
`stored` has what an H200 gave.
"""
