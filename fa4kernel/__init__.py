"""The attention kernel in CuTe DSL, and the PTX emulator that checks it without a GPU.

Neither is written yet. The package may import `fa4sim`, never the reverse.
"""
