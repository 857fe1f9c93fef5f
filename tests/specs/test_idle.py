"""Settings that change nothing: the simulation agrees, and those that change something are not."""

import pytest

from fa4sim import B200, B300, H200, Problem, design_for, simulate
from fa4sim.specs.idle import idle_settings, idle_words
from fa4sim.specs.setup import Setup

SPLIT = Problem(seqlen_q=1, seqlen_k=1024, num_splits=2)
PAGES = Problem(seqlen_q=128, seqlen_k=384, page_size=16)
WIDE = Problem(seqlen_q=256, head_dim=192, head_dim_v=128, causal=True)
FP8 = Problem(seqlen_q=384, dtype="e4m3")
PLAIN = Problem(seqlen_q=384)

#: A problem, a machine, a design's changes, a setting, another value of it, a word of the reason;
#: no reason where the setting matters.
CASES = [
    (PLAIN, B200, {}, "page_pointers", "naive", "TMA"),
    (PAGES, B200, {}, "page_pointers", "looped", ""),
    (PLAIN, B300, {}, "exp2_emulated", 2, "exp2_period=0"),
    (PLAIN, B200, {}, "exp2_emulated", 2, ""),
    (PLAIN, B300, {}, "exp2_first_fragment", 1, "exp2_period=0"),
    (PLAIN, B200, {}, "exp2_first_fragment", 2, ""),
    (PLAIN, B200, {}, "exp2_period", 0, ""),
    (PLAIN, B200, {}, "exp2_degree", 5, "degree 3"),
    (PLAIN, B300, {}, "exp2_degree", 5, "exp2_period=0"),
    (PLAIN, B200, {}, "one_m_block", False, "overlap_o_q=False"),
    (WIDE, B200, {"scheduler": "static_persistent"}, "one_m_block", False, "anyway"),
    (WIDE, B200, {}, "one_m_block", False, ""),
    (PLAIN, B200, {}, "dependent_launch", True, "num_splits=1"),
    (SPLIT, B200, {}, "dependent_launch", True, ""),
    (PLAIN, B200, {}, "max_offset", 4, "not time"),
    (FP8, B200, {}, "max_offset", 0, "not time"),
    (PLAIN, B200, {}, "rescale_threshold", 2.0, "above 0"),
    (PLAIN, B200, {}, "rescale_threshold", 0.0, ""),
    (FP8, B200, {}, "rescale_threshold", 0.5, ""),
    (PLAIN, B200, {}, "registers_softmax", 168, "fits"),
    (PLAIN, B200, {}, "registers_correction", 64, "fits"),
    (PLAIN, B200, {}, "registers_other", 24, "fits"),
    (PLAIN, H200, {}, "registers_consumer", 224, "fits"),
    (PLAIN, H200, {}, "registers_load", 32, "fits"),
    (PLAIN, H200, {}, "o_waited_early", False, ""),
    (PLAIN, B200, {}, "kv_stages", 2, ""),
]


@pytest.mark.parametrize("problem, machine, changes, name, value, reason", CASES)
def test_a_setting_is_idle_if_and_only_if_the_run_is_the_same(
    problem, machine, changes, name, value, reason
):
    before = design_for(problem, machine, **changes)
    after = before.replace(problem, machine, **{name: value})
    assert before != after
    for setups in ([Setup(problem, after, machine)],
                   [Setup(problem, one, machine) for one in (before, after)]):  # fmt: skip
        idle = idle_settings([name], setups)
        assert (name in idle) is bool(reason) and reason in idle.get(name, "")
    reports = [simulate(problem, design, machine).report for design in (before, after)]
    a, b = ((r.cycles, r.time_us, r.events, r.units, r.waits) for r in reports)
    assert (a == b) is bool(reason)


@pytest.mark.parametrize(
    "name", ["exp2_degree", "max_offset", "rescale_threshold", "softmax_scale"]
)
def test_what_changes_values_is_not_idle_where_they_are_computed(name):
    setup = Setup(PLAIN, design_for(PLAIN, B200), B200)
    assert name in idle_settings([name], [setup])
    assert not idle_settings([name], [setup], values=True)


def test_a_setting_is_idle_only_if_it_is_in_every_run():
    paged, plain = (Setup(p, design_for(p, B200), B200) for p in (PAGES, PLAIN))
    assert "page_pointers" in idle_settings(["page_pointers"], [plain, plain])
    assert not idle_settings(["page_pointers"], [plain, paged])
    assert idle_words(idle_settings(["page_pointers"], [plain])).startswith(
        "page_pointers has no effect here: K and V come by TMA"
    )
