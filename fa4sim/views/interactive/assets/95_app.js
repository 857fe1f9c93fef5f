// One timeline on a page: its state, and what can be done to it.

/** How many frames the app remembers the times of. */
const FRAMES = 600;

/**
 * Show runs inside `root`. `payload` is {header, columns}; `options.onSelect` hears of every
 * selection. Returns a promise of the app.
 */
async function mountTimeline(root, payload, options = {}) {
  const runs = await readRuns(payload.header, payload.columns);
  return new App(root, payload.header, runs, options);
}

class App {
  constructor(root, header, runs, options) {
    Object.assign(this, { header, runs, options, selected: null, hovered: null, marks: null, markedBy: "", foundAt: -1 });
    this.frames = { drawn: [], between: [] };
    for (const name of ["togglePath", "showAll", "toggleHelp"]) this[name] = this[name].bind(this);
    this.dom = buildDom(root, header, this);
    this.tree = buildTree(runs, header.cta);
    this.trackNodes = trackNodes(this.tree, runs);
    [this.alignment] = header.alignments;
    if (this.alignment) runs[1].align(this.alignment);
    this.fitRuns();
    this.view.show(...header.window);
    this.canvas = new Canvas(this);
    this.labels = new Labels(this, this.dom.labels);
    this.details = new Details(this, this.dom.details);
    this.listen(root);
    this.retheme();
    this.relayout();
    this.details.show();
    this.resize();
    // The key to the colours stands open where it is in nobody's way.
    this.dom.foot.open = root.clientWidth >= 860;
    root.timeline = this;
  }

  listen(root) {
    this.stop = new AbortController();
    const { signal } = this.stop;
    this.input = new Input(this);
    this.resizes = new ResizeObserver(() => this.resize());
    this.resizes.observe(this.dom.scroller);
    const retheme = () => { this.retheme(); this.details.show(); this.redraw(); };
    window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", retheme, { signal });
    // JupyterLab says by an attribute of the body whether it is light or dark.
    this.themes = new MutationObserver(retheme);
    this.themes.observe(document.body, { attributes: true, attributeFilter: ["data-jp-theme-light", "data-jp-theme-name"] });
    this.dom.trackCanvas.addEventListener("focus", () => this.say(this.selected ? "" : HINT));
    this.root = root;
  }

  /** Take the timeline off the page. */
  destroy() {
    this.stop.abort();
    this.resizes.disconnect();
    this.themes.disconnect();
    cancelAnimationFrame(this.pending);
    clearTimeout(this.once);
    this.root.replaceChildren();
  }

  // -- layout ---------------------------------------------------------------------------------

  /** The view's limits and the rows of the strips, after a run was put somewhere. */
  fitRuns() {
    const first = Math.min(...this.runs.map((run) => run.first));
    const last = Math.max(...this.runs.map((run) => run.last));
    const { width } = this.view ?? { width: 600 };
    this.view = Object.assign(new View(first, last), { width });
    for (const run of this.runs) for (const counter of run.counters) counter.until = run.last;
    this.pathRows = this.runs.map((run) => {
      const path = { x0: run.pathX0, x1: run.pathX1, levels: run.levels };
      return new Row(path, Int32Array.from(run.pathX0, (_, k) => k));
    });
  }

  retheme() {
    const theme = readTheme(this.dom.root);
    this.painter = new Painter(theme, new Looks(this.runs, theme));
    this.dom.legend.replaceChildren(...legend(this.painter.looks));
  }

  relayout() {
    this.lines = visibleLines(this.tree);
    this.lineAt = new Map(this.lines.map((line) => [line.node, line]));
    const last = this.lines.at(-1);
    this.dom.space.style.height = `${last ? last.y + last.height : 0}px`;
    this.labels.layout();
    const pins = this.canvas.pins();
    const label = (text, top, height) => {
      const made = el("div", { title: text }, el("span", {}, text));
      Object.assign(made.style, { top: `${top}px`, height: `${height}px` });
      return made;
    };
    const of = (run) => (this.runs.length > 1 ? `${run.label} · ` : "");
    this.dom.pinLabels.replaceChildren(
      ...this.runs.map((run, r) => label(`${of(run)}whole run`, pins.overview[r], PIN.overview)),
      label(this.runs[0].axis, pins.ruler, PIN.ruler),
      ...this.runs.map((run, r) => label(`${of(run)}critical path`, pins.path[r], PIN.path)));
    this.dom.pinCanvas.style.height = `${this.canvas.pinHeight}px`;
    this.redraw();
  }

  /** Whether it has a place on the page: a notebook may hide it for a while. */
  get hidden() {
    return this.dom.scroller.clientHeight === 0;
  }

  resize() {
    if (this.hidden) return;
    this.view.width = Math.max(50, this.dom.trackCanvas.clientWidth);
    this.dom.trackCanvas.style.height = `${this.dom.scroller.clientHeight}px`;
    this.redraw();
  }

  redraw() {
    this.pending ??= requestAnimationFrame((now) => {
      this.pending = null;
      // Shown again before this frame ends, nobody would hear of it; shown later, resize() does.
      if (this.hidden) {
        this.once ??= setTimeout(() => this.again());
        return;
      }
      const start = performance.now();
      this.canvas.paint();
      this.remember(performance.now() - start, now);
    });
  }

