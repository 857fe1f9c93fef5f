"""Kernels for Blackwell GPUs on a computer that has none: a PTX emulator, and kernels to try it on.

`fa4kernel.emulator` executes and checks compiled kernels and needs NumPy only; those of
`fa4kernel.examples` are written in CuTe DSL, which is an extra. An attention kernel of our own is
not here yet. The package may import `fa4sim`, never the reverse.
"""
