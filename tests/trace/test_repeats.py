"""Repeats: a compact trace, written out, is the trace of doing it all step by step.

A little program of operations and loops is run twice: once in full, and once with every loop's
body recorded once and a repeat for the rest, as the fast-forward does.
"""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from fa4sim.trace import COLUMNS, NONE, Repeat, Ring, Trace

# An operation is (what, cycles); a loop is (body, copies, "block" or "tile").
OPS = st.tuples(
    st.sampled_from(["span", "child", "wait", "arrive", "life", "counter", "total"]),
    st.integers(0, 9),
)


def bodies(ops):
    return st.lists(ops, min_size=1, max_size=4)


INNER = st.tuples(bodies(OPS), st.integers(1, 4), st.just("block"))
TILE = st.tuples(bodies(OPS | INNER), st.integers(1, 3), st.just("tile"))
PROGRAMS = st.lists(OPS | INNER | TILE, min_size=1, max_size=5)


class Recorder:
    """Runs a program, in full or with repeats."""

    def __init__(self, compact):
        self.compact = compact
        self.trace = Trace()
        self.clock = 0
        self.block = 100
        self.tile = 0
        self.arrivals = Counter()
        self.total = 0
        self.first_span = 0

    def run(self, program):
        for step in program:
            if isinstance(step[0], str):
                self.operate(*step)
            else:
                self.loop(*step)

    def operate(self, what, cycles):
        trace, start = self.trace, self.clock
        self.clock += cycles + 1
        place = {"cta": 0, "tile": self.tile, "block": self.block}
        if what in ("span", "child"):
            # A child belongs to the span before it, if that is part of the same loop body.
            number = trace.size("span")
            parent = number - 1 if what == "child" and number > self.first_span else NONE
            trace.add("span", op=what, start=start, end=self.clock, parent=parent, **place)
        elif what == "wait":
            trace.add("wait", on="full", stage=1, phase=self.arrivals["full", 1], start=start,
                      end=self.clock, **place)  # fmt: skip
        elif what == "arrive":
            stage = cycles % 2
            trace.add("arrive", cta=0, barrier="full", stage=stage, time=start,
                      phase=self.arrivals["full", stage])  # fmt: skip
            self.arrivals["full", stage] += 1
        elif what == "life":
            trace.add("life", tensor="S", space="tmem", birth=start, last_use=self.clock,
                      death=self.clock, **place)  # fmt: skip
        elif what == "counter":
            trace.add("counter", cta=0, name="bytes", time=start, value=cycles)
        else:
            self.total += cycles
            trace.add("counter", cta=0, name="busy:mufu", time=start, value=self.total)

    def loop(self, body, copies, kind):
        first, started = self.trace.sizes(), self.clock
        arrived, block, tile = self.arrivals.copy(), self.block, self.tile
        total = self.total
        for turn in range(1 if self.compact else 1 + copies):
            self.first_span = self.trace.size("span")
            self.block = block - turn if kind == "block" else block
            self.tile = tile + turn if kind == "tile" else tile
            self.run(body)
        # A child behind the loop starts afresh, whichever way the loop was recorded.
        self.first_span = self.trace.size("span")
        if not self.compact:
            return
        phases = {
            (0, self.trace.code(barrier), stage): count - arrived[barrier, stage]
            for (barrier, stage), count in self.arrivals.items()
        }
        cycles, growth = self.clock - started, self.total - total
        grows = {(0, self.trace.code("busy:mufu")): growth}
        down, up = (-1, 0) if kind == "block" else (0, 1)
        self.trace.repeats.append(
            Repeat(first, self.trace.sizes(), copies, cycles, down, up, phases, grows=grows)
        )
        self.total += copies * growth
        self.clock += copies * cycles
        self.block += copies * down
        self.tile += copies * up
        for barrier, stage in self.arrivals:
            self.arrivals[barrier, stage] += copies * (
                self.arrivals[barrier, stage] - arrived[barrier, stage]
            )


def recorded(program, compact):
    recorder = Recorder(compact)
    recorder.run(program)
    return recorder.trace