  /** Draw what was to be drawn while the timeline was hidden. */
  again() {
    this.once = null;
    if (!this.hidden) this.resize();
  }

  remember(drawn, now) {
    this.frames.drawn.push(drawn);
    if (this.lastFrame) this.frames.between.push(now - this.lastFrame);
    this.lastFrame = now;
    for (const list of Object.values(this.frames)) if (list.length > FRAMES) list.shift();
  }

  toggle(node) {
    node.toggle();
    this.relayout();
    this.say(`${node.title} ${node.open ? "open" : "closed"}`);
  }

  /** The line on which a track shows: its own, or the nearest that it is folded into. */
  lineOf(run, track) {
    let node = this.trackNodes[run.number][track];
    while (node && !this.lineAt.has(node)) node = node.parent;
    return node ? this.lineAt.get(node) : null;
  }

  wholeView() {
    return Object.assign(new View(this.view.limits.first, this.view.limits.last), { width: this.view.width });
  }

  // -- finding --------------------------------------------------------------------------------

  /** What is at a pixel of a canvas: `{run, i}` or null. */
  at(canvas, x, y) {
    const slack = 4 / this.view.scale;
    const time = this.view.time(x);
    if (canvas === this.dom.pinCanvas) {
      const r = this.canvas.pins().path.findIndex((top) => y >= top && y < top + PIN.path);
      const k = r < 0 ? NONE : this.pathRows[r].at(time, slack);
      const i = k < 0 ? NONE : this.runs[r].path.slice[k];
      return i < 0 ? null : { run: this.runs[r], i };
    }
    const at = y + this.dom.scroller.scrollTop;
    const line = this.lines.find((each) => at >= each.y && at < each.y + each.height);
    if (!line) return null;
    const { node } = line;
    const rows = node.rows.length ? node.rows : node.open ? [] : node.strips;
    const each = node.rows.length ? node.bar : LINE.strip;
    const row = rows[Math.min(rows.length - 1, Math.max(0, Math.floor((at - line.y - (node.rows.length ? 0 : 2)) / each)))];
    const i = row ? row.at(time, slack) : NONE;
    return i < 0 ? null : { run: row.run, i };
  }

  /** The counter at a pixel of the tracks, and its value there: `{counter, value, time}` or null. */
  counterAt(x, y) {
    const at = y + this.dom.scroller.scrollTop;
    const node = this.lines.find((each) => at >= each.y && at < each.y + each.height)?.node;
    if (node?.kind !== "counter") return null;
    const time = this.view.time(x);
    return { counter: node.counter, value: counterValue(node.counter, time), time };
  }

  /** The pointer is at slice `found`, or over the counter `over`, or over nothing. */
  hover(found, event, over = null) {
    const same = found?.i === this.hovered?.i && found?.run === this.hovered?.run;
    this.hovered = found;
    const { tip, trackCanvas } = this.dom;
    trackCanvas.classList.toggle("fa4-over", Boolean(found));
    tip.hidden = !found && !over;
    if (over) {
      const { counter, value } = over;
      tip.replaceChildren(el("strong", {}, `${NUMBER.format(value)} ${counter.unit}`), el("span", {}, counterName(counter)));
    } else if (found && !same) {
      tip.replaceChildren(...this.tipWords(found));
    }
    if (!tip.hidden) this.placeTip(event);
    if (!same) this.redraw();
  }

  tipWords({ run, i }) {
    const why = whyWords(run, i);
    const times = `${clockTime(run, run.slice.start[i])} – ${clockTime(run, run.endOf(i))}`;
    return [
      el("strong", {}, sliceWords(run, i)), el("span", {}, `${trackWords(run.track(i))} · ${times}`),
      el("span", {}, lengthWords(run, run.slice.length[i])), ...(why ? [el("span", {}, why)] : []),
    ];
  }

  placeTip({ clientX, clientY }) {
    const { tip, stage } = this.dom;
    const box = stage.getBoundingClientRect();
    const left = clientX - box.left + 14;
    const fits = left + tip.offsetWidth < box.width;
    tip.style.left = `${fits ? left : Math.max(4, left - tip.offsetWidth - 28)}px`;
    const below = clientY - box.top + 18;
    tip.style.top = `${below + tip.offsetHeight < box.height ? below : below - tip.offsetHeight - 30}px`;
  }

  focusX() {
    if (!this.selected) return this.view.width / 2;
    const { run, i } = this.selected;
    const x = this.view.x((run.x0[i] + run.x1[i]) / 2);
    return x > 0 && x < this.view.width ? x : this.view.width / 2;
  }

  say(text) {
    this.dom.live.textContent = text;
  }
}

/** For every run the node of each track; gives every node its parent on the way. */
function trackNodes(tree, runs) {
  const found = runs.map(() => []);
  const walk = (node, parent) => {
    node.parent = parent;
    const [row] = node.ownRows;
    if (row && ["role", "warp"].includes(node.kind)) found[node.run.number][node.run.trackOf[row.ids[0]]] = node;
    node.children.forEach((child) => walk(child, node));
  };
  tree.forEach((node) => walk(node, null));
  return found;
}
