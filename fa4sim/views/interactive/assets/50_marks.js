// Which slices stand out: what a search found, the life of a tile, the critical path.

/** Slices of some runs that are marked, and how many are among the first n of each run. */
class Marks {
  constructor(runs, ids) {
    this.ids = ids; // a sorted list of slices per run
    this.flags = runs.map((run, r) => {
      const flags = new Uint8Array(run.count);
      for (const i of ids[r]) flags[i] = 1;
      return flags;
    });
    this.total = ids.reduce((sum, list) => sum + list.length, 0);
  }

  has(run, i) {
    return this.flags[run.number][i] === 1;
  }

  /** Whether any of the slices row.ids[first … last) is marked. */
  any(row, first, last) {
    const flags = this.flags[row.run.number];
    for (let at = first; at < last; at++) if (flags[row.ids[at]]) return true;
    return false;
  }

  /** All of them as {run, i}, in the order in which they are drawn. */
  inOrder(runs) {
    const all = this.ids.flatMap((list, r) => list.map((i) => ({ run: runs[r], i })));
    return all.sort((a, b) => a.run.x0[a.i] - b.run.x0[b.i] || a.run.number - b.run.number || a.i - b.i);
  }
}

const SEARCH_FIELDS = {
  tile: (run, i) => run.slice.tile[i],
  block: (run, i) => run.slice.block[i],
  stage: (run, i) => run.slice.stage[i],
  phase: (run, i) => run.slice.phase[i],
  warp: (run, i) => run.track(i).warp,
  cta: (run, i) => run.track(i).cta,
  sm: (run, i) => run.track(i).sm,
};

/** Words of a search, all of which must fit: `exp2 block:3`, `softmax0 longer:200`, `wait s_full`. */
function searchTests(text) {
  return text.trim().toLowerCase().split(/\s+/).filter(Boolean).map((word) => {
    const [, field, number] = /^(\w+)[:=](\d+)$/.exec(word) ?? [];
    if (field in SEARCH_FIELDS) return (run, i) => SEARCH_FIELDS[field](run, i) === Number(number);
    if (field === "longer") return (run, i) => run.slice.length[i] > Number(number);
    if (field === "shorter") return (run, i) => run.slice.length[i] < Number(number);
    const known = new Map();
    return (run, i) => {
      const key = `${run.number} ${run.slice.name[i]} ${run.trackOf[i]} ${run.slice.reason[i]}`;
      if (!known.has(key)) known.set(key, textOf(run, i).includes(word));
      return known.get(key);
    };
  });
}

function textOf(run, i) {
  const kind = run.isWait(i) ? "wait" : "work";
  return [kind, run.name(i), run.track(i).role, run.text(run.slice.reason[i])].join(" ").toLowerCase();
}

function search(runs, text) {
  const tests = searchTests(text);
  if (!tests.length) return null;
  const ids = runs.map((run) => {
    const found = [];
    for (let i = 0; i < run.count; i++) if (tests.every((test) => test(run, i))) found.push(i);
    return found;
  });
  return new Marks(runs, ids);
}

/** The slices that the critical path runs through. */
function onPath(runs) {
  const unique = (list) => [...new Set(list)].filter((i) => i >= 0).sort((a, b) => a - b);
  return new Marks(runs, runs.map((run) => unique(run.path.slice)));
}

/** What brings a work tile's Q and takes its O away belongs to the life of each of its blocks. */
const WHOLE_TILE = /^(?:(?:issue|load|write|store|free) [QO]|final scale|scale O|round O)$/;

/**
 * The life of the tile that slice i works on, from global memory to global memory: the slices of
 * the same CTA, work tile and K/V block, with the tile's own Q and O. Null if it works on none.
 */
function lifeOf(run, i) {
  const { tile, block } = run.slice;
  if (tile[i] < 0) return null;
  const { cta } = run.track(i);
  const ids = [];
  for (let k = 0; k < run.count; k++) {
    if (tile[k] !== tile[i] || run.track(k).cta !== cta) continue;
    const same = block[i] < 0 ? block[k] < 0 || WHOLE_TILE.test(run.name(k)) : block[k] === block[i];
    if (same || (!run.isWait(k) && WHOLE_TILE.test(run.name(k)))) ids.push(k);
  }
  return { tile: tile[i], block: block[i], cta, ids, steps: stepsOf(run, ids), places: placesOf(run, i, cta) };
}

/** What happens in a life, in order: one step per op, role and stage, whatever warps do it. */
function stepsOf(run, ids) {
  const steps = new Map();
  for (const i of ids) {
    if (run.isWait(i)) continue;
    const key = `${run.slice.name[i]} ${run.track(i).role} ${run.slice.stage[i]} ${run.slice.block[i]}`;
    const step = steps.get(key) ?? { slice: i, start: Infinity, end: 0, warps: new Set(), count: 0 };
    if (run.slice.start[i] < step.start) Object.assign(step, { slice: i, start: run.slice.start[i] });
    step.end = Math.max(step.end, run.endOf(i));
    step.warps.add(run.track(i).warp);
    step.count++;
    steps.set(key, step);
  }
  return [...steps.values()].sort((a, b) => a.start - b.start || a.slice - b.slice);
}

/** Where the tile's data lay meanwhile: its rows of the trace's table of lives. */
function placesOf(run, i, cta) {
  const { tile, block } = run.slice;
  const lives = run.lives;
  const found = [];
  for (let k = 0; k < lives.birth.length; k++) {
    if (lives.cta[k] !== cta || lives.tile[k] !== tile[i]) continue;
    if (lives.block[k] === block[i] || lives.block[k] < 0) found.push(k);
  }
  return found.sort((a, b) => lives.birth[a] - lives.birth[b]);
}
