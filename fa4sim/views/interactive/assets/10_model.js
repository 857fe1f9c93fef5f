// What a timeline shows: runs of slices in typed arrays, read from the header and bytes that
// fa4sim/views/interactive/data.py makes. Nothing here draws.

const NONE = -1;
const KINDS = { i1: Int8Array, i2: Int16Array, i4: Int32Array, f8: Float64Array };

/** The bytes that zlib packed. */
async function inflate(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).arrayBuffer();
}

/** The bytes of base64 text. */
function fromBase64(text) {
  return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
}

/** Read a header and its packed columns into runs. */
async function readRuns(header, packed) {
  if (header.schema !== 1) throw new Error(`timeline data of schema ${header.schema}; this reads 1`);
  const buffer = await inflate(packed);
  return header.runs.map((run, number) => new Run(run, buffer, number));
}

/** Columns of an object of places, as typed arrays of the same names. */
function columns(places, buffer) {
  const read = ([kind, at, count]) => new KINDS[kind](buffer, at, count);
  return Object.fromEntries(Object.entries(places).map(([name, place]) => [name, read(place)]));
}

/** One run. Slices have numbers; `x0` and `x1` say where they are drawn, in the first run's time. */
class Run {
  constructor(header, buffer, number) {
    Object.assign(this, header, { number });
    this.slice = columns(header.slices, buffer);
    this.path = columns(header.path, buffer);
    this.lives = columns(header.lives, buffer);
    this.counters = header.counters.map((counter) => ({
      ...counter,
      ...columns({ times: counter.times, values: counter.values }, buffer),
    }));
    this.count = this.slice.start.length;
    this.x0 = new Float64Array(this.count);
    this.x1 = new Float64Array(this.count);
    this.indexRows();
    this.indexEdges(columns(header.edges, buffer));
    this.align(null);
  }

  text(code) {
    return code < 0 ? "" : this.strings[code];
  }

  /** For every slice its track, and the row of it: where its neighbours in time are. */
  indexRows() {
    this.trackOf = new Int32Array(this.count);
    this.rowFirst = new Int32Array(this.count);
    this.rowLast = new Int32Array(this.count);
    this.tracks.forEach((track, number) => {
      for (const [first, last] of track.rows) {
        this.trackOf.fill(number, first, last);
        this.rowFirst.fill(first, first, last);
        this.rowLast.fill(last, first, last);
      }
    });
  }

  /** Edges by their ends: those into slice i are `into.edges[into.first[i] … into.first[i + 1])`. */
  indexEdges({ source, target, time, what }) {
    this.edges = { source, target, time, what };
    const by = (ends) => {
      const first = new Int32Array(this.count + 1);
      for (const end of ends) first[end + 1]++;
      for (let i = 0; i < this.count; i++) first[i + 1] += first[i];
      const edges = new Int32Array(ends.length);
      const next = first.slice();
      ends.forEach((end, edge) => (edges[next[end]++] = edge));
      return { first, edges };
    };
    this.into = by(target);
    this.outOf = by(source);
  }

  /** Where a time of this run is drawn. */
  place(time) {
    if (!this.knots) return time;
    const { times, places } = this.knots;
    let low = 0;
    let high = times.length - 2;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (times[middle] <= time) low = middle;
      else high = middle - 1;
    }
    const share = (time - times[low]) / (times[low + 1] - times[low]);
    return places[low] + share * (places[low + 1] - places[low]);
  }

  /** Put the run in its place: `knots` are an alignment of the header, or null for its own time. */
  align(knots) {
    this.knots = knots;
    const { start, length } = this.slice;
    for (let i = 0; i < this.count; i++) {
      this.x0[i] = this.place(start[i]);
      this.x1[i] = this.place(start[i] + length[i]);
    }
    const { start: from, length: long } = this.path;
    this.pathX0 = Float64Array.from(from, (time) => this.place(time));
    this.pathX1 = Float64Array.from(from, (time, i) => this.place(time + long[i]));
    for (const counter of this.counters) {
      counter.x = Float64Array.from(counter.times, (time) => this.place(time));
    }
    this.first = this.count ? this.place(0) : 0;
    this.last = this.place(this.end);
    this.levels = new Map();
  }

  // -- links ------------------------------------------------------------------------------------

  /** What slice i directly came after: `{slice, what, time}`, the last to be ready first. */
  before(i) {
    const found = this.linked(this.into, this.edges.source, i);
    const ready = ({ slice, time }) => (time < 0 ? this.endOf(slice) : time);
    found.sort((a, b) => ready(b) - ready(a) || a.slice - b.slice);
    if (i > this.rowFirst[i]) found.push({ slice: i - 1, what: "then, on the same track" });
    return found;
  }

  /** What directly came after slice i, the first one first. */
  after(i) {
    const found = this.linked(this.outOf, this.edges.target, i);
    found.sort((a, b) => this.slice.start[a.slice] - this.slice.start[b.slice]);
    if (i + 1 < this.rowLast[i]) found.push({ slice: i + 1, what: "then, on the same track" });
    return found;
  }

  linked({ first, edges }, ends, i) {
    const found = [];
    for (let at = first[i]; at < first[i + 1]; at++) {
      const edge = edges[at];
      const { what, time } = this.edges;
      found.push({ slice: ends[edge], what: this.text(what[edge]), time: time[edge], direct: true });
    }
    return found;
  }

  endOf(i) {
    return this.slice.start[i] + this.slice.length[i];
  }

  track(i) {
    return this.tracks[this.trackOf[i]];
  }

  name(i) {
    return this.text(this.slice.name[i]);
  }

  isWait(i) {
    return this.slice.is_wait[i] === 1;
  }
}
