"""Who ended a wait."""

import numpy as np

from fa4sim.views.causes import Completions


def test_every_wait_for_a_barrier_has_a_cause_just_before_it_ends(trace):
    completions = Completions(trace)
    resume = 200  # cycles: what a resumed warp, or a remote arrival, may take at most
    waits = trace.wait.where(kind="barrier")
    found = 0
    for wait in waits.where(np.asarray(waits["phase"] > 0)).rows():
        if wait["on"] == "clc_full":
            continue
        cause = completions.find(wait["on"], wait["stage"], wait["phase"], wait["cta"], wait["end"])
        if cause is None:  # a pair's other CTA waits on its own barrier or on the leader's
            cause = completions.find(wait["on"], wait["stage"], wait["phase"], 0, wait["end"])
        assert cause is not None, wait
        assert wait["end"] - max(cause.time, wait["start"]) <= resume, (wait, cause)
        found += 1
    assert found > 50


def test_the_last_arrival_completes_a_phase(causal):
    causes = Completions(causal).of("P_full_O_rescaled", 0, 0)
    arrivals = causal.arrive.where(barrier="P_full_O_rescaled", stage=0)
    for phase, cause in causes.items():
        assert cause.time == arrivals.where(phase=phase)["time"].max()
    assert {cause.role for cause in causes.values()} <= {"softmax0", "correction"}


def test_bytes_complete_a_load(pair):
    causes = Completions(pair).of("load_KV_full", 0, 0)
    loads = pair.span.where(role="tma", stage=0, op=("load K", "load V"))
    for phase, cause in causes.items():
        last = max(np.sort(loads.where(cta=cta)["end"])[phase] for cta in (0, 1))
        assert (cause.role, cause.time) == ("tma", last)
