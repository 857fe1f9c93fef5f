// The panel beside the tracks: what is selected, why it waited, what came before and after it, and
// the life of its tile. Texts reach the page as text only, never as markup.

/** An element with attributes (functions become listeners) and children; texts stay texts. */
function el(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") made.addEventListener(name, value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value !== null) made.setAttribute(name, value);
  }
  made.append(...children.flat().filter((child) => child !== null));
  return made;
}

function fact(name, value) {
  return value === "" || value === null ? [] : [el("dt", {}, name), el("dd", {}, value)];
}

class Details {
  constructor(app, place) {
    Object.assign(this, { app, place, listAll: new Set() });
  }

  show() {
    const { selected } = this.app;
    this.place.replaceChildren(...(selected ? this.ofSlice(selected.run, selected.i) : this.ofRuns()));
  }

  swatch(run, i) {
    const look = this.app.painter.looks.slice(run, i);
    return swatch(look);
  }

  ofSlice(run, i) {
    const life = lifeOf(run, i);
    const why = whyWords(run, i);
    return [
      el("h3", {}, this.swatch(run, i), sliceWords(run, i)),
      why ? el("section", { class: "fa4-why" }, el("h4", {}, "Why it waited"), el("p", {}, why)) : null,
      el("dl", {}, this.facts(run, i)),
      this.links("Before it", "[", run, run.before(i)),
      this.links("After it", "]", run, run.after(i)),
      life ? this.life(run, life) : null,
    ].filter(Boolean);
  }

  facts(run, i) {
    const s = run.slice;
    const number = (value) => (value < 0 ? "" : NUMBER.format(value));
    const track = run.track(i);
    const queued = s.busy[i] >= 0 ? s.length[i] - s.busy[i] : 0;
    return [
      this.app.runs.length > 1 ? fact("run", run.label) : [],
      fact("where", [whereWords(track), trackWords(track)].filter(Boolean).join(", ")),
      fact("from", clockTime(run, s.start[i])),
      fact("to", clockTime(run, run.endOf(i))),
      fact("length", lengthWords(run, s.length[i])),
      fact("unit", run.text(s.unit[i])),
      s.busy[i] >= 0 ? fact("busy", `${NUMBER.format(s.busy[i])} of them`) : [],
      queued > 0 ? fact("queued", `${NUMBER.format(queued)} for the unit`) : [],
      s.bytes[i] >= 0 ? fact("bytes", `${NUMBER.format(s.bytes[i])} (expect_tx)`) : [],
      fact("tile", number(s.tile[i])),
      fact("K/V block", number(s.block[i])),
      fact("stage", number(s.stage[i])),
      run.isWait(i) ? fact(run.text(s.kind[i]) || "on", run.name(i)) : [],
      run.isWait(i) ? fact("until", run.means[s.name[i]] || "") : [],
      run.isWait(i) && s.phase[i] >= 0 ? fact("phase", `after ${s.phase[i]} completed (waits on parity ${(s.phase[i] + 1) % 2})`) : [],
      fact("reason", run.text(s.reason[i])),
      run.grain ? fact("clock", run.grain) : [],
      ...this.counters(run, i),
    ].flat();
  }

  /** What the main counters of its CTA stood at when the slice began. */
  counters(run, i) {
    const { cta, sm } = run.track(i);
    const mine = run.counters.filter((each) => each.cta === cta && each.sm === sm && FIRST_COUNTERS.includes(each.name));
    return mine.map((each) => fact(counterName(each), `${NUMBER.format(counterValue(each, run.x0[i]))} of at most ${NUMBER.format(each.most)}`));
  }

  links(title, key, run, links) {
    const direct = links.filter((link) => link.direct);
    const most = this.listAll.has(title) ? Infinity : 8;
    const items = links.slice(0, most).map(({ slice, what, time }) =>
      el("li", {}, el("button", { type: "button", click: () => this.app.select(run, slice, { reveal: true }) },
        this.swatch(run, slice), el("span", {}, sliceWords(run, slice)),
        el("small", {}, [trackWords(run.track(slice)), what, time >= 0 ? `at ${clockTime(run, time)}` : ""].filter(Boolean).join(" · ")))));
    if (links.length > most) {
      const more = () => { this.listAll.add(title); this.show(); };
      items.push(el("li", {}, el("button", { type: "button", click: more }, `show all ${links.length}`)));
    }
    const count = direct.length ? `${direct.length} direct` : "none direct";
    return el("section", {}, el("h4", {}, `${title} (${count}) `, el("kbd", {}, key)),
      links.length ? el("ul", { class: "fa4-links fa4-two" }, items) : el("p", {}, "Nothing recorded."));
  }

