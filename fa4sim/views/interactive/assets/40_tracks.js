// The tree of tracks: run, SM, CTA, role, warp, op. A line is what shows of a node: a bar with its
// slices, or for what is folded away strips of all that lies in it.

const LINE = { bar: 22, least: 9, head: 20, strip: 4, counter: 30 };
/** Counters that show at once; the others are in a group of their own. */
const FIRST_COUNTERS = ["bytes_in_flight", "ring_slots_held", "tmem_columns_in_use"];

class TrackNode {
  constructor(kind, label, run, fields = {}) {
    const usual = { ownRows: [], foldedRows: null, children: [], open: false, title: label, note: "" };
    Object.assign(this, { kind, label, run }, usual, fields);
  }

  /** The rows drawn on its own line; a role of several warps shows the first while it is folded. */
  get rows() {
    if (this.foldedRows) return this.open ? [] : this.foldedRows;
    return this.ownRows;
  }

  /** How high each of its rows is: many on one line are slimmer. */
  get bar() {
    return this.rows.length <= 2 ? LINE.bar : Math.max(LINE.least, Math.ceil((3 * LINE.bar) / this.rows.length));
  }

  /** Rows of all that is folded away, one line of each leaf. */
  get strips() {
    return this.children.flatMap((child) => (child.rows.length ? child.rows.slice(0, 1) : child.strips));
  }

  get height() {
    if (this.kind === "counter") return LINE.counter;
    if (this.rows.length) return this.bar * this.rows.length;
    if (this.open) return LINE.head;
    return Math.max(LINE.head, LINE.strip * this.strips.length + 4);
  }

  get canOpen() {
    return this.children.length > 0 || Boolean(this.makeChildren);
  }

  toggle(open = !this.open) {
    if (open && this.makeChildren) {
      this.children = this.makeChildren();
      this.makeChildren = null;
    }
    this.open = open;
  }
}

/** The lines of a tree that show, from top to bottom: `{node, depth, y, height}`. */
function visibleLines(tree) {
  const lines = [];
  let y = 0;
  const walk = (node, depth, parent) => {
    node.parent = parent;
    lines.push({ node, depth, y, height: node.height });
    y += node.height;
    if (node.open) for (const child of node.children) walk(child, depth + 1, node);
  };
  // A run that stands alone has its name above everything and needs no line of its own.
  if (tree.length === 1) for (const child of tree[0].children) walk(child, 0, null);
  else for (const run of tree) walk(run, 0, null);
  return lines;
}

/** The tree of all runs; only CTA `cta` of each is open. */
function buildTree(runs, cta) {
  return runs.map((run) => {
    const top = new TrackNode("run", run.label, run, { open: true, title: run.words || run.label });
    const sms = new Map();
    run.tracks.forEach((track, number) => {
      if (!sms.has(track.sm)) sms.set(track.sm, new Map());
      const ctas = sms.get(track.sm);
      if (!ctas.has(track.cta)) ctas.set(track.cta, []);
      ctas.get(track.cta).push(number);
    });
    const chosen = run.tracks.some((track) => track.cta === cta) ? cta : run.tracks[0]?.cta;
    for (const [sm, ctas] of sms) {
      const label = sm < 0 ? "SM not told" : `SM ${sm}`;
      const nodes = [...ctas].map(([number, tracks]) => ctaNode(run, sm, number, tracks, number === chosen));
      // An SM with one CTA needs one line, not two.
      if (nodes.length === 1) nodes[0].label = nodes[0].title = `${label} · ${nodes[0].label}`;
      top.children.push(
        ...(nodes.length === 1 ? nodes : [new TrackNode("sm", label, run, { open: ctas.has(chosen), children: nodes })]));
    }
    return top;
  });
}

function ctaNode(run, sm, cta, tracks, open) {
  const node = new TrackNode("cta", cta < 0 ? "CTA not told" : `CTA ${cta}`, run, { open });
  const roles = new Map();
  for (const number of tracks) {
    const { role } = run.tracks[number];
    roles.set(role, [...(roles.get(role) ?? []), number]);
  }
  for (const [role, numbers] of roles) node.children.push(roleNode(run, role, numbers));
  const mine = run.counters.filter((counter) => counter.sm === sm && counter.cta === cta);
  const known = (counter) => FIRST_COUNTERS.includes(counter.name);
  node.children.push(...mine.filter(known).map((counter) => counterNode(run, counter)));
  const others = mine.filter((counter) => !known(counter)).map((counter) => counterNode(run, counter));
  if (others.length) {
    node.children.push(new TrackNode("counters", `${others.length} more counters`, run, { children: others }));
  }
  return node;
}

function counterNode(run, counter) {
  return new TrackNode("counter", counterName(counter), run, { counter });
}

function roleNode(run, role, numbers) {
  const tracks = numbers.map((number) => trackNode(run, number));
  if (tracks.length === 1) return Object.assign(tracks[0], { kind: "role", label: role });
  const { warp } = run.tracks[numbers[0]];
  return new TrackNode("role", role, run, {
    children: tracks,
    foldedRows: tracks[0].ownRows,
    note: `×${tracks.length}`,
    title: `${role}: warp ${warp} of ${tracks.length} warps; open to see each`,
  });
}

function trackNode(run, number) {
  const track = run.tracks[number];
  const ownRows = track.rows.map(([first, last]) => Row.between(run, first, last));
  return new TrackNode("warp", track.warp < 0 ? track.role : `warp ${track.warp}`, run, {
    ownRows,
    title: `${trackWords(track)}; open to see each op by itself`,
    makeChildren: () => opNodes(run, ownRows),
  });
}

/** One line per op of a track, in order of appearance, and one for all its waits. */
function opNodes(run, rows) {
  const byName = new Map();
  for (const row of rows) {
    for (const i of row.ids) {
      const name = run.isWait(i) ? "waits" : run.name(i);
      if (!byName.has(name)) byName.set(name, []);
      byName.get(name).push(i);
    }
  }
  const waits = byName.get("waits");
  byName.delete("waits");
  const entries = [...byName, ...(waits ? [["waits", waits]] : [])];
  return entries.map(([name, ids]) => {
    ids.sort((a, b) => run.x0[a] - run.x0[b]);
    return new TrackNode("op", name, run, { ownRows: [new Row(run, Int32Array.from(ids))] });
  });
}
