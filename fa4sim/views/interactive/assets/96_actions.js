// What a reader can do: select, walk, search, mark. Methods of App that its state is enough for.

const actions = {
  select(run, i, { reveal = false, keepLife = false } = {}) {
    this.selected = { run, i };
    if (reveal) this.reveal(run, i);
    if (this.markedBy === "life" && !keepLife) this.setMarks(this.lifeMarks(), "life");
    this.details.listAll.clear();
    this.details.show();
    this.say(spokenWords(run, i, this.runs));
    const wait = run.isWait(i);
    this.options.onSelect?.({ run: run.number, table: wait ? "wait" : "span", row: run.slice.row[i] });
    this.redraw();
  },

  unselect() {
    this.selected = null;
    if (this.markedBy === "life") this.setMarks(null, "");
    this.details.show();
    this.options.onSelect?.(null);
    this.redraw();
  },

  /** Move the view so that a slice shows, opening what it is folded into. */
  reveal(run, i) {
    const track = run.trackOf[i];
    let opened = false;
    let node = this.trackNodes[run.number][track];
    const shown = this.lineOf(run, track)?.node;
    if (shown !== node && !(shown?.rows.length && shown.rows[0].run === run && run.trackOf[shown.rows[0].ids[0]] === track)) {
      for (node = node.parent; node; node = node.parent) {
        opened ||= !node.open;
        node.toggle(true);
      }
    }
    if (opened) this.relayout();
    this.view.reveal(run.x0[i], run.x1[i]);
    const box = this.canvas.boxOf(run, i);
    const { scroller } = this.dom;
    if (box && box.y < scroller.scrollTop) scroller.scrollTop = box.y - 30;
    if (box && box.y + box.height > scroller.scrollTop + scroller.clientHeight) {
      scroller.scrollTop = box.y + box.height + 30 - scroller.clientHeight;
    }
  },

  /** Along the chain: to what the selected slice came after, or to what came after it. */
  walk(way) {
    if (!this.selected) return this.selectFirst();
    const { run, i } = this.selected;
    const [next] = run[way](i);
    if (next) this.select(run, next.slice, { reveal: true });
    else this.say(way === "before" ? "Nothing is recorded before it." : "Nothing is recorded after it.");
  },

  /** To the next slice of the same row. */
  step(by) {
    if (!this.selected) return this.selectFirst();
    const { run, i } = this.selected;
    const next = i + by;
    if (next >= run.rowFirst[i] && next < run.rowLast[i]) this.select(run, next, { reveal: true });
    else this.say(by < 0 ? "The first of its track." : "The last of its track.");
  },

  /** To the next line that has slices, there to the slice at the same time. */
  stepLine(by) {
    if (!this.selected) return this.selectFirst();
    const { run, i } = this.selected;
    const rows = this.lines.flatMap(({ node }) => (node.kind === "op" ? [] : node.rows));
    const line = this.lineOf(run, run.trackOf[i]);
    const here = rows.findIndex((row) => row.ids[0] === run.rowFirst[i] && row.run === run);
    const from = here >= 0 ? here : rows.indexOf(line?.node.rows[0]);
    const row = rows[from + by];
    if (!row) return this.say(by < 0 ? "The first track." : "The last track.");
    const found = row.at((run.x0[i] + run.x1[i]) / 2, Infinity);
    this.select(row.run, found, { reveal: true });
  },

  selectFirst() {
    const rows = this.lines.flatMap(({ node }) => node.rows);
    const middle = (this.view.t0 + this.view.t1) / 2;
    const row = rows.find((each) => each.at(middle, (this.view.t1 - this.view.t0) / 2) >= 0) ?? rows[0];
    if (row) this.select(row.run, row.at(middle, Infinity), { reveal: true });
  },

  enter() {
    if (this.selected) this.showSelected();
    else this.selectFirst();
  },

  escape() {
    if (!this.dom.help.hidden) return this.toggleHelp();
    if (this.marks) {
      this.dom.search.value = "";
      this.setMarks(null, "");
    } else if (this.selected) {
      this.unselect();
    }
    this.dom.trackCanvas.focus({ preventScroll: true });
  },

  // -- the view -------------------------------------------------------------------------------

  zoom(factor) {
    this.view.zoom(factor, this.focusX());
    this.redraw();
  },

  showAll() {
    this.view.showAll();
    this.redraw();
  },

  showSelected() {
    if (!this.selected) return;
    const { run, i } = this.selected;
    const room = 2 * Math.max(8, run.x1[i] - run.x0[i]);
    this.view.show(run.x0[i] - room, run.x1[i] + room);
    this.redraw();
  },

  alignBy(number) {
    this.alignment = this.header.alignments[number];
    this.runs[1].align(this.alignment);
    const { t0, t1 } = this.view;
    this.fitRuns();
    this.view.show(t0, t1);
    this.details.show();
    this.redraw();
    this.say(this.alignment.words);
  },

  // -- marks ----------------------------------------------------------------------------------

  setMarks(marks, by) {
    this.marks = marks;
    this.markedBy = marks ? by : "";
    this.foundAt = -1;
    this.dom.path.setAttribute("aria-pressed", String(this.markedBy === "path"));
    if (by !== "search") this.dom.search.value = "";
    this.dom.found.textContent = this.markedBy === "search" ? `${NUMBER.format(marks.total)} found` : "";
    this.details.show();
    this.redraw();
  },

  search(text) {
    const marks = search(this.runs, text);
    this.setMarks(marks, "search");
    if (marks) this.say(`${NUMBER.format(marks.total)} slices found`);
  },

  nextFound(by) {
    if (!this.marks?.total) return;
    const all = (this.marks.sorted ??= this.marks.inOrder(this.runs));
    if (this.foundAt < 0) {
      const middle = this.view.t0;
      const next = all.findIndex(({ run, i }) => run.x1[i] > middle);
      this.foundAt = (by > 0 ? Math.max(0, next) : Math.max(0, next) - 1 + all.length) % all.length;
    } else {
      this.foundAt = (this.foundAt + by + all.length) % all.length;
    }
    const { run, i } = all[this.foundAt];
    this.select(run, i, { reveal: true, keepLife: true });
    const words = `${NUMBER.format(this.foundAt + 1)} of ${NUMBER.format(all.length)}`;
    if (this.markedBy === "search") this.dom.found.textContent = words;
    this.say(`${words}: ${spokenWords(run, i, this.runs)}`);
  },

  togglePath() {
    const on = this.markedBy === "path";
    this.setMarks(on ? null : onPath(this.runs), "path");
    this.say(on ? "Everything shows." : `Only the critical path: ${NUMBER.format(this.marks.total)} slices.`);
  },

  showsLife() {
    return this.markedBy === "life";
  },

  lifeMarks() {
    if (!this.selected) return null;
    const { run, i } = this.selected;
    const life = lifeOf(run, i);
    return life && new Marks(this.runs, this.runs.map((each) => (each === run ? life.ids : [])));
  },

  toggleLife() {
    if (this.showsLife()) return this.setMarks(null, "");
    const marks = this.lifeMarks();
    if (!marks) return this.say("Select a slice that works on a tile first.");
    this.setMarks(marks, "life");
    this.say(`The life of this tile: ${NUMBER.format(marks.total)} slices.`);
  },

  toggleHelp() {
    const { help, trackCanvas } = this.dom;
    help.hidden = !help.hidden;
    (help.hidden ? trackCanvas : help).focus();
  },
};
Object.assign(App.prototype, actions);
