"""Perfetto traces, read back with Perfetto's own message classes and compared with the trace."""

import random
import re
import sys
import time
from collections import Counter, defaultdict
from itertools import pairwise

import numpy as np
import pytest

from fa4sim import Problem, simulate
from fa4sim.trace import NONE, Trace
from fa4sim.views import read_perfetto, wire, write_perfetto
from fa4sim.views.flows import flows
from fa4sim.views.perfetto import FIELDS, encode


@pytest.fixture
def both(trace, tmp_path):
    return trace, read_perfetto(write_perfetto(trace, tmp_path / "trace.pftrace"))


def warp_of(path) -> int:
    numbers = re.findall(r"warp (\d+)", path[-1])
    return int(numbers[0]) if numbers else NONE


def role_of(path) -> str:
    return re.sub(r",? ?warp \d+.*", "", path[2])


def test_every_span_comes_back_with_its_times_and_arguments(both):
    trace, read = both
    ns = 1e9 / trace.meta["clock_hz"]

    def key(row):
        numbers = {c: row[c] for c in ("tile", "block", "stage") if row[c] != NONE}
        return (
            (f"SM {row['sm']}", f"CTA {row['cta']}"), row["role"], row["warp"], row["op"],
            round(row["start"] * ns), round(row["end"] * ns),
            tuple(sorted({**numbers, "unit": row["unit"], "busy_cycles": row["busy"],
                          "start_cycles": row["start"],
                          "cycles": row["end"] - row["start"]}.items())),
        )  # fmt: skip

    def read_key(piece):
        return (
            piece.track[:2], role_of(piece.track), warp_of(piece.track), piece.name, piece.start,
            piece.end, tuple(sorted(piece.args.items())),
        )  # fmt: skip

    work = [piece for piece in read.slices if piece.category == "work"]
    assert Counter(map(read_key, work)) == Counter(key(row) for row in trace.span.rows())


def test_every_wait_comes_back_with_its_barrier_phase_and_reason(both):
    trace, read = both
    waits = [piece for piece in read.slices if piece.category == "wait"]
    expected = Counter()
    for row in trace.wait.rows():
        numbers = {c: row[c] for c in ("stage", "phase", "tile", "block") if row[c] != NONE}
        expected[
            (f"wait: {row['on']}", row["role"], row["warp"], row["start"],
             row["end"] - row["start"], row["reason"], tuple(sorted(numbers.items())))
        ] += 1  # fmt: skip
    found = Counter()
    for piece in waits:
        args = dict(piece.args)
        start, length, reason = args.pop("start_cycles"), args.pop("cycles"), args.pop("reason")
        on = args.pop("barrier", None) or args.pop("unit")
        assert piece.name == f"wait: {on}"
        found[
            (piece.name, role_of(piece.track), warp_of(piece.track), start, length, reason,
             tuple(sorted(args.items())))
        ] += 1  # fmt: skip
    assert found == expected


def test_slices_of_a_track_do_not_overlap(both):
    _, read = both
    tracks = defaultdict(list)
    for piece in read.slices:
        assert piece.end >= piece.start
        if piece.depth == 0:
            tracks[piece.track].append((piece.args["start_cycles"], piece.args["cycles"]))
    for pieces in tracks.values():
        assert all(a + length <= b for (a, length), (b, _) in pairwise(pieces))


def test_tracks_are_a_tree_with_a_track_per_unit(both):
    trace, read = both
    tree = set(read.tracks)
    assert all(path[:-1] in tree for path in tree if len(path) > 1)
    for cta in np.unique(trace.span["cta"]):
        top = (f"SM {cta}", f"CTA {cta}")
        for unit in ("tensor", "tma", "tma_store"):
            assert (*top, unit) in tree
        assert (*top, "softmax0", "warp 3") in tree
        assert (*top, "mma, warp 12") in tree


def test_flows_run_forward_between_tracks_and_join_the_same_tile(both):
    trace, read = both
    assert len(read.flows) == len(flows(trace)) > 50
    for source, target in read.flows:
        a, b = read.slices[source], read.slices[target]
        assert a.track != b.track
        assert a.start <= b.start
        assert a.track[:2] == b.track[:2]
        assert a.args["tile"] == b.args["tile"]


