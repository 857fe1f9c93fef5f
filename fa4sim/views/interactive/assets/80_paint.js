// Drawing: pieces of rows, counters, the ruler, strips, arrows. Everything is in CSS pixels.

const FONT = "11px system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif";
const PIN = { overview: 14, ruler: 24, path: 16, gap: 3 };

class Painter {
  constructor(theme, looks) {
    Object.assign(this, { theme, looks, widths: new Map() });
  }

  /** Fit a canvas to its place on the page and clear it. */
  begin(canvas, width, height) {
    const sharp = window.devicePixelRatio || 1;
    const [w, h] = [Math.round(width * sharp), Math.round(height * sharp)];
    if (canvas.width !== w || canvas.height !== h) Object.assign(canvas, { width: w, height: h });
    const context = canvas.getContext("2d", { alpha: false });
    context.setTransform(sharp, 0, 0, sharp, 0, 0);
    Object.assign(this, { context, fill: null });
    this.rect(0, 0, width, height, this.theme.paper);
    context.font = FONT;
    context.textBaseline = "middle";
    return context;
  }

  rect(x, y, width, height, fill) {
    // Asking the canvas for its colour costs more than remembering it.
    if (this.fill !== fill) this.context.fillStyle = this.fill = fill;
    this.context.fillRect(x, y, width, height);
  }

  widthOf(text) {
    let width = this.widths.get(text);
    if (width === undefined) this.widths.set(text, (width = this.context.measureText(text).width));
    return width;
  }

  /**
   * Draw what of a row shows, at the level of detail of a pixel. `style(id, first, last)` gives a
   * piece's look and labels, and whether it is faint or slim; `last - first` slices are in it.
   */
  row(row, view, y, height, style) {
    const level = row.level(levelFor(1 / view.scale));
    const count = level.x0.length;
    const { width } = view;
    for (let at = firstAbove(count, (k) => level.x1[k], view.t0); at < count; at++) {
      // Whole pixels: edges between them are several times as slow to draw, and blurred.
      const from = Math.round(view.x(level.x0[at]));
      if (from > width) break;
      const to = Math.round(view.x(level.x1[at]));
      this.piece(Math.max(from, -2), Math.min(to, width + 2), y, height,
        style(level.id[at], level.first[at], level.last[at]));
    }
  }

  piece(from, to, y, height, { look, labels, faint, slim }) {
    const inset = slim ? Math.round(height * 0.2) : height > 8 ? 1 : 0;
    const [top, high] = [y + inset, height - 2 * inset];
    const long = Math.max(to - from, 1);
    this.rect(from, top, long, high, faint ? look.faint : look.fill);
    if (long < 5 || faint) return;
    const pattern = this.looks.pattern(this.context, look);
    if (pattern && height > 8) this.rect(from, top, long, high, pattern);
    // A line of paper between neighbours.
    if (height > 8) this.rect(to - 0.5, top, 0.5, high, this.theme.paper);
    if (long > 18 && height > 12) this.label(labels(), from, long, top + high / 2, look, Boolean(pattern));
  }

  /** The longest of some texts that fits into a piece, in its middle. */
  label(texts, from, long, y, look, hatched) {
    const text = texts.find((each) => this.widthOf(each) <= long - 8);
    if (!text) return;
    const wide = this.widthOf(text);
    const x = from + (long - wide) / 2;
    if (hatched) this.rect(x - 2, y - 7, wide + 4, 14, look.fill);
    this.text(text, x, y + 0.5, look.ink);
  }

  text(text, x, y, fill) {
    if (this.fill !== fill) this.context.fillStyle = this.fill = fill;
    this.context.fillText(text, x, y);
  }

  outline(x, y, width, height, strong) {
    const { context, theme } = this;
    context.strokeStyle = theme.halo;
    context.lineWidth = strong ? 5 : 3;
    context.strokeRect(x, y, width, height);
    context.strokeStyle = strong ? theme.accent : theme.ink;
    context.lineWidth = strong ? 2.5 : 1;
    context.strokeRect(x, y, width, height);
  }

  /** An arrow from the end of one slice to another on some other line. */
  arrow(x0, y0, x1, y1, colour) {
    const { context } = this;
    const bend = Math.max(18, Math.abs(x1 - x0) / 2.5);
    const trace = () => {
      context.beginPath();
      context.moveTo(x0, y0);
      context.bezierCurveTo(x0 + bend, y0, x1 - bend, y1, x1 - 5, y1);
      context.stroke();
      context.beginPath();
      context.moveTo(x1, y1);
      context.lineTo(x1 - 8, y1 - 4.5);
      context.lineTo(x1 - 8, y1 + 4.5);
      context.closePath();
      context.fill();
    };
    for (const [ink, wide] of [[this.theme.halo, 4.5], [colour, 1.8]]) {
      context.strokeStyle = context.fillStyle = this.fill = ink;
      context.lineWidth = wide;
      trace();
    }
  }

  /** A counter as steps, each pixel showing the most of its time. */
  counter(counter, view, y, height) {
    const { context, theme } = this;
    const { x, values, most } = counter;
    const base = y + height - 3;
    const high = height - 8;
    const total = Math.max(most, 1);
    let at = Math.max(0, firstAbove(x.length, (k) => x[k], view.t0) - 1);
    const steps = [];
    while (at < x.length && x[at] <= view.t1) {
      const left = Math.max(0, view.x(x[at]));
      let value = values[at];
      at++;
      while (at < x.length && view.x(x[at]) < left + 1) value = Math.max(value, values[at++]);
      const end = at < x.length ? x[at] : counter.until;
      steps.push([left, Math.min(view.width, view.x(end)), (value / total) * high]);
    }
    if (!steps.length) return;
    // One outline for all steps: rectangles side by side would show seams.
    const outline = new Path2D();
    steps.forEach(([from, to, tall], k) => {
      if (k) outline.lineTo(from, base - tall);
      else outline.moveTo(from, base - tall);
      outline.lineTo(to, base - tall);
    });
    const area = new Path2D(outline);
    area.lineTo(steps.at(-1)[1], base);
    area.lineTo(steps[0][0], base);
    context.fillStyle = this.fill = theme.soft;
    context.fill(area);
    context.strokeStyle = theme.ink;
    context.lineWidth = 1.2;
    context.stroke(outline);
    this.rect(0, base + 0.5, view.width, 0.5, theme.line);
  }

  ruler(view, y, run) {
    const { theme } = this;
    const texts = ticks(view).map((time) => [view.x(time), clockTime(run, time)]);
    for (const [x, text] of texts) {
      this.rect(x, y + PIN.ruler - 6, 1, 6, theme.ink);
      const wide = this.widthOf(text);
      this.text(text, Math.min(Math.max(2, x - wide / 2), view.width - wide - 2), y + 9, theme.ink);
    }
    this.rect(0, y + PIN.ruler - 1, view.width, 1, theme.line);
  }
}
