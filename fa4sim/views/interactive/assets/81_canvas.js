// What goes where on the two canvases: the pinned strips above, the tracks below.

/** Draws the state of an app; see 95_app.js for what that is. */
class Canvas {
  constructor(app) {
    this.app = app;
  }

  get pinHeight() {
    const runs = this.app.runs.length;
    return runs * (PIN.overview + PIN.gap) + PIN.ruler + runs * (PIN.path + PIN.gap) + PIN.gap;
  }

  /** Where each strip of the pinned part lies: `{overview, ruler, path}`. */
  pins() {
    const runs = this.app.runs.length;
    const ruler = runs * (PIN.overview + PIN.gap);
    return {
      overview: this.app.runs.map((_, r) => r * (PIN.overview + PIN.gap)),
      ruler,
      path: this.app.runs.map((_, r) => ruler + PIN.ruler + PIN.gap + r * (PIN.path + PIN.gap)),
    };
  }

  paint() {
    const { app } = this;
    this.painter = app.painter;
    this.paintTracks();
    this.paintPins();
  }

  pathStyle(run) {
    const { looks, theme } = this.app.painter;
    const plain = { fill: theme.line, faint: theme.line, ink: theme.ink, hatch: "", line: theme.ink };
    return (k) => {
      const i = run.path.slice[k];
      const look = i >= 0 ? looks.slice(run, i) : plain;
      return { look, labels: () => [`${run.text(run.path.role[k])}: ${run.text(run.path.op[k])}`, run.text(run.path.op[k])] };
    };
  }

  paintPins() {
    const { app, painter } = this;
    const { view } = app;
    const context = painter.begin(app.dom.pinCanvas, view.width, this.pinHeight);
    const pins = this.pins();
    const whole = app.wholeView();
    app.runs.forEach((run, r) => {
      painter.row(app.pathRows[r], whole, pins.overview[r], PIN.overview, this.pathStyle(run));
      painter.row(app.pathRows[r], view, pins.path[r], PIN.path, this.pathStyle(run));
    });
    const last = pins.overview.at(-1) + PIN.overview;
    const [from, to] = [whole.x(view.t0), whole.x(view.t1)];
    context.globalAlpha = 0.62;
    painter.rect(0, 0, Math.max(0, from), last, app.painter.theme.paper);
    painter.rect(to, 0, Math.max(0, view.width - to), last, app.painter.theme.paper);
    context.globalAlpha = 1;
    context.strokeStyle = app.painter.theme.accent;
    context.lineWidth = 2;
    context.strokeRect(Math.max(1, from), 1, Math.max(4, Math.min(view.width - 1, to) - Math.max(1, from)), last - 2);
    painter.ruler(view, pins.ruler, app.runs[0]);
  }

  paintTracks() {
    const { app, painter } = this;
    const { view, lines } = app;
    const { scrollTop: top, clientHeight: height } = app.dom.scroller;
    const context = painter.begin(app.dom.trackCanvas, view.width, height);
    for (const time of ticks(view)) painter.rect(view.x(time), 0, 1, height, painter.theme.band);
    for (let at = firstAbove(lines.length, (k) => lines[k].y + lines[k].height, top); at < lines.length; at++) {
      const line = lines[at];
      if (line.y > top + height) break;
      this.paintLine(line, line.y - top);
    }
    context.save();
    this.paintArrows(top);
    for (const [target, strong] of [[app.hovered, false], [app.selected, true]]) {
      if (!target) continue;
      const box = this.boxOf(target.run, target.i);
      if (box) painter.outline(box.x0, box.y - top + 1, Math.max(2, box.x1 - box.x0), box.height - 2, strong);
    }
    context.restore();
  }

  paintLine({ node, height }, y) {
    const { painter, app } = this;
    const heavy = ["run", "sm", "cta"].includes(node.kind);
    if (heavy) painter.rect(0, y, app.view.width, height, painter.theme.band);
    if (node.kind === "counter") {
      painter.counter(node.counter, app.view, y, height);
    } else if (node.rows.length) {
      node.rows.forEach((row, k) => painter.row(row, app.view, y + k * node.bar, node.bar, this.style(row)));
    } else if (!node.open) {
      node.strips.forEach((row, k) => painter.row(row, app.view, y + 2 + k * LINE.strip, LINE.strip - 1, this.style(row)));
    }
    painter.rect(0, y + height - 0.5, app.view.width, 0.5, painter.theme.line);
  }

  style(row) {
    const { marks, painter } = this.app;
    const { run } = row;
    return (i, first, last) => ({
      look: painter.looks.slice(run, i),
      slim: run.isWait(i),
      faint: marks !== null && !marks.any(row, first, last),
      labels: () => (last - first > 1 ? [] : sliceLabels(run, i)),
    });
  }

  /** Direct links of the selected slice only: whole chains would hide everything. */
  paintArrows(top) {
    const { app, painter } = this;
    if (!app.selected) return;
    const { run, i } = app.selected;
    const here = this.boxOf(run, i);
    if (!here) return;
    const ends = (of) => (of.y + of.height / 2 - top);
    const draw = (source, target, time) => {
      const [a, b] = [this.boxOf(run, source), this.boxOf(run, target)];
      if (!a || !b || a.y === b.y) return;
      // An arrival reaches a wait when it comes, the last one its end; all else the beginning.
      const at = time < 0 ? a.x1 : app.view.x(run.place(time));
      const last = run.isWait(target) && run.slice.by_slice[target] === source;
      const to = last ? b.x1 : time < 0 ? b.x0 : Math.min(Math.max(at, b.x0), b.x1);
      painter.arrow(Math.min(at, Math.max(a.x1, a.x0)), ends(a), to, ends(b), painter.theme.accent);
    };
    for (const link of run.before(i)) if (link.direct) draw(link.slice, i, link.time);
    for (const link of run.after(i)) if (link.direct) draw(i, link.slice, link.time);
  }

  /** Where slice i of a run is drawn, in pixels from the top of all lines; null if nowhere. */
  boxOf(run, i) {
    const { app } = this;
    const found = app.lineOf(run, run.trackOf[i]);
    if (!found) return null;
    const own = found.node === app.trackNodes[run.number][run.trackOf[i]] || found.node.rows.length > 0;
    const row = own ? run.track(i).rows.findIndex(([first]) => first === run.rowFirst[i]) : 0;
    const height = own ? found.node.bar : found.height;
    return {
      x0: app.view.x(run.x0[i]), x1: app.view.x(run.x1[i]),
      y: found.y + Math.min(row, Math.max(0, found.node.rows.length - 1)) * found.node.bar, height,
    };
  }
}
