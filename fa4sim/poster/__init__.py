"""One page to print: roles, barriers and memories of the forward kernel, from a design itself.

>>> from fa4sim import B200, Design, Problem
>>> from fa4sim.poster import poster
>>> problem = Problem(seqlen_q=4096)
>>> poster(problem, Design.for_problem(problem, B200), B200).fa4sim_title
'FlashAttention-4, forward, on a B200'
"""

from fa4sim.poster.page import poster

__all__ = ["poster"]
