// Slices by level of detail. On level w everything shorter than w, in units of time, is merged with
// its neighbours in the same stretch of length w. Stretches start at multiples of w, so merged
// slices keep their place and colour while the view moves. Levels are made when first needed.

/** The level to draw at if a pixel is `unitsPerPixel` long, one to two pixels; 0 for every slice. */
function levelFor(unitsPerPixel) {
  return unitsPerPixel <= 0.5 ? 0 : 2 ** Math.ceil(Math.log2(unitsPerPixel));
}

/** A row of slices: those numbered `ids`, which follow each other in time. */
class Row {
  constructor(run, ids) {
    this.run = run;
    this.ids = ids;
    this.made = new Map();
    this.aligned = run.levels;
  }

  /** Slices `[first, last)` of a run. */
  static between(run, first, last) {
    return new Row(run, Int32Array.from({ length: last - first }, (_, i) => first + i));
  }

  /** `{x0, x1, id, first, last}`: pieces in order; one stands for the slices ids[first … last). */
  level(width) {
    if (this.aligned !== this.run.levels) {
      this.made.clear(); // the run was put elsewhere
      this.aligned = this.run.levels;
    }
    let level = this.made.get(width);
    if (!level) this.made.set(width, (level = width ? this.merge(width) : this.plain()));
    return level;
  }

  plain() {
    const { ids, run } = this;
    return {
      x0: Float64Array.from(ids, (i) => run.x0[i]),
      x1: Float64Array.from(ids, (i) => run.x1[i]),
      id: ids,
      first: Int32Array.from(ids, (_, at) => at),
      last: Int32Array.from(ids, (_, at) => at + 1),
    };
  }

  merge(width) {
    const { ids, run } = this;
    const pieces = { x0: [], x1: [], id: [], first: [], last: [] };
    let bucket = NaN;
    let longest = 0;
    ids.forEach((i, at) => {
      const x0 = run.x0[i];
      const x1 = run.x1[i];
      const long = x1 - x0;
      const here = Math.floor(x0 / width);
      const end = pieces.x0.length - 1;
      if (long < width && here === bucket) {
        pieces.x1[end] = x1;
        pieces.last[end] = at + 1;
        if (long > longest) {
          longest = long;
          pieces.id[end] = i;
        }
        return;
      }
      bucket = long < width ? here : NaN;
      longest = long;
      pieces.x0.push(x0);
      pieces.x1.push(x1);
      pieces.id.push(i);
      pieces.first.push(at);
      pieces.last.push(at + 1);
    });
    return {
      x0: Float64Array.from(pieces.x0),
      x1: Float64Array.from(pieces.x1),
      id: Int32Array.from(pieces.id),
      first: Int32Array.from(pieces.first),
      last: Int32Array.from(pieces.last),
    };
  }

  /** The slice at a place, or the nearest within `slack`; NONE if there is none. */
  at(x, slack = 0) {
    const { run, ids } = this;
    const after = firstAbove(ids.length, (k) => run.x0[ids[k]], x);
    let best = NONE;
    let least = Infinity;
    for (const k of [after - 1, after]) {
      if (k < 0 || k >= ids.length) continue;
      const i = ids[k];
      const away = x < run.x0[i] ? run.x0[i] - x : Math.max(0, x - run.x1[i]);
      if (away < least) [least, best] = [away, i];
    }
    return least <= slack ? best : NONE;
  }
}

/** The first of `count` rising values above `limit`: its number, or `count`. */
function firstAbove(count, value, limit) {
  let low = 0;
  let high = count;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (value(middle) > limit) high = middle;
    else low = middle + 1;
  }
  return low;
}