  life(run, life) {
    const block = life.block >= 0 ? `, K/V block ${life.block}` : "";
    const shown = this.app.showsLife();
    const steps = life.steps.map((step) => {
      const warps = step.warps.size > 1 ? ` × ${step.warps.size} warps` : "";
      return el("li", {}, el("button", { type: "button", click: () => this.app.select(run, step.slice, { reveal: true, keepLife: true }) },
        this.swatch(run, step.slice), el("span", {}, opWords(run, step.slice)),
        el("small", {}, `${run.track(step.slice).role}${warps} · ${clockTime(run, step.start)} – ${clockTime(run, step.end)}`)));
    });
    return el("section", { class: "fa4-life" },
      el("h4", {}, `Life of this tile: tile ${life.tile}${block} `, el("kbd", {}, "l")),
      el("button", { type: "button", "aria-pressed": String(shown), click: () => this.app.toggleLife() },
        shown ? "show everything again" : "highlight it"),
      el("ol", { class: "fa4-links" }, steps),
      life.places.length ? this.places(run, life.places) : null);
  }

  places(run, places) {
    const { lives } = run;
    const time = (value) => (value < 0 ? "–" : clockTime(run, value));
    const rows = places.map((k) => el("tr", {},
      el("th", { scope: "row" }, run.text(lives.tensor[k]) + subscript(lives.stage[k])),
      [run.text(lives.slot[k]) || run.text(lives.space[k]), time(lives.birth[k]), time(lives.first_use[k]), time(lives.last_use[k]), time(lives.death[k])]
        .map((text) => el("td", {}, text))));
    return el("div", { class: "fa4-scrollable", tabindex: "0", role: "region", "aria-label": "Where the tile's data lay" },
      el("table", {}, el("caption", {}, "Where its data lay"),
        el("thead", {}, el("tr", {}, ["", "where", "birth", "first use", "last use", "free"].map((text) => el("th", { scope: "col" }, text)))),
        el("tbody", {}, rows)));
  }

  /** With nothing selected: what these runs are. */
  ofRuns() {
    return this.app.runs.map((run) => {
      const length = lengthWords(run, run.end);
      return el("section", {},
        el("h3", {}, run.label),
        el("p", {}, [run.words, length, `${NUMBER.format(run.count)} slices`].filter(Boolean).join(" · ")),
        run.grain ? el("p", {}, run.grain) : null,
        el("details", {}, el("summary", {}, "about this trace"),
          el("dl", {}, run.about.flatMap(([name, value]) => fact(name, value)))));
    }).concat(this.app.runs.length > 1 ? el("p", {}, `Put together: ${this.app.alignment.words}.`) : [], el("p", { class: "fa4-hint" }, "Select a slice: click it, or press Tab to reach the tracks and then the arrow keys."));
  }
}

/** A little sample of a look. */
function swatch(look) {
  const canvas = el("canvas", { class: "fa4-swatch", width: "32", height: "24", "aria-hidden": "true" });
  const context = canvas.getContext("2d");
  context.fillStyle = look.fill;
  context.fillRect(0, 0, 32, 24);
  if (look.hatch) {
    context.setTransform(2, 0, 0, 2, 0, 0);
    context.fillStyle = context.createPattern(hatchTile(look), "repeat");
    context.fillRect(0, 0, 16, 12);
  }
  return canvas;
}

/** Every look that the runs use, with its name. */
function legend(looks) {
  const seen = (kind) => {
    const groups = new Map();
    for (const of of looks.of) for (const look of of[kind].values()) groups.set(look.group, look);
    return [...groups].map(([group, look]) => el("li", {}, swatch(look), group));
  };
  const part = (title, items) => (items.length ? [el("h4", {}, title), el("ul", {}, items)] : []);
  return [...part("Working", seen("ops")), ...part("Waiting for (slim, in the colour of who should arrive)", seen("waits"))];
}
