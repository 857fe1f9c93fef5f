// The elements of a timeline.

const KEYS = [
  ["W S, + −", "zoom at the pointer (or Ctrl + wheel, or pinch)"],
  ["A D", "move (or drag, Shift + wheel, a sideways swipe)"],
  ["← →", "previous, next slice of the track"],
  ["↑ ↓", "to the track above, below"],
  ["[ ]", "to what the slice came after, to what came after it"],
  ["l", "the life of the slice's tile"],
  ["c", "only the critical path"],
  ["/ n p", "search, next found, previous found"],
  ["f or Enter, 0", "show the slice, show everything"],
  ["Esc", "undo the marks, then the selection"],
];
const HINT = "Ctrl + wheel or W/S zooms · drag or A/D moves · click a slice · [ ] walks its chain · ? all keys";

/** Build everything inside `root`; `act` has what the buttons do. */
function buildDom(root, header, act) {
  const button = (text, label, click, more = {}) =>
    el("button", { type: "button", "aria-label": label, title: label, click, ...more }, text);
  const dom = { root };
  dom.search = el("input", {
    type: "search", placeholder: "search: exp2 block:3", "aria-label": "Search slices, for example: exp2 block:3",
    spellcheck: "false", input: () => act.search(dom.search.value),
    keydown: (event) => { if (event.key === "Enter") { act.nextFound(event.shiftKey ? -1 : 1); event.preventDefault(); } },
  });
  dom.found = el("span", { class: "fa4-found" });
  dom.path = button("critical path", "Show only the critical path (C)", act.togglePath, { "aria-pressed": "false" });
  dom.align = el("select", { "aria-label": "How the two runs are put together", change: () => act.alignBy(dom.align.selectedIndex) },
    header.alignments.map(({ name, words }) => el("option", { title: words }, `aligned: ${name}`)));
  const bar = el("div", { class: "fa4-bar", role: "toolbar", "aria-label": "Timeline" },
    el("h2", {}, header.title),
    el("span", { class: "fa4-search" }, dom.search, dom.found),
    el("span", { class: "fa4-buttons" },
      header.alignments.length > 1 ? dom.align : null, dom.path,
      button("−", "Zoom out (S)", () => act.zoom(1.6)), button("+", "Zoom in (W)", () => act.zoom(1 / 1.6)),
      button("all", "Show everything (0)", act.showAll), button("?", "Keys (?)", act.toggleHelp)));

  dom.pinCanvas = el("canvas", { class: "fa4-pins", "aria-hidden": "true" });
  dom.pinLabels = el("div", { class: "fa4-pinlabels" });
  dom.trackCanvas = el("canvas", {
    class: "fa4-tracks", tabindex: "0", role: "application", "aria-roledescription": "timeline",
    "aria-label": `Timeline: ${header.title}. Arrow keys move from slice to slice, question mark lists the keys.`,
  });
  dom.labels = el("div", { class: "fa4-labels", role: "group", "aria-label": "Tracks" });
  dom.space = el("div", { class: "fa4-space" }, dom.trackCanvas, dom.labels);
  dom.scroller = el("div", { class: "fa4-scroller" }, dom.space);
  dom.tip = el("div", { class: "fa4-tip", hidden: true, "aria-hidden": "true" });
  dom.stage = el("div", { class: "fa4-stage" },
    el("div", { class: "fa4-pinned" }, dom.pinLabels, dom.pinCanvas), dom.scroller, dom.tip);

  dom.details = el("aside", { class: "fa4-details", "aria-label": "The selected slice" });
  dom.legend = el("div", { class: "fa4-legend" });
  dom.help = el("div", { class: "fa4-help", role: "dialog", "aria-label": "Keys", hidden: true, tabindex: "-1" },
    el("h3", {}, "Keys"),
    el("dl", {}, KEYS.flatMap(([keys, text]) => [el("dt", {}, el("kbd", {}, keys)), el("dd", {}, text)])),
    el("p", {}, "Search: words of an op, a barrier or a role, and tile:0 block:3 stage:1 phase:2 warp:5 cta:0 longer:200 shorter:50."),
    el("button", { type: "button", click: act.toggleHelp }, "close"));
  dom.live = el("div", { class: "fa4-live", role: "status", "aria-live": "polite" });
  dom.foot = el("details", { class: "fa4-foot" }, el("summary", {}, "colours"), dom.legend);
  root.classList.add("fa4-timeline");
  root.setAttribute("role", "group");
  root.setAttribute("aria-label", `Interactive timeline: ${header.title}`);
  root.replaceChildren(bar, el("div", { class: "fa4-body" },
    el("div", { class: "fa4-left" }, dom.stage, el("p", { class: "fa4-hint" }, HINT), dom.foot), dom.details), dom.help, dom.live);
  return dom;
}
