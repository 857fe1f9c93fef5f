// Mouse, wheel, fingers and keys.

const STEP = 60; // pixels that one press of A or D moves
const DRAG = 4; // pixels that turn a click into a drag

/** Listen on the canvases of an app. */
class Input {
  constructor(app) {
    this.app = app;
    this.pointers = new Map();
    this.pointerX = null;
    const { trackCanvas, pinCanvas, scroller, root } = app.dom;
    for (const canvas of [trackCanvas, pinCanvas]) {
      canvas.addEventListener("pointerdown", (event) => this.down(event, canvas));
      canvas.addEventListener("pointermove", (event) => this.move(event, canvas));
      for (const name of ["pointerup", "pointercancel"]) canvas.addEventListener(name, (event) => this.up(event, canvas));
      canvas.addEventListener("pointerleave", () => this.leave());
      canvas.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    }
    trackCanvas.addEventListener("dblclick", () => app.showSelected());
    scroller.addEventListener("scroll", () => app.redraw());
    root.addEventListener("keydown", (event) => this.key(event));
  }

  wheel(event) {
    const { app } = this;
    const lines = event.deltaMode === 1 ? 16 : 1;
    const [dx, dy] = [event.deltaX * lines, event.deltaY * lines];
    if (event.ctrlKey || event.metaKey) {
      // A pinch on a trackpad comes as a wheel with Ctrl and small steps.
      const strength = Math.abs(dy) < 40 ? 0.012 : 0.0025;
      app.view.zoom(Math.exp(dy * strength), event.offsetX);
    } else if (event.shiftKey || Math.abs(dx) > Math.abs(dy)) {
      app.view.pan(dx || dy);
    } else {
      return; // up and down scrolls the tracks, as everywhere
    }
    event.preventDefault();
    app.redraw();
  }

  down(event, canvas) {
    if (event.button !== 0) return;
    canvas.setPointerCapture(event.pointerId);
    this.pointers.set(event.pointerId, { x: event.offsetX, y: event.offsetY });
    this.start = { x: event.offsetX, y: event.offsetY, moved: false, overview: this.inOverview(event, canvas) };
    if (this.start.overview) this.overviewTo(event.offsetX);
  }

  inOverview(event, canvas) {
    const { dom, canvas: drawn } = this.app;
    return canvas === dom.pinCanvas && event.offsetY < drawn.pins().ruler;
  }

  overviewTo(x) {
    const { app } = this;
    const long = app.view.t1 - app.view.t0;
    const middle = app.wholeView().time(x);
    app.view.show(middle - long / 2, middle + long / 2);
    app.redraw();
  }

  move(event, canvas) {
    const { app } = this;
    this.pointerX = event.offsetX;
    const before = this.pointers.get(event.pointerId);
    if (!before) {
      if (event.pointerType === "mouse") this.point(event, canvas);
      return;
    }
    const now = { x: event.offsetX, y: event.offsetY };
    if (this.pointers.size === 2) this.pinch(event.pointerId, before, now);
    else if (this.start?.overview) this.overviewTo(now.x);
    else this.drag(before, now, event.pointerType, canvas);
    this.pointers.set(event.pointerId, now);
    app.redraw();
  }

  point(event, canvas) {
    const { app } = this;
    const { offsetX: x, offsetY: y } = event;
    const over = canvas === app.dom.trackCanvas ? app.counterAt(x, y) : null;
    app.hover(app.at(canvas, x, y), event, over);
  }

  drag(before, now, kind, canvas) {
    const { app, start } = this;
    if (!start) return;
    if (Math.hypot(now.x - start.x, now.y - start.y) > DRAG) start.moved = true;
    if (!start.moved) return;
    app.hover(null);
    app.view.pan(before.x - now.x);
    if (kind === "mouse" && canvas === app.dom.trackCanvas) app.dom.scroller.scrollTop += before.y - now.y;
  }

  /** Two fingers: their distance zooms, their middle moves. */
  pinch(id, before, now) {
    const { view } = this.app;
    const other = [...this.pointers].find(([key]) => key !== id)[1];
    const old = Math.max(20, Math.abs(before.x - other.x));
    const wide = Math.max(20, Math.abs(now.x - other.x));
    view.pan((before.x - now.x) / 2);
    view.zoom(old / wide, (now.x + other.x) / 2);
    if (this.start) this.start.moved = true;
  }

  up(event, canvas) {
    const { app } = this;
    const clicked = this.pointers.delete(event.pointerId) && this.start && !this.start.moved;
    if (event.type === "pointerup" && clicked && !this.start.overview) {
      const found = app.at(canvas, event.offsetX, event.offsetY);
      if (found) app.select(found.run, found.i);
      else app.unselect();
    }
    if (!this.pointers.size) this.start = null;
  }

  leave() {
    this.pointerX = null;
    this.app.hover(null);
  }

  // -- keys -----------------------------------------------------------------------------------

  key(event) {
    const { app } = this;
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape") {
      app.escape();
      event.preventDefault();
      return;
    }
    if (event.target.closest("input, select, textarea")) return;
    // Enter, space and arrows do on a button what they do everywhere.
    const onCanvas = [app.dom.trackCanvas, document.body].includes(event.target);
    const act = this.actions(onCanvas)[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    // A notebook has keys of its own, which insert and cut cells: none of them act from in here.
    if (act || event.key.length === 1) event.stopPropagation();
    if (!act) return;
    act();
    event.preventDefault();
  }

  actions(onCanvas) {
    const { app } = this;
    const { view } = app;
    const zoom = (factor) => () => { view.zoom(factor, this.pointerX ?? app.focusX()); app.redraw(); };
    const pan = (pixels) => () => { view.pan(pixels); app.redraw(); };
    const always = {
      w: zoom(1 / 1.35), s: zoom(1.35), "+": zoom(1 / 1.35), "=": zoom(1 / 1.35), "-": zoom(1.35),
      a: pan(-STEP), d: pan(STEP),
      0: () => app.showAll(), f: () => app.showSelected(),
      "[": () => app.walk("before"), "]": () => app.walk("after"),
      l: () => app.toggleLife(), c: () => app.togglePath(),
      n: () => app.nextFound(1), p: () => app.nextFound(-1),
      "/": () => app.dom.search.focus(), "?": () => app.toggleHelp(),
    };
    const arrows = {
      ArrowLeft: () => app.step(-1), ArrowRight: () => app.step(1),
      ArrowUp: () => app.stepLine(-1), ArrowDown: () => app.stepLine(1),
      Home: () => app.showAll(), Enter: () => app.enter(),
      PageUp: () => { app.dom.scroller.scrollTop -= 200; }, PageDown: () => { app.dom.scroller.scrollTop += 200; },
    };
    return onCanvas ? { ...always, ...arrows } : always;
  }
}