def test_flows_follow_k_s_p_v_o(causal):
    spans = causal.span
    op, role = spans.text("op"), spans.text("role")
    kinds = Counter((role[a], op[a], role[b], op[b]) for a, b, _ in flows(causal))
    blocks = len(np.unique(spans.where(op="QK")["block"]))
    assert kinds["tma", "load K", "tensor", "QK"] == 2 * blocks
    assert kinds["tma", "load V", "tensor", "PV"] == 2 * blocks
    assert kinds["tma", "load Q", "tensor", "QK"] == 2
    assert kinds["tensor", "QK", "softmax1", "read S"] == 4 * blocks
    stores = len(spans.where(role="softmax0", op="store P"))
    assert kinds["softmax0", "store P", "tensor", "PV"] == stores >= 8 * blocks
    assert kinds["load", "issue V", "tma", "load V"] == blocks
    assert kinds["mma", "issue QK", "tensor", "QK"] == 2 * blocks
    assert kinds["softmax0", "arrive stats", "correction", "read factor"] == 4 * (blocks - 1)
    assert kinds["softmax1", "arrive stats", "correction", "final scale"] == 4
    assert kinds["tensor", "PV", "correction", "write O"] == 8
    assert kinds["correction", "write O", "tma_store", "store O"] == 8
    stage, block = spans["stage"], spans["block"]
    for a, b, what in flows(causal):
        if what in ("S", "P"):
            assert (stage[a], block[a]) == (stage[b], block[b])


def test_flows_the_trace_carries_are_taken_as_they_are(ticks, tmp_path):
    ticks.add("flow", source=0, target=5, what="tile")
    read = read_perfetto(write_perfetto(ticks, tmp_path / "t"))
    ((source, target),) = read.flows
    assert read.slices[source].args["start_ticks"] == ticks.span["start"][0]
    assert read.slices[target].args["start_ticks"] == ticks.span["start"][5]


def test_counters_come_back(both):
    trace, read = both
    top = ("SM 0", "CTA 0")
    table = trace.counter.where(cta=0, name="bytes_in_flight")
    ns = 1e9 / trace.meta["clock_hz"]
    flight = read.counters[*top, "bytes_in_flight"]
    assert flight == [
        (round(t * ns), v) for t, v in zip(table["time"], table["value"], strict=True)
    ]
    assert read.units[*top, "bytes_in_flight"] == "bytes"
    ring = [value for _, value in read.counters[*top, "ring_slots_held"]]
    assert 0 < max(ring) <= trace.meta["design"]["kv_stages"] and ring[-1] == 0
    columns = [value for _, value in read.counters[*top, "tmem_columns_in_use"]]
    assert 0 < max(columns) <= 512 and columns[-1] == 0


def test_the_trace_says_what_it_is_of(both):
    trace, read = both
    assert read.about["machine"] == "B200"
    assert read.about["clock"] == "cycles"
    assert "SM cycles at 1." in read.about["time"]
    assert f"'head_dim': {trace.meta['problem']['head_dim']}" in read.about["problem"]


def test_ticks_are_labelled_and_nested_spans_nest(ticks, tmp_path):
    read = read_perfetto(write_perfetto(ticks, tmp_path / "t"))
    assert "SM 0 (ticks, not time)" in [path[0] for path in read.tracks]
    assert "not time" in read.about["time"]
    inner = [piece for piece in read.slices if piece.name == "part"]
    assert len(inner) == 6 and all(piece.depth == 1 for piece in inner)
    assert inner[0].args == {"start_ticks": 2, "ticks": 8}
    assert (inner[0].start, inner[0].end) == (2, 10)


def test_spans_that_overlap_get_tracks_beside_each_other(tmp_path):
    trace = Trace("ns")
    for start, end in ((0, 10), (5, 15), (6, 8), (12, 20), (20, 20)):
        trace.add("span", sm=0, cta=0, role="mma", warp=1, op=f"{start}", start=start, end=end)
    read = read_perfetto(write_perfetto(trace, tmp_path / "t"))
    where = {piece.name: (piece.track[-1], piece.depth) for piece in read.slices}
    assert where["0"] == where["12"] == ("mma, warp 1", 0)
    assert where["5"] == ("mma, warp 1 (2)", 0)
    assert where["6"] == ("mma, warp 1", 1)
    assert {(p.start, p.end) for p in read.slices} == {(0, 10), (5, 15), (6, 8), (12, 20), (20, 20)}


