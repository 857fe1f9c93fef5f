// The window of time that shows, and the marks of its ruler.

/** From `t0` to `t1` over `width` pixels. It stays within the runs, with a little room. */
class View {
  constructor(first, last) {
    this.limits = { first, last: Math.max(last, first + 1) };
    this.width = 600;
    this.show(first, last);
  }

  get scale() {
    return this.width / (this.t1 - this.t0);
  }

  x(time) {
    return (time - this.t0) * this.scale;
  }

  time(x) {
    return this.t0 + x / this.scale;
  }

  show(t0, t1) {
    const { first, last } = this.limits;
    const room = 0.02 * (last - first);
    const most = last - first + 2 * room;
    const long = Math.min(most, Math.max(t1 - t0, Math.min(16, most)));
    const middle = (t0 + t1) / 2;
    this.t0 = Math.min(Math.max(middle - long / 2, first - room), last + room - long);
    this.t1 = this.t0 + long;
  }

  showAll() {
    this.show(this.limits.first, this.limits.last);
  }

  /** Make a pixel `factor` times as long; the time at pixel `x` stays where it is. */
  zoom(factor, x = this.width / 2) {
    const at = this.time(x);
    this.show(at - (at - this.t0) * factor, at + (this.t1 - at) * factor);
  }

  pan(pixels) {
    const moved = pixels / this.scale;
    this.show(this.t0 + moved, this.t1 + moved);
  }

  /** Move, and if need be zoom out, until [x0, x1] shows. */
  reveal(x0, x1) {
    const long = this.t1 - this.t0;
    const room = 0.08 * long;
    if (x1 - x0 > 0.9 * long) this.show(x0 - 0.2 * (x1 - x0), x1 + 0.2 * (x1 - x0));
    else if (x0 < this.t0 + room) this.show(x0 - 3 * room, x0 - 3 * room + long);
    else if (x1 > this.t1 - room) this.show(x1 + 3 * room - long, x1 + 3 * room);
  }
}

/** Round times for a ruler, at least `apart` pixels from each other. */
function ticks(view, apart = 90) {
  const least = Math.max(1, apart / view.scale);
  const power = 10 ** Math.floor(Math.log10(least));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= least);
  const found = [];
  for (let time = Math.ceil(view.t0 / step) * step; time <= view.t1; time += step) found.push(time);
  return found;
}
