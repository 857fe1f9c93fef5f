"""Many what-ifs at once: a grid of problems, designs and machines, and a table of what it gives.

>>> from fa4sim.sweeps import Grid, columns, sweep
>>> grid = Grid({"seqlen_q": (256, 512), "causal": (False, True)}, base={"heads": 2})
>>> table = columns(sweep(grid, jobs=1))
>>> table["seqlen_q"], len(table["tflops"])
([256, 256, 512, 512], 4)
"""

from fa4sim.sweeps.files import columns, write_rows
from fa4sim.sweeps.grid import MOST_POINTS, Grid, Point
from fa4sim.sweeps.rows import Row, best_of
from fa4sim.sweeps.running import sweep

__all__ = ["MOST_POINTS", "Grid", "Point", "Row", "best_of", "columns", "sweep", "write_rows"]
