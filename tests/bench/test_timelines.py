"""Stored traces of an H200, their phases beside the simulator's, and the command for them."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from click.testing import CliRunner

from fa4kernel.bench.stored_traces import FILE, POINTS, Measured, pack, stored_traces, unpack
from fa4kernel.bench.timelines import Timelines, draw, rows_of, timelines, untraced_block
from fa4kernel.bench.timelines_page import section
from fa4kernel.cli.main import main
from fa4kernel.hopper.config import STAMPS
from fa4kernel.hopper.recording import in_emulator
from fa4kernel.hopper.simulated import simulated_stamps
from fa4kernel.hopper.traced import durations, from_first, load_durations, shared_softmax
from fa4sim import H200, simulate
from fa4sim.trace import Trace
from fa4sim.views import align

pytest.importorskip("matplotlib", reason="needs drawing: pip install 'fa4sim[viz]'")

FULL = stored_traces()["d128 full 4096 b8 h16"]


@pytest.fixture(scope="module")
def held() -> Timelines:
    return timelines(FULL)


def test_the_stored_traces_are_whole_and_small():
    from importlib import resources

    place = resources.files("fa4kernel.bench") / "data" / FILE
    assert len(place.read_bytes()) < 300_000
    assert len(stored_traces()) == 5
    for found in stored_traces().values():
        assert found.about["device"] == "NVIDIA H200" and found.about["date"]
        assert "ptxas moves the wait for O" in found.about["note"]
        assert found.stamps.shape[:2] == (2, 1 + found.cfg.consumers)
        rows = found.stamps[:, 1:, 1:32].reshape(-1, len(STAMPS))[:, :10]
        assert (rows > 0).all() and (np.diff(rows, axis=1) > 0).all()


def test_means_over_all_ctas_are_near_those_of_the_stored_ones():
    for found in stored_traces().values():
        near = {name: took.mean() for name, took in durations(found.cfg, found.stamps).items()}
        assert near.keys() == found.means.keys()
        assert sum(near.values()) == pytest.approx(sum(found.means.values()), rel=0.02)


def test_what_is_packed_comes_back(tmp_path):
    again = unpack(pack([FULL]), [FULL.point])[FULL.point.name]
    assert np.array_equal(again.stamps, FULL.stamps)
    assert again.means == FULL.means and again.about == FULL.about
    anew = Measured.of(FULL.point, FULL.stamps + 1000 * (FULL.stamps > 0), FULL.about)
    assert np.array_equal(anew.stamps, FULL.stamps)


def test_the_clock_may_begin_again_in_between():
    stamps = np.array([[2**31 - 5, 0], [-(2**31) + 5, 2**31 - 1]], np.int32)
    assert from_first(stamps).tolist() == [[1, 0], [11, 5]]


def test_a_measured_trace_speaks_of_tiles_and_blocks_as_the_simulator(held):
    fit = align(held.measured, held.simulated)
    assert len(fit.issues) == 126
    # The last product of a tile has no stamp of its own.
    assert {issue[:3] for issue in fit.missing} == {("PV", 0, 0)}
    waits = held.measured.wait.where(role="consumer0", on="load_V_full", tile=0)
    assert sorted(waits["block"].tolist()) == list(range(32))
    assert set(held.measured.span.where(role="load")["block"].tolist()) == set(range(32))


def test_every_cycle_of_a_simulated_step_is_in_a_phase(held):
    stamps = simulated_stamps(FULL.cfg, held.simulated)
    begins = stamps[0, 1, :, STAMPS.index("begin")].astype(int)
    took = durations(FULL.cfg, stamps)
    mean = sum(each.mean() for each in took.values())
    consumers = stamps[0, 1:, :, 0]
    assert mean == pytest.approx(np.diff(consumers, axis=1).mean(), rel=0.02)
    exponentials = held.simulated.expand().span.where(warp=4, op="exp2", block=10)
    (row,) = exponentials.rows()
    assert stamps[0, 1, 31 - 10, STAMPS.index("softmax")] == row["end"]
    assert (np.diff(begins) > 0).all()


def test_the_order_of_the_compiled_kernel_has_no_such_phases():
    run = simulate(FULL.point.problem, machine=H200, scope="cta")
    with pytest.raises(ValueError, match="o_waited_early=False"):
        simulated_stamps(FULL.cfg, run.trace)


def test_softmax_beside_another(held):
    trace = Trace("cycles")
    for consumer, (start, end) in enumerate([(0, 100), (60, 160)]):
        trace.add("span", sm=0, cta=0, role=f"consumer{consumer}", warp=4 + 4 * consumer,
                  op="softmax", unit="mufu", start=start, end=end)  # fmt: skip
    assert shared_softmax(trace) == pytest.approx(80 / 200)
    assert all(0 < share < 1 for share in (*held.shared, *held.waits))


def test_phases_of_both_roles_are_compared(held):
    names = [each.name for each in held.phases]
    assert names[:4] == ["K free", "K asked", "V free", "V asked"] and names[4:] == [*STAMPS[:10]]
    softmax = next(each for each in held.phases if each.name == "softmax")
    assert softmax.measured == FULL.means["softmax"]
    assert 0.7 * softmax.measured < softmax.simulated < 1.05 * softmax.measured  # stamps cost time
    loads = load_durations(FULL.stamps)
    assert loads["K free"].mean() > loads["K asked"].mean()
    assert rows_of(held)[-3][:3] == ("consumer", "all of a block", f"{held.block('measured'):,.0f}")


def test_the_untraced_block_is_that_of_the_same_device():
    assert 2000 < untraced_block(FULL) < held_block(FULL)
    other = dataclasses.replace(FULL, about={**FULL.about, "device": "NVIDIA H100"})
    assert untraced_block(other) is None


def held_block(found: Measured) -> float:
    return sum(found.means.values())


def test_the_section_of_the_page(held, tmp_path):
    ping = timelines(stored_traces()["d128 full 4096 b8 h16, no ping-pong"])
    text = section([held, ping], FULL.about)
    assert f"| consumer: softmax | {FULL.means['softmax']:,.0f} / " in text
    assert "113\n  cycles" in text and "By more than 100 cycles: " in text
    assert len({line.count("|") for line in text.splitlines() if line.startswith("|")}) == 1
    draw(held, tmp_path / "t.png")
    assert (tmp_path / "t.png").read_bytes().startswith(b"\x89PNG")


def test_one_block_is_too_few():
    short = dataclasses.replace(FULL, point=dataclasses.replace(FULL.point, seqlen=128))
    with pytest.raises(ValueError, match="seqlen=128: a timeline needs two blocks of 128 keys"):
        timelines(short)


# -- the command -----------------------------------------------------------------------------------


def trace(*arguments: str):
    return CliRunner().invoke(main, ["trace", *arguments])


def test_the_command_shows_a_stored_trace(tmp_path):
    done = trace("--causal", "-o", str(tmp_path / "t.svg"))
    assert done.exit_code == 0, done.output
    assert "NVIDIA H200, 2026-11-30: d128 causal 4096 b8 h16" in done.output
    assert "softmax" in done.output and (tmp_path / "t.svg").is_file()
    done = trace("--set", "overlap=false", "--json", "-o", str(tmp_path / "t.pftrace"))
    facts = json.loads(done.stdout)
    assert facts["point"].endswith("no overlap") and facts["measured_block_cycles"] > 3000
    assert (tmp_path / "t.pftrace").stat().st_size > 1000


def test_a_stored_trace_stands_above_the_simulated_one_on_a_page(tmp_path):
    done = trace("--causal", "-o", str(tmp_path / "t.html"))
    assert done.exit_code == 0, done.output
    assert "<title>measured and simulated</title>" in (tmp_path / "t.html").read_text(
        encoding="utf-8"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--seqlen-q", "100"), "no trace of seqlen_q=100 is stored"),
        (("--set", "kv_stages=3"), "no trace of kv_stages=3 is stored"),
        (("--set", "machine.clock_hz=1e9"), "held against the simulator's H200 as it is"),
        (("--backend", "emulator", "--sink"), "sink=True: the Hopper kernel"),
        (("--backend", "emulator", "--set", "o_waited_early=false"), "no field 'o_waited_early'"),
    ],
)
def test_what_cannot_be_shown_is_refused(arguments, message, tmp_path):
    done = trace(*arguments, "-o", str(tmp_path / "t.png"))
    assert done.exit_code == 2 and message in done.output.replace("\n", " ")
    assert not list(tmp_path.iterdir())


def test_without_a_gpu_the_command_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr("fa4kernel.gpu.missing", lambda compiler=True: "there is no CUDA driver")
    done = trace("--backend", "gpu", "-o", str(tmp_path / "t.png"))
    assert done.exit_code == 2 and "--backend stored shows" in done.output


def test_on_a_gpu_the_traced_kernel_is_run_and_compared(tmp_path, monkeypatch):
    """With the emulator in the GPU's place, which takes the same launch."""
    pytest.importorskip("cutlass", reason="needs the CuTe DSL: pip install 'fa4sim[kernel]'")
    device = SimpleNamespace(sms=2, about=lambda: {"device": "a stand-in"})
    monkeypatch.setattr("fa4kernel.gpu.missing", lambda compiler=True: None)
    monkeypatch.setattr("fa4kernel.gpu.architecture", lambda: "sm_90a")
    monkeypatch.setattr("fa4kernel.gpu.gpu", lambda: device)
    monkeypatch.setattr(
        "fa4kernel.cli.trace.run_on_gpu", lambda gpu, ptx, launch: in_emulator(ptx)(launch)
    )
    sizes = ("--batch", "1", "--heads", "1", "--seqlen-q", "256")
    done = trace("--backend", "gpu", *sizes, "--json", "-o", str(tmp_path / "t.svg"))
    assert done.exit_code == 0, done.output
    facts = json.loads(done.stdout)
    assert facts["device"] == "a stand-in" and facts["point"] == "d128 full 256 b1 h1"
    assert len(facts["phases"]) == 14 and facts["untraced_block_cycles"] is None
    assert all(phase["measured"] > 0 for phase in facts["phases"])
    folder = tmp_path / "kernels"
    kept = ("--kernels", str(folder), "--json", "-o", str(tmp_path / "k.pftrace"))
    done = trace("--backend", "gpu", *sizes, *kept)
    assert done.exit_code == 2 and "has no kernel for Config" in done.output
    assert trace("--compile-to", str(folder), *sizes).exit_code == 0
    monkeypatch.setattr("fa4kernel.kernels.Kernel.ptx", property(lambda self: pytest.fail()))
    done = trace("--backend", "gpu", *sizes, *kept)
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["point"] == facts["point"]
    done = trace("--backend", "gpu", *sizes, "--seqlen-k", "512", "-o", str(tmp_path / "u.svg"))
    assert done.exit_code == 2 and "as many keys as queries" in done.output
    monkeypatch.setattr("fa4kernel.gpu.architecture", lambda: "sm_100a")
    done = trace("--backend", "gpu", *sizes, "-o", str(tmp_path / "u.svg"))
    assert done.exit_code == 2 and "this GPU runs sm_100a code" in done.output


def test_another_ending_is_refused(tmp_path):
    done = trace("-o", str(tmp_path / "t.txt"))
    assert done.exit_code == 2 and ".png, .svg, .html, .pftrace or .npz" in done.output


def test_in_the_emulator_there_are_ticks_and_no_times(tmp_path):
    pytest.importorskip("cutlass", reason="needs the CuTe DSL: pip install 'fa4sim[kernel]'")
    done = trace("--backend", "emulator", "--seqlen-k", "512", "-o", str(tmp_path / "t.png"))
    assert done.exit_code == 0, done.output
    assert (
        "ticks are an order of events, not time" in done.output
        and "cycles" not in done.output.split("wrote")[0]
    )


def test_points_have_kernels_that_can_be_traced():
    assert [point.name for point in POINTS] == list(stored_traces())
    assert all(found.cfg.trace for found in stored_traces().values())


def test_stored_traces_need_no_dsl(tmp_path):
    program = (
        "import sys; sys.modules['cutlass'] = None\n"
        "from fa4kernel.cli.main import main\n"
        f"main(['trace', '-o', {str(tmp_path / 't.pftrace')!r}])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "t.pftrace").is_file()