def test_random_spans_come_back(tmp_path):
    draw = random.Random(7)
    trace = Trace("ns")
    rows = []
    for _ in range(300):
        start = draw.randrange(10**12)
        row = (draw.randrange(3), start, start + draw.choice((0, 1, 100, 10**11)))
        rows.append(row)
        trace.add("span", sm=0, cta=0, role="load", warp=row[0], op="ø", start=row[1], end=row[2])
    read = read_perfetto(write_perfetto(trace, tmp_path / "t"))
    found = sorted((warp_of(piece.track), piece.start, piece.end) for piece in read.slices)
    assert found == sorted(rows)


def test_a_compact_trace_is_written_out(tmp_path):
    run = simulate(Problem(batch=1, heads=1, seqlen_q=4096, causal=True))
    assert run.trace.repeats
    read = read_perfetto(write_perfetto(run.trace, tmp_path / "t"))
    whole = run.trace.expand()
    assert len(read.slices) == whole.size("span") + whole.size("wait")


def test_the_same_trace_gives_the_same_bytes(causal):
    assert encode(causal) == encode(causal.window())


def test_field_numbers_are_perfetto_s():
    from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as protos

    for name, fields in FIELDS.items():
        known = getattr(protos, name).DESCRIPTOR.fields_by_name
        for field, number in fields.items():
            assert known[field].number == number, (name, field)


def test_varints_are_protobuf_s():
    values = [0, 1, 127, 128, 300, 2**14, 2**35 - 1, 2**62]
    assert wire.varints(np.array(values)) == [wire.varint(value) for value in values]
    assert wire.varints(np.array([], dtype=np.int64)) == []
    assert wire.number(1, -1) == b"\x08" + b"\xff" * 9 + b"\x01"
    assert wire.sized(b"x" * 20000) == wire.varint(20000) + b"x" * 20000


def test_bad_traces_and_files_are_refused(ticks, tmp_path):
    with pytest.raises(ValueError, match="this trace is empty"):
        write_perfetto(Trace(), tmp_path / "t")
    ticks.add("span", sm=0, cta=0, role="load", warp=0, op="early", start=-5, end=3)
    with pytest.raises(ValueError, match="a time of -5 is before 0"):
        write_perfetto(ticks, tmp_path / "t")
    assert not list(tmp_path.iterdir())
    (tmp_path / "odd näme").write_bytes(b"\xff\xff not a trace")
    with pytest.raises(ValueError, match="odd näme' is not a Perfetto trace"):
        read_perfetto(tmp_path / "odd näme")


def test_a_truncated_trace_is_noticed(causal, tmp_path):
    packets = encode(causal)
    path = tmp_path / "t"
    path.write_bytes(packets[: len(packets) // 2])
    with pytest.raises(ValueError, match="not a"):
        read_perfetto(path)


def test_reading_without_the_library_says_what_to_install(causal, tmp_path, monkeypatch):
    path = write_perfetto(causal, tmp_path / "t")
    monkeypatch.setitem(sys.modules, "perfetto.protos.perfetto.trace", None)
    with pytest.raises(ImportError, match=r"pip install 'fa4sim\[viz\]'"):
        read_perfetto(path)


@pytest.mark.slow
def test_writing_costs_little_beside_the_plainest_messages():
    from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as protos

    trace = simulate(Problem(seqlen_q=32768, causal=True), scope="cta").trace
    slices = trace.size("span") + trace.size("wait")

    def plainest():
        message = protos.Trace()
        for i in range(2 * slices):  # a begin and an end
            packet = message.packet.add()
            packet.timestamp = i
            packet.trusted_packet_sequence_id = 1
            packet.track_event.type = protos.TrackEvent.TYPE_SLICE_BEGIN
            packet.track_event.track_uuid = 1
        return message.SerializeToString()

    def seconds(action):
        started = time.process_time()
        action()
        return time.process_time() - started

    ours = min(seconds(lambda: encode(trace)) for _ in range(5))
    assert ours <= 3 * min(seconds(plainest) for _ in range(5))
