"""What a trace says: waits, gaps, overlap, the critical path, the bottleneck, bounds, differences.

Every function takes a :class:`fa4sim.trace.Trace` and knows nothing of how it came about.

>>> from fa4sim import Problem, simulate
>>> from fa4sim.analysis import critical_path, unexplained_gaps
>>> trace = simulate(Problem(seqlen_q=512), scope="cta").trace
>>> unexplained_gaps(trace), critical_path(trace).cycles == trace.end
([], True)
"""

from fa4sim.analysis.bottleneck import Evidence, Verdict, gather, verdict
from fa4sim.analysis.compare import Comparison, Difference, compare, describe, format_comparison
from fa4sim.analysis.critical_path import (
    CriticalPath,
    Segment,
    by_kind,
    chain,
    critical_path,
    format_path,
)
from fa4sim.analysis.gaps import Gap, format_gaps, unexplained_gaps
from fa4sim.analysis.meanings import barrier_means
from fa4sim.analysis.overlap import (
    Overlap,
    format_overlap,
    overlap,
    overlap_sentence,
    overlap_table,
)
from fa4sim.analysis.roofline import Rates, Work, binding, block_work, bounds, format_bounds
from fa4sim.analysis.steady import (
    OpDuration,
    SteadyState,
    format_durations,
    op_durations,
    steady_state,
)
from fa4sim.analysis.waits import WaitRow, format_waits, wait_shares, wait_table

__all__ = [
    "Comparison",
    "CriticalPath",
    "Difference",
    "Evidence",
    "Gap",
    "OpDuration",
    "Overlap",
    "Rates",
    "Segment",
    "SteadyState",
    "Verdict",
    "WaitRow",
    "Work",
    "barrier_means",
    "binding",
    "block_work",
    "bounds",
    "by_kind",
    "chain",
    "compare",
    "critical_path",
    "describe",
    "format_bounds",
    "format_comparison",
    "format_durations",
    "format_gaps",
    "format_overlap",
    "format_path",
    "format_waits",
    "gather",
    "op_durations",
    "overlap",
    "overlap_sentence",
    "overlap_table",
    "steady_state",
    "unexplained_gaps",
    "verdict",
    "wait_shares",
    "wait_table",
]