def rows_of(trace):
    return {name: list(trace.table(name).rows()) for name in COLUMNS}


@given(PROGRAMS)
def test_writing_out_gives_what_step_by_step_gives(program):
    compact, full = recorded(program, True), recorded(program, False)
    assert rows_of(compact.expand()) == rows_of(full)
    assert compact.expand().end == full.end


@given(PROGRAMS)
def test_sums_over_recorded_rows_with_weights_are_sums_over_all_rows(program):
    compact, full = recorded(program, True), recorded(program, False)
    for name in COLUMNS:
        assert compact.weights(name).sum() == full.size(name)
    span, whole = compact.span, full.span
    lengths = (span["end"] - span["start"]) * compact.weights("span")
    assert lengths.sum() == (whole["end"] - whole["start"]).sum()


@given(PROGRAMS)
def test_writing_out_leaves_the_compact_trace_alone_and_is_final(program):
    compact = recorded(program, True)
    before, repeats = rows_of(compact), len(compact.repeats)
    whole = compact.expand()
    assert rows_of(compact) == before and len(compact.repeats) == repeats
    assert whole.expand() is whole and whole.repeats == []


def test_a_trace_without_repeats_is_itself():
    trace = recorded([("span", 3)], True)
    assert trace.expand() is trace
    assert trace.weights("span").tolist() == [1]


# -- rings -------------------------------------------------------------------------------------


@given(
    slots=st.integers(1, 7), step=st.integers(1, 7), per_period=st.integers(1, 9),
    copies=st.integers(1, 9), skip=st.integers(0, 3),
)  # fmt: skip
def test_slots_move_on_round_the_ring_from_copy_to_copy(slots, step, per_period, copies, skip):
    # Every period handles `step` slots; the k-th slot ever is k mod slots, in round k // slots.
    step = min(step, per_period)

    def record(trace, first, count, clock, skipped=0):
        for k in range(first, first + count):
            slot, turn = k % slots, k // slots
            time = clock + k - first
            trace.add("arrive", cta=0, barrier="load_KV_full", stage=slot, phase=turn, time=time)
            trace.add("wait", on="load_KV_full", stage=slot, phase=turn + 1, start=time, end=time)
            trace.add("span", op="load K", stage=slot, start=time, end=time)
            trace.add("span", op="softmax", stage=1, start=time, end=time)
            trace.add("life", tensor="K", stage=slot, space="smem", slot=f"ring[{slot}]",
                      birth=time, death=time)  # fmt: skip
            trace.add("life", tensor="S", stage=1, space="tmem", slot="S1", birth=time, death=time)

    compact, full = Trace(), Trace()
    for trace in (compact, full):
        for slot in range(slots):
            trace.code(f"ring[{slot}]")
        record(trace, 0, skip, 0)
    first = compact.sizes()
    record(compact, skip, step, skip)
    ring = Ring(
        slots, step, frozenset(map(compact.code, ("load_KV_full", "load K", "K"))),
        tuple(compact.code(f"ring[{slot}]") for slot in range(slots)),
    )  # fmt: skip
    compact.repeats.append(Repeat(first, compact.sizes(), copies, step, ring=ring))
    record(full, skip, step * (1 + copies), skip)
    assert rows_of(compact.expand()) == rows_of(full)


def test_references_to_what_came_before_a_repeat_stay():
    trace = Trace()
    trace.add("span", op="head", start=0, end=1)
    first = trace.sizes()
    trace.add("span", op="body", start=1, end=2, parent=0)
    trace.add("span", op="child", start=1, end=2, parent=1)
    trace.repeats.append(Repeat(first, trace.sizes(), 2, 1))
    trace.add("span", op="tail", start=4, end=5, parent=0)
    trace.add("span", op="last", start=4, end=5, parent=2)
    trace.add("flow", source=0, target=4, what="x")
    whole = trace.expand()
    assert whole.span["parent"].tolist() == [NONE, 0, 1, 0, 3, 0, 5, 0, 6]
    assert whole.flow.array.tolist()[0][:2] == [0, 8]
