"""The second kernel of split-KV, in CuTe DSL: partial results of the splits become one.

`kernel` is the kernel, `config` what is fixed when it is compiled, `launch` how it is started
behind the forward kernel (`fa4kernel.forward`, with `Config.split`), which leaves it partial O and
LSE. The arithmetic, step by step, is `fa4sim.numerics.combine`'s.
"""
