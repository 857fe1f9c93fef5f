"""A grid: which points it has, and what is refused before anything is run."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fa4sim import B200, B300, Problem, design_for
from fa4sim.sweeps import Grid, columns, sweep
from fa4sim.sweeps.grid import digest
from tests.sweeps.grids import TINY, stages


def test_the_last_axis_varies_fastest():
    grid = Grid({"seqlen_q": (256, 512), "kv_stages": (2, 3, 4)})
    points = list(grid.points())
    assert len(grid) == len(points) == 6
    assert [point.index for point in points] == list(range(6))
    assert [tuple(point.settings.values()) for point in points[:4]] == [
        (256, 2), (256, 3), (256, 4), (512, 2)
    ]  # fmt: skip


def test_a_point_is_what_the_kernel_would_choose_with_its_settings_changed():
    grid = Grid({"seqlen_q": (512, 4096)}, {"heads": 2, "exp2_period": 0}, "b300")
    for point in grid.points():
        problem = Problem(heads=2, seqlen_q=point.settings["seqlen_q"])
        assert point.setup.problem == problem and point.setup.machine is B300
        assert point.setup.design == design_for(problem, B300, exp2_period=0)


def test_machines_and_their_constants_are_axes_too():
    grid = Grid({"machine": ("b200", "b300"), "machine.clock_hz": (1e9, 2e9)}, TINY)
    machines = [point.setup.machine for point in grid.points()]
    assert [(machine.name, machine.clock_hz) for machine in machines] == [
        ("B200", 1e9), ("B200", 2e9), ("B300", 1e9), ("B300", 2e9)
    ]  # fmt: skip


def test_lengths_by_sequence_take_the_place_of_defaults_only():
    lengths = {"seqlens_q": ((128, 256), (512,))}
    free = Grid(lengths, defaults={"batch": 4, "heads": 2, "seqlen_q": 8192})
    assert [p.setup.problem.batch for p in free.points()] == [2, 1]
    assert all(p.setup.problem.heads == 2 for p in free.points())
    wanted = Grid(lengths, {"batch": 4})
    assert all(p.setup is None and "batch=4" in p.reason for p in wanted.points())


def test_numpy_ranges_are_values_like_others():
    grid = Grid({"seqlen_q": np.arange(256, 1024, 256), "machine.clock_hz": np.array([1.5e9])})
    assert grid.axes == {"seqlen_q": (256, 512, 768), "machine.clock_hz": (1.5e9,)}
    assert all(type(value) is int for value in grid.axes["seqlen_q"])


@pytest.mark.parametrize(
    "axes, base, words",
    [
        ({}, {}, "without axes"),
        ({"nothing": (1, 2)}, {}, "'nothing'"),
        ({"kv_stage": (2,)}, {}, "did you mean 'kv_stages'"),
        ({"kv_stages": (2, "many")}, {}, "kv_stages='many' must be a whole number"),
        ({"kv_stages": ()}, {}, "kv_stages has no values"),
        ({"kv_stages": (2, 3, 2)}, {}, "the value 2 twice"),
        ({"kv_stages": (4, 4.0)}, {}, "the value 4 twice"),
        ({"kv_stages": 3}, {}, "kv_stages=3 must be a list"),
        ({"scheduler": "lpt"}, {}, "scheduler='lpt' must be a list"),
        ({"kv_stages": {2, 3}}, {}, "must be a list"),
        ({"kv_stages": (2, 3)}, {"kv_stages": 4}, "given twice: 4"),
        ({"kv_stages": (2, 3)}, {"heads": "many"}, "heads='many'"),
        ({"machine": ("b200", 3)}, {}, "machine=3"),
        ({"machine": ("b200", "b100")}, {}, "'b100'"),
        ({"machine.warps": (1,)}, {}, "no constant 'warps'"),
        ({"seqlen_q": range(1, 101), "kv_stages": range(2, 103)}, {}, "10,100 variants"),
        ({"seqlen_q": range(1, 10**30)}, {}, "at most 10,000"),
        ({1: (2, 3)}, {}, "1 is no name of a field"),
        ({"seqlens_q": ([[1], 2], [3, 4], [[1], 2])}, {}, "twice"),
    ],
)
def test_a_bad_grid_is_refused_and_quoted(axes, base, words):
    with pytest.raises(ValueError, match=words.replace("(", r"\(")):
        Grid(axes, base)


def test_machines_and_defaults_of_a_grid_are_checked():
    with pytest.raises(ValueError, match="machine=None must be a Machine"):
        Grid({"kv_stages": (2, 3)}, machine=None)
    with pytest.raises(ValueError, match="'kv_stages' is none"):
        Grid({"heads": (2, 3)}, defaults={"kv_stages": 2})


@pytest.mark.parametrize("given, words", [({"grid": {}}, "grid={}"), ({"seed": 2.5}, "seed=2.5")])
def test_what_is_no_grid_or_no_seed_is_refused(given, words):
    with pytest.raises(ValueError, match=words):
        sweep(**{"grid": stages(), **given})


def test_a_point_that_is_no_problem_is_a_row_with_the_reason():
    rows = sweep(Grid({"heads": (4, 6)}, {"kv_heads": 4, "seqlen_q": 256}), jobs=1)
    assert [row.status for row in rows] == ["ok", "refused"]
    assert "heads=6 is no multiple" in rows[1].reason and rows[1].report is None


def test_a_grid_of_which_nothing_can_run_gives_the_reasons():
    with pytest.raises(ValueError, match=r"none of the 2 variants can run:\n  this design needs"):
        sweep(stages(30, 31))


def test_columns_are_of_equal_length_with_gaps():
    table = columns(sweep(stages(2, 30), jobs=1))
    assert {len(values) for values in table.values()} == {2}
    assert table["kv_stages"] == [2, 30] and table["status"] == ["ok", "refused"]
    assert table["cycles"][0] > 0 and table["cycles"][1] is None
    assert 0 < table["busy_tensor"][0] < 1 and table["busy_tensor"][1] is None


changed = st.sampled_from([
    {"axes": {"kv_stages": (2, 4)}}, {"base": {"seqlen_q": 512}}, {"base": {"causal": True}},
    {"machine": "b300"}, {"machine": B200.with_constants(clock_hz=1.5e9)},
    {"axes": {"kv_stages": (3, 2)}}, {"defaults": {"heads": 2}},
])  # fmt: skip


@given(changed)
def test_a_digest_names_what_is_run(change):
    one = {"axes": {"kv_stages": (2, 3)}, "base": {"seqlen_q": 256}}
    same = digest(list(Grid(**one).points()))
    assert same == digest(list(Grid(**one).points()))
    assert same != digest(list(Grid(**{**one, **change}).points()))
