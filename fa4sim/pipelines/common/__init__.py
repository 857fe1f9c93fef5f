"""What the pipelines of all machines share: a CTA's units and barriers, a cluster, a role.

The table of barriers, the tiles, the whole GPU, the fast-forward and the diagnosis of deadlocks are
those of :mod:`fa4sim.pipelines.fa4`, which was there first; they ask a cluster for what differs.
"""
